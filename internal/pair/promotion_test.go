package pair_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/follow"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

var errInterrupted = errors.New("interrupted")

// interrupt begins a promotion, and ends the process of the machine: after a time, or, if the time is 0, when the stores have the whole tail.
func (m *machine) interrupt(after time.Duration) { m.interruptPromotion(after, false) }

// interruptForced interrupts a promotion that accepts a loss.
func (m *machine) interruptForced(after time.Duration) { m.interruptPromotion(after, true) }

func (m *machine) interruptPromotion(after time.Duration, acceptLoss bool) {
	m.Helper()
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	if after == 0 {
		m.mu.Lock()
		m.breaks = errInterrupted
		m.mu.Unlock()
	}
	go func() { done <- m.standby.Promote(ctx, acceptLoss) }()
	if after > 0 {
		pass(after)
		cancel(errInterrupted)
	}
	err := <-done
	m.mu.Lock()
	m.breaks = nil
	m.mu.Unlock()
	m.log.Info("interrupted promotion", zap.Error(err))
	m.die(100)
}

// ahead lets a primary lose its power when its standby has bytes which the primary has not synced. It reports whether the primary has lost some.
func (w *world) ahead(a, b *machine) bool {
	w.Helper()
	w.network.delay.Store(int64(0))
	pass(3 * time.Second)
	all, _ := a.process.primary.Archive()
	w.until(func() bool { return !all.Safe().Covers(b.standby.Status().At) })
	a.die(0)
	end, err := follow.Stores{FS: a.mem, Queue: path(stream.Queue), Table: path(stream.Table)}.End()
	require.NoError(w, err)
	return !end.Covers(b.standby.Status().At)
}

// A promotion that is interrupted leaves stores that are a prefix of the stores of the primary, or it is not the standby of this primary any
// more: the primary may come back after a power cut.
func TestAnInterruptedPromotionLeavesNoGhosts(t *testing.T) {
	t.Parallel()
	lost := 0
	inBubble(t, 6, func(w *world) { // interrupted before anything is irreversible
		w.boot()
		a, b := w.settle()
		if w.ahead(a, b) {
			lost++
		}
		b.interrupt(200*time.Millisecond + time.Duration(w.rng.IntN(2800))*time.Millisecond)
		disk := b.loadRole().Disk
		a.boot()
		b.boot()
		w.settle()
		require.Equal(w, disk, b.loadRole().Disk, "the standby gets a seed")
		w.end()
	})
	require.Positive(t, lost)
}

// An interrupted promotion that has applied writes that the primary has lost is ended by another promotion, or by a seed.
func TestAnInterruptedPromotionEnds(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(w *world, a, b *machine){
		"promoted again": func(w *world, a, b *machine) {
			a.die(100)
			require.NoError(w, b.promote())
		},
		"seeded": func(w *world, a, b *machine) {
			a.die(100)
			require.NoError(w, a.loadRole().Unpair()) // as the primary's refusal tells its operator
			a.boot()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 4, func(w *world) {
				w.boot()
				a, b := w.settle()
				w.ahead(a, b)
				b.interrupt(0)
				require.True(w, b.loadRole().Promoting)
				a.boot()
				b.boot()
				pass(5 * time.Second)
				w.names(b.standby.Status, pair.ErrMustSeed.Error())
				ends(w, a, b)
				w.settle()
				for _, m := range w.machines {
					require.False(w, m.loadRole().Promoting)
				}
				w.end()
			})
		})
	}
}

// With a register, a start ends an interrupted promotion, whenever it was interrupted: the register names the new primary before the stores get
// writes that the old one has lost.
func TestAnInterruptedClaimIsEndedByTheStart(t *testing.T) {
	t.Parallel()
	withRegister(t, 12, func(w *world, a, b *machine) {
		pass(alone)
		w.ahead(a, b)
		switch after := time.Duration(w.seed) * 300 * time.Millisecond; {
		case w.seed == 0:
			b.interrupt(0)
		case w.seed < 4: // the swap is slow, or has its effect late
			w.bucket.set(b.number(), way{late: time.Second, after: time.Duration(w.seed-2) * 500 * time.Millisecond})
			b.interrupt(after)
			w.calm()
		default:
			b.interrupt(after)
		}
		a.boot()
		b.boot()
		w.settle()
		require.False(w, b.loadRole().Promoting)
		w.works()
		w.end()
	})
}
