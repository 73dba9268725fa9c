package pair_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/pair"
)

// storms is the number of storms of a test.
var storms = flag.Int("storms", 12, "the number of storms")

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
		if m.process.primary == nil && m.process.standby == nil {
			m.open(0)
			continue
		}
		if m.process.primary != nil {
			select {
			case <-m.process.primary.Over():
				if reason := m.process.primary.Reason(); !errors.Is(reason, pair.ErrReplaced) {
					require.True(w, m.refuses(reason) && !w.Failed())
					continue
				}
				m.die(100)
				m.boot()
			case <-m.process.primary.Moved():
				m.exit()
				m.boot()
			default:
			}
			continue
		}
		select {
		case o := <-m.ran:
			if o.error == nil && o.Outcome == pair.TakeOver {
				w.failovers++
				m.exit()
				m.boot()
				continue
			}
			if o.error == nil && o.Outcome == pair.Moved {
				m.exit()
				m.boot()
				continue
			}
			require.True(w, m.refuses(o.error), "the standby has ended: %s: %v", m.name, o.Outcome)
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
	switch w.rng.IntN(5) {
	case 0:
		w.cutPower(primary)
	case 1:
		w.network.set(true)
	case 2: // the promises arrive late
		w.network.hold(false, true)
		time.AfterFunc(time.Duration(w.rng.IntN(2900))*time.Millisecond, func() { w.network.hold(false, false) })
	case 3: // the primary has started, and the standby has lost its memory
		w.cutPower(standby)
		w.network.set(w.rng.IntN(2) == 0)
		standby.boot()
	default:
	}
	if standby.process.standby == nil {
		return
	}
	if standby.promote() != nil { // the register is away, or the primary has won
		standby.exit()
		return
	}
	w.promotions++
}

// switchRoles lets the primary hand over. Something may happen meanwhile.
func (w *world) switchRoles() {
	w.Helper()
	m := w.primary()
	if m == nil || m.process.primary.Status().Mode != pair.ModePaired {
		return
	}
	if w.rng.IntN(3) == 0 {
		time.AfterFunc(time.Duration(w.rng.IntN(100))*time.Millisecond, w.network.drop)
	}
	err := m.handOver()
	if err == nil {
		w.switches++
	}
	w.log.Info("switch", zap.Error(err))
	if w.rng.IntN(2) == 0 {
		m.die(w.rng.IntN(101))
	} else {
		m.exit()
	}
}

func (w *world) random() *machine { return w.machines[w.rng.IntN(2)] }

func (w *world) step() {
	w.Helper()
	switch w.rng.IntN(23) - 3 {
	case -3:
		w.interrupts()
	case -2:
		w.stops()
	case -1:
		w.reseeds()
	case 0, 1, 2, 3, 4:
		pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	case 5:
		w.network.drop()
	case 6:
		w.network.hold(w.rng.IntN(2) == 0, w.rng.IntN(2) == 0)
		if w.rng.IntN(2) == 0 { // the bytes arrive late
			pass(time.Duration(w.rng.IntN(2900)) * time.Millisecond)
			w.network.hold(false, false)
		}
	case 7:
		w.network.set(w.rng.IntN(2) == 0)
	case 8, 9:
		w.cutPower(w.random())
		pass(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
	case 10:
		w.failOver()
	case 11:
		w.switchRoles()
	case 13, 14, 15:
		w.disturb()
	case 16:
		w.calm()
	case 17, 18: // a machine is away for longer
		w.cutPower(w.random())
		pass(time.Duration(w.rng.IntN(15_000)) * time.Millisecond)
	case 19:
		w.force()
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
	w.calm()
	w.repair()
	for range 600 {
		// No poll is at the instant of a timer: at the end of the patience a primary that lost its standby still looks paired,
		// while the register has the swap.
		pass(500*time.Millisecond + 100*time.Microsecond)
		w.tend()
		if primary = w.primary(); primary != nil && primary.process.primary.Status().Connected {
			standby = w.peer(primary)
			if standby.process != nil && standby.process.standby != nil && primary.process.primary.Status().Mode == pair.ModePaired &&
				standby.process.standby.Status().Mode == pair.ModePaired && standby.process.standby.Status().Term == primary.process.primary.Status().Term {
				w.mu.Lock()
				defer w.mu.Unlock()
				primary.forced, standby.forced = false, false
				return primary, standby
			}
		}
	}
	require.Fail(w, "the machines do not become a pair")
	return nil, nil
}

// Whatever happens to the machines and the network, and with a register that is away, slow, or loses answers: a machine that serves has every
// answered write, and no machine answers reads beside it. At the end the register and the roles agree.
func TestAPairInAStorm(t *testing.T) {
	t.Parallel()
	inBubble(t, *storms, func(w *world) {
		w.draws()
		w.boot()
		w.settle()
		for range 40 {
			w.spoilSome()
			w.step()
		}
		w.end()
		w.report()
	})
}

func (w *world) report() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Log("writes", w.last, "answered", w.answered[1]["count"], w.answered[2]["count"], "promotions", w.promotions, "switches", w.switches, "failovers", w.failovers, "successions", w.successions, "completed", w.completed, "spoiled disks", w.spoiled, "interrupted promotions", w.interrupted, "stops", w.stopped, "copies", w.copied)
}

// boot starts both machines.
func (w *world) boot() {
	w.Helper()
	for _, m := range w.machines {
		m.boot()
	}
}

// end ends both machines, when they have the same data.
func (w *world) end() {
	w.Helper()
	primary, standby := w.settle()
	w.agree(primary, standby)
	close(primary.process.stop)
	pass(3 * time.Second)
	primary.die(100)
	require.NoError(w, standby.standby.Promote(w.Context(), false))
	standby.die(100)
	w.same()
	standby.boot()
	pass(time.Second)
	standby.die(100)
}
