package pair_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// rewind puts an earlier copy of the machine's disk back. Its role is still the newest one. The machines away die, too.
func (m *machine) rewind(away ...*machine) {
	m.Helper()
	old := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: m.rng})
	pass(5 * time.Second)
	m.die(100)
	for _, other := range away {
		other.die(100)
	}
	m.mem = old
	m.boot()
}

// ceases expects that the primary of an old copy ends.
func (m *machine) ceases() {
	m.Helper()
	for range 100 {
		m.open(0)
		if m.process.primary != nil {
			break
		}
		pass(20 * time.Millisecond)
	}
	select {
	case <-m.process.primary.Over():
		require.ErrorIs(m, m.process.primary.Reason(), pair.ErrRewound)
	case <-time.After(time.Minute):
		require.Fail(m, "the primary of an old copy does not end")
	}
	m.stands()
	m.die(100)
}

// A primary whose disk is an old copy lacks writes that the standby has. It ends, and its standby keeps all, and is promoted (P9).
func TestAnOldCopyOfThePrimaryIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		pass(2 * time.Second)
		a.rewind()
		p := a.process
		a.ceases()
		require.False(w, w.served(p), "the primary of an old copy serves")
		require.NoError(w, b.promote())
		pass(5 * time.Second)
		w.tend()
		w.end()
	})
}

// An old copy of the disk does not go alone either, even if its standby does not connect with it: the primary asks the standby first. So the
// register has the pair, and allows the promotion.
func TestAnOldCopyOfThePrimaryDoesNotGoAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, 6, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		pass(2 * time.Second)
		w.set(&b.mute, w.seed%2 > 0) // the session continues
		a.rewind()
		p := a.process
		a.ceases()
		require.False(w, w.served(p), "the primary of an old copy serves")
		require.Equal(w, pair.ModePaired, w.entry().Mode)
		require.NoError(w, b.promote())
		pass(5 * time.Second)
		w.works()
		w.set(&b.mute, false)
		w.tend()
		w.end()
	})
}

// An old copy whose standby was away is alone, and has newer logs than its standby when the standby is back.
func TestAnOldCopyThatIsAloneEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		pass(2 * time.Second)
		w.set(&a.forced, true)
		a.rewind(b)
		w.mode(a, pair.ModeAlone)
		pass(5 * time.Second)
		w.works()
		b.boot()
		a.ceases()
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		require.NoError(w, b.standby.Promote(w.Context(), true))
		w.set(&b.forced, true)
		b.exit()
		b.boot()
		w.tend()
		w.end()
	})
}

// The first ack of the standby lets a primary open its stores, which waits for more acks. If the standby is promoted instead, the
// start ends without an answer to anybody.
func TestAStartThatIsReplacedEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.network.delay.Store(int64(200 * time.Millisecond))
		w.boot()
		a, b := w.settle()
		pass(2 * time.Second)
		a.die(100)
		a.boot()
		w.until(func() bool { return a.process.primary.Status().Ack.Duration > 0 })
		w.network.set(true)
		w.bucket.set(a.number(), way{away: true}) // else the register ends the start
		require.NoError(w, b.promote())
		w.network.set(false)
		started := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return a.started
		}
		require.False(w, started())
		require.True(w, w.within(30*time.Second, started), "the start still waits for its standby")
		require.ErrorIs(w, a.process.primary.Reason(), pair.ErrReplaced)
		require.False(w, a.serves())
		w.tend()
		w.end()
	})
}
