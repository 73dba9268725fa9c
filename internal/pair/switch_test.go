package pair_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// slowStandby returns a pair whose standby has more than the given number of bytes of the stream that it has not applied.
func (w *world) slowStandby(rest int64) (primary, standby *machine) {
	w.Helper()
	w.boot()
	_, standby = w.settle()
	pass(5 * time.Second)
	standby.exit()
	standby.slow.Store(int64(3 * time.Second))
	standby.boot()
	primary, standby = w.settle()
	w.bucket.set(primary.number(), way{away: true}) // it cannot go alone, though the standby is slow
	w.until(func() bool { return standby.standby.Status().Lag > rest })
	return primary, standby
}

// A switch ends although the standby applies slowly, and the primary gives the switch up meanwhile: one machine is the
// primary, the other machine is its standby, and no answered write is lost.
func TestASwitchToASlowStandbyEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		a, b := w.slowStandby(1 << 20)
		require.ErrorIs(w, a.handOver(), pair.ErrAway)
		a.exit()
		w.takesOver(b)
		primary, standby := w.settle()
		require.Equal(w, []*machine{b, a}, []*machine{primary, standby})
		w.works()
		w.end()
	})
}

// During a switch nobody answers until the standby has applied everything, so a switch waits until little is left.
func TestAStandbyCatchesUpBeforeASwitch(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		_, b := w.slowStandby(3 << 19)
		soon, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		err := b.standby.CatchUp(soon)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.ErrorContains(w, err, "has not applied")
		require.Equal(w, 1, w.logs.FilterMessageSnippet("the switch waits").Len())
		time.AfterFunc(10*time.Second, func() { b.slow.Store(0) })
		require.NoError(w, b.standby.CatchUp(w.Context()))
		require.Less(w, b.standby.Status().Lag, int64(1<<20))

		b.slow.Store(int64(3 * time.Second))
		w.until(func() bool { return b.standby.Status().Lag > 1<<20 })
		w.network.set(true)
		pass(time.Minute)
		require.NoError(w, b.standby.CatchUp(w.Context()), "nothing is applied without a session")
		b.slow.Store(0)
		w.end()
	})
}

// A standby that cannot read the register claims nothing, so the primary stays the primary, without a seed.
func TestASwitchWithoutAnAnswerOfTheRegisterChangesNothing(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		disk := a.loadRole().Disk
		w.bucket.set(b.number(), way{blind: true})
		require.ErrorIs(w, a.handOver(), pair.ErrAway)
		a.exit()
		require.Equal(w, disk, w.entry().Primary)
		a.boot()
		primary, _ := w.settle()
		require.Equal(w, a, primary)
		require.Equal(w, disk, a.loadRole().Disk)
		w.end()
	})
}

// After a claim that failed, the term of the new primary is later than the next term. A switch needs no seed then.
func TestASwitchAfterAFailedClaimNeedsNoSeed(t *testing.T) {
	t.Parallel()
	inPair(t, 2, func(w *world, a, b *machine) {
		w.bucket.set(b.number(), way{after: time.Hour})
		require.Error(w, b.standby.Promote(w.Context(), false))
		b.exit()
		require.Greater(w, b.loadRole().Claimed, b.loadRole().Term)
		b.boot()
		w.settle()
		term, disk := a.loadRole().Term, a.loadRole().Disk
		require.NoError(w, a.handOver())
		a.exit()
		w.takesOver(b)
		require.Greater(w, b.loadRole().Term, term+1)
		_, standby := w.settle()
		require.Equal(w, a, standby)
		require.Equal(w, disk, a.loadRole().Disk, "a seed has a disk of its own")
		w.end()
	})
}
