package pair_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// primary returns the machine that is the primary of the latest term, nil if none runs.
func (w *world) primary() (found *machine) {
	for _, m := range w.machines {
		if m.process != nil && m.process.primary != nil && (found == nil || m.process.primary.Status().Term > found.process.primary.Status().Term) {
			found = m
		}
	}
	return found
}

// tend starts the processes that do not run, and makes a primary the standby of a newer one.
func (w *world) tend() {
	w.Helper()
	for _, m := range w.machines {
		if m.process == nil {
			m.boot()
			continue
		}
		if m.process.primary != nil {
			select {
			case <-m.process.primary.Replaced():
				m.die(100)
				m.begin()
				m.submit()
			default:
			}
			continue
		}
		select {
		case o := <-m.ran:
			require.Failf(w, "the standby has ended", "%s: %v %v", m.name, o.Outcome, o.error)
		default:
		}
	}
}

// cutPower ends the process of a machine as a power cut or kill -9 does.
func (w *world) cutPower(m *machine) {
	w.Helper()
	if m.process == nil {
		return
	}
	kept := 100
	if w.rng.IntN(2) == 0 {
		kept = w.rng.IntN(101)
	}
	m.die(kept)
}

// fail over promotes the standby if it may be promoted. The primary may be dead, or only unreachable.
func (w *world) failOver() {
	w.Helper()
	primary := w.primary()
	if primary == nil {
		return
	}
	standby := w.peer(primary)
	if standby.process == nil || standby.process.standby == nil {
		return
	}
	switch w.rng.IntN(3) {
	case 0:
		w.cutPower(primary)
	case 1:
		w.network.set(true)
	default:
	}
	err := standby.promote()
	if errors.Is(err, pair.ErrNotPaired) || errors.Is(err, pair.ErrSeeding) {
		return
	}
	require.NoError(w, err)
	w.promotions++
}

func (w *world) random() *machine { return w.machines[w.rng.IntN(2)] }

func (w *world) step() {
	w.Helper()
	switch w.rng.IntN(12) {
	case 0, 1, 2, 3, 4:
		pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	case 5:
		w.network.drop()
	case 6:
		w.network.hold(w.rng.IntN(2) == 0, w.rng.IntN(2) == 0)
	case 7:
		w.network.set(w.rng.IntN(2) == 0)
	case 8, 9:
		w.cutPower(w.random())
		pass(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
	case 10:
		w.failOver()
	default:
		w.network.set(false)
		pass(time.Duration(w.rng.IntN(20_000)) * time.Millisecond)
	}
	w.tend()
}

// settle lets the machines become a pair again.
func (w *world) settle() (primary, standby *machine) {
	w.Helper()
	w.network.set(false)
	w.network.drop()
	for range 600 {
		pass(500 * time.Millisecond)
		w.tend()
		if primary = w.primary(); primary != nil && primary.process.primary.Status().Connected {
			standby = w.peer(primary)
			if standby.process.standby != nil && standby.process.standby.Status().Mode == pair.ModePaired {
				return primary, standby
			}
		}
	}
	require.Fail(w, "the machines do not become a pair")
	return nil, nil
}

// Whatever happens to the machines and the network: a machine that serves has every answered write, and no machine
// answers reads beside it.
func TestAPairInAStorm(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	inBubble(t, seeds, func(w *world) {
		for _, m := range w.machines {
			m.boot()
		}
		w.settle()
		for range 40 {
			w.step()
		}
		primary, standby := w.settle()
		close(primary.process.stop)
		pass(3 * time.Second)
		primary.die(100)
		require.NoError(w, standby.standby.Promote(w.Context(), false))
		standby.die(100)
		w.same()
		standby.boot()
		pass(time.Second)
		standby.die(100)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.Log("writes", w.last, "answered", w.answered[1]["count"], w.answered[2]["count"], "promotions", w.promotions)
	})
}
