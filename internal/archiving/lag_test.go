package archiving_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
)

// newest returns the time of the last frame of the archive.
func (w *world) newest() time.Time {
	w.Helper()
	a, err := archive.New(w.objects.Store, time.Now)
	require.NoError(w, err)
	chain, err := a.Chain(w.Context(), 0, 0)
	require.NoError(w, err)
	link := chain[len(chain)-1]
	_, last, err := a.Span(w.Context(), link)
	require.NoError(w, err)
	newest, err := a.Entry(w.Context(), link.Number, last)
	require.NoError(w, err)
	return newest.Last
}

// A loss of the machine loses the answered writes of an interval and of one PUT. If a PUT takes longer than the
// interval, the next PUT begins at its end. The lag is never less than the time that a loss would cost.
func TestALossCostsAnIntervalAndAPut(t *testing.T) {
	t.Parallel()
	inBubble(t, 12, func(w *world) {
		w.every = []time.Duration{time.Second, 5 * time.Second, time.Minute}[w.rng.IntN(3)]
		w.start()
		pass(3 * w.every)
		put := time.Duration(w.rng.IntN(3000)) * time.Millisecond
		w.objects.delay(put)
		most := max(w.every, put) + put
		var written []time.Time
		worst := time.Duration(0)
		for range 100 {
			for range w.rng.IntN(3) {
				require.NoError(w, w.dbs[stores[w.rng.IntN(2)]].Set([]byte("key"), make([]byte, w.rng.IntN(3000)), pebble.Sync))
				written = append(written, time.Now())
			}
			pass(time.Duration(1+w.rng.IntN(700)) * w.every / 1000)
			newest := w.newest()
			for len(written) > 0 && !written[0].After(newest) {
				written = written[1:]
			}
			lag := w.Lag()
			require.LessOrEqual(w, lag, most)
			require.NoError(w, w.Late())
			if len(written) > 0 {
				require.GreaterOrEqual(w, lag, time.Since(written[0]), "the archive lacks an older write")
				worst = max(worst, time.Since(written[0]))
			}
		}
		w.Logf("a segment each %v, PUTs of %v: at most %v would have been lost", w.every, put, worst)
		w.objects.delay(0)
		pass(3 * w.every)
		require.Zero(w, w.Lag())
		w.stop()
		w.start() // everything that the logs have is in the archive
		pass(3 * w.every)
		require.Zero(w, w.Lag())
		w.stop()
	})
}
