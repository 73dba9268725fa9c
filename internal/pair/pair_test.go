package pair_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
	"fanfare/internal/stormtest"
)

// inBubble runs a test for some seeds, for fewer in the inner loop.
func inBubble(t *testing.T, seeds int, test func(w *world)) {
	t.Helper()
	for seed := range stormtest.Runs(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, uint64(seed))
				defer func() {
					if t.Failed() {
						for _, e := range w.logs.All() {
							t.Log(e.Time.Format("15:04:05.000"), e.Level, e.LoggerName, e.Message, e.ContextMap())
						}
						w.abandon()
					}
				}()
				test(w)
			})
		})
	}
}

func (w *world) untilPaired(m *machine) {
	w.Helper()
	for range 1000 {
		if m.standby != nil && m.standby.Status().Mode == pair.ModePaired {
			return
		}
		pass(100 * time.Millisecond)
	}
	require.Fail(w, "the machines do not become a pair")
}

// A new standby gets a copy of the data, follows, and is promoted with all that was answered.
func TestAStandbyIsSeededPairedAndPromoted(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		a.boot()
		pass(5 * time.Second)
		b.boot()
		w.untilPaired(b)
		pass(10 * time.Second)
		close(a.stop)
		pass(2 * time.Second)
		a.die(100)
		require.NoError(w, b.promote())
		pass(time.Second)
		close(b.stop)
		pass(time.Second)
		b.die(100)
	})
}

// After a switch the old primary is the standby without another copy of all data.
func TestASwitchNeedsNoSeed(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(w *world) {
		w.boot()
		for range 4 {
			primary, standby := w.settle()
			pass(2 * time.Second)
			require.NoError(w, primary.handOver())
			primary.exit()
			w.tend()
			pass(2 * time.Second)
			w.tend()
			require.Equal(w, standby, w.primary())
			disk := primary.loadRole().Disk
			_, again := w.settle()
			require.Equal(w, disk, again.loadRole().Disk, "a seed has a disk of its own")
		}
		w.end()
	})
}
