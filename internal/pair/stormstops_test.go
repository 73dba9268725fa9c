package pair_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// follower returns the standby of the primary, nil if it does not run.
func (w *world) follower() (primary, standby *machine) {
	if primary = w.primary(); primary == nil {
		return nil, nil
	}
	if standby = w.peer(primary); standby.process == nil || standby.process.standby == nil {
		return primary, nil
	}
	return primary, standby
}

// interrupts ends a promotion at some moment, and starts the machine again as it is.
func (w *world) interrupts() {
	w.Helper()
	primary, standby := w.follower()
	if standby == nil {
		return
	}
	if w.rng.IntN(2) == 0 {
		w.cutPower(primary)
	} else {
		w.network.set(true)
	}
	standby.interrupt(time.Duration(w.rng.IntN(2)*w.rng.IntN(4000)) * time.Millisecond)
	w.interrupted++
	w.network.set(false)
}

// concludes ends a promotion without a register that was interrupted, in one of the two ways that an operator has.
func (w *world) concludes(m *machine) bool {
	w.Helper()
	peer := w.peer(m)
	if m.process.standby == nil || !m.loadRole().Promoting || peer.process == nil || peer.process.primary == nil || peer.loadRole().Mode != pair.ModePaired {
		return false
	}
	peer.die(100)
	if w.rng.IntN(2) == 0 && m.standby.Promote(m.ctx, false) == nil {
		m.die(100)
		m.boot()
		return true
	}
	require.NoError(w, peer.loadRole().Unpair())
	m.die(100)
	m.replace(pair.RoleStandby)
	m.boot()
	peer.boot()
	return true
}

// stops ends a standby in order while its primary sends, and starts it again.
func (w *world) stops() {
	w.Helper()
	_, standby := w.follower()
	if standby == nil {
		return
	}
	for range 1 + w.rng.IntN(3) {
		standby.exit()
		w.stopped++
		pass(time.Duration(w.rng.IntN(600)) * time.Millisecond)
		standby.boot()
		pass(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
		if standby.process.standby == nil {
			return
		}
	}
}

// reseeds takes the disk of a standby away, and stops the standby in order during its seed. In between, the machine may start with a copy of
// the primary's disk, which must not serve.
func (w *world) reseeds() {
	w.Helper()
	primary, standby := w.follower()
	if standby == nil || !primary.process.primary.Status().Connected {
		return
	}
	standby.exit()
	w.network.set(false)
	if w.bucket == nil {
		primary.die(100)
		require.NoError(w, primary.loadRole().Unpair())
		primary.boot()
		w.starts(standby, primary)
	} else {
		w.calm()
		pass(7 * time.Second) // a swap may have its effect late
		if w.primary() != primary || w.entry().Primary != primary.loadRole().Disk {
			standby.boot()
			return
		}
	}
	standby.replace(pair.RoleStandby)
	standby.boot()
	pass(time.Duration(w.rng.IntN(300)) * time.Millisecond)
	w.stops()
}

// starts lets a machine begin with a copy of another machine's disk, at times.
func (w *world) starts(m, of *machine) {
	w.Helper()
	if w.rng.IntN(2) == 0 {
		return
	}
	m.copies(of)
	m.boot()
	w.copied++
	pass(3 * time.Second)
	require.False(w, m.serves(), "a copy serves beside its original")
	m.die(100)
}
