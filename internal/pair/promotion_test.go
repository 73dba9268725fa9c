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

// A promotion that is interrupted before its claim leaves stores that are a prefix of the stores of the primary, which may come back after a power cut.
func TestAnInterruptedPromotionLeavesNoGhosts(t *testing.T) {
	t.Parallel()
	lost := 0
	inBubble(t, 6, func(w *world) { // interrupted before anything is irreversible
		w.boot()
		a, b := w.settle()
		if w.ahead(a, b) {
			lost++
		}
		w.bucket.set(b.number(), way{slow: timing.Lease})
		b.interrupt(200*time.Millisecond + time.Duration(w.rng.IntN(2800))*time.Millisecond)
		w.calm()
		disk := b.loadRole().Disk
		a.boot()
		b.boot()
		w.settle()
		require.Equal(w, disk, b.loadRole().Disk, "the standby gets a seed")
		w.works()
		w.end()
	})
	require.Positive(t, lost)
}

// A start ends an interrupted promotion, whenever it was interrupted: the register names the new primary before the stores get
// writes that the old one has lost.
func TestAnInterruptedClaimIsEndedByTheStart(t *testing.T) {
	t.Parallel()
	inPair(t, 12, func(w *world, a, b *machine) {
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
		w.works()
		w.end()
	})
}

// If the register and the primary are gone for good, the standby has each answered write. An operator makes it the first entry of a new register,
// and the old primary, which was not gone, answers nothing beside it (P14).
func TestAStandbyFoundsANewRegister(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		w.boot()
		a, b := w.settle()
		if w.seed%2 == 0 {
			w.works()
			a.die(100)
		} else { // the operator is wrong, and the primary has answered alone
			w.network.set(true)
			w.mode(a, pair.ModeAlone)
			pass(20 * time.Second)
		}
		pass(5 * time.Second)
		require.ErrorIs(w, b.standby.Refound(w.Context()), pair.ErrEntry)
		b.exit()
		w.bucket.empty()
		b.boot()
		for _, acceptLoss := range []bool{false, true} {
			require.ErrorIs(w, b.standby.Promote(w.Context(), acceptLoss), pair.ErrNoPrimary)
		}
		w.set(&b.forced, w.seed%2 == 1)
		if w.seed == 2 { // interrupted behind the swap
			soon, cancel := context.WithTimeout(w.Context(), time.Second)
			require.Error(w, b.standby.Refound(soon))
			cancel()
			b.exit()
			b.boot()
			w.takesOver(b)
		} else {
			require.NoError(w, b.standby.Refound(w.Context()))
			b.exit()
			b.boot()
		}
		w.mode(b, pair.ModeAlone)
		w.until(b.serves)
		pass(alone)
		w.works()
		w.tend()
		w.end()
	})
}
