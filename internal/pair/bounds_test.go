package pair_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// size returns the size of a directory of the machine.
func (m *machine) size(dir string) (bytes int64) {
	m.Helper()
	names, err := m.mem.List(dir)
	require.NoError(m, err)
	for _, name := range names {
		info, err := m.mem.Stat(m.mem.PathJoin(dir, name))
		require.NoError(m, err)
		bytes += info.Size()
	}
	return bytes
}

// logged returns the number of log lines with a text.
func (w *world) logged(text string) (lines int) {
	for _, e := range w.logs.All() {
		if strings.Contains(e.Message, text) {
			lines++
		}
	}
	return lines
}

// The log of a store that nobody writes to must not keep the tail.
func TestATailHasABound(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.idle = stores[w.seed]
		w.boot()
		_, standby := w.settle()
		before := w.count()
		pass(5 * time.Minute)
		require.Greater(w, w.count(), before+3000)
		require.Less(w, standby.size("data/tail"), int64(800<<10))
		w.end()
	})
}

// The primary of a pair drops no frame, because writes wait for the standby: neither on a disk that is nearly full, nor with a full spool.
func TestAPairedPrimaryNeedsNoSpool(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*world){
		"a disk that is nearly full": func(w *world) { w.low = true },
		"a spool without room":       func(w *world) { w.spool = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(w *world) {
				limit(w)
				w.boot()
				for range 6 {
					primary, standby := w.settle()
					pass(10 * time.Second)
					w.network.drop()
					pass(3 * time.Second)
					w.bucket.set(primary.number(), way{away: true}) // it cannot go alone
					standby.die(100)
					pass(10 * time.Second)
					standby.boot()
					w.until(func() bool { return primary.process.primary.Status().Connected })
					pass(2 * time.Second) // the standby has answered
					w.settle()
					primary.die(w.rng.IntN(101))
					primary.boot()
					// Not settle, which cuts the connection: after several short sessions the standby waits before it connects, and a
					// primary that is alone meanwhile may drop frames.
					w.until(func() bool {
						w.tend()
						now := primary.process.primary.Status()
						return now.Connected && now.Mode == pair.ModePaired
					})
					pass(5 * time.Second) // from now on, the next session is the first one for the standby
					if w.low {            // a new primary is not paired yet
						w.until(primary.serves)
						require.NoError(w, primary.handOver())
						primary.exit()
						w.tend()
					}
				}
				require.Equal(w, 1, w.seeds(), "a standby with the data needs no seed")
				w.end()
			})
		})
	}
}

// seeds returns the number of seeds.
func (w *world) seeds() (n int) {
	for _, e := range w.logs.FilterMessage("the standby has a session with its primary").All() {
		if e.ContextMap()["seed"] == true {
			n++
		}
	}
	return n
}

// A primary that is alone drops the frames for which the spool has no room. The standby gets a new copy then.
func TestAPrimaryAloneSeedsAStandbyThatIsTooFarBehind(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.spool = 1
		w.boot()
		primary, standby := w.settle()
		standby.die(100)
		w.until(func() bool { return primary.process.primary.Status().Mode == pair.ModeAlone })
		pass(time.Minute)
		require.Equal(w, 1, w.seeds())
		standby.boot()
		w.settle()
		require.Greater(w, w.seeds(), 1, "one more at least: the spool may have no room during a seed, too")
		w.end()
	})
}

// A primary is alone while it refuses its standby, so it needs no operator to give the standby a new copy.
func TestAPrimaryAloneSeedsAStandbyThatLostItsTail(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.boot()
		_, standby := w.settle()
		standby.die(100)
		require.NoError(w, standby.mem.RemoveAll("data/tail"))
		standby.boot()
		w.settle()
		require.Equal(w, 2, w.seeds())
		w.end()
	})
}

// Whatever ended a primary, its logs continue its stream.
func TestTheLogsContinueTheStream(t *testing.T) {
	t.Parallel()
	inBubble(t, *storms, func(w *world) {
		w.boot()
		for range 8 {
			primary, standby := w.settle()
			pass(time.Duration(w.rng.IntN(20_000)) * time.Millisecond)
			switch w.rng.IntN(4) {
			case 0:
				primary.exit()
			case 1:
				primary.die(100)
			case 2:
				primary.die(w.rng.IntN(100))
			default:
				standby.exit()
			}
			w.tend()
		}
		w.end()
		require.Zero(w, w.logged("do not continue the stream"))
	})
}
