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
	w.calm()
	pass(7 * time.Second) // a swap may have its effect late
	if w.primary() != primary || w.entry().Primary != primary.loadRole().Disk {
		standby.boot()
		return
	}
	w.starts(standby, primary)
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
	m.mu.Lock()
	m.harm.what = "a copy of " + of.name
	m.mu.Unlock()
	m.boot()
	w.copied++
	pass(3 * time.Second)
	require.False(w, m.serves(), "a copy serves beside its original")
	m.die(100)
	m.heal()
}
