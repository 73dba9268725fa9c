package likeagg

import (
	"fmt"
	"testing"
	"time"
)

func TestAHotPostCostsOneWriteALikeAndOneAWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(1, false)
		w.tune = func(cfg *Config) { cfg.MaxMessages = 10_000 }
		for range 3 {
			w.procs = append(w.procs, w.start())
		}
		defer w.end()
		const likes = 3000
		began := time.Now()
		for i := range likes {
			w.queue.publish(encode(w.newID(), w.posts[0], fmt.Sprintf("user%d", i), true), 0)
			pass(3 * time.Millisecond)
		}
		windows := 3 * (1 + int(time.Since(began)/time.Second))
		if v := w.settle(); v != "" {
			t.Fatal(v)
		}
		flushes := 0
		for _, o := range w.outcomes() {
			if o.Flushed {
				flushes++
			}
		}
		if count := w.count(t, 0); count.Likes != likes {
			t.Errorf("the count is %d, want %d", count.Likes, likes)
		}
		// T7: 1 + 1/m + 0.01 write units a like.
		m := float64(likes) / float64(flushes)
		if got, most := w.writes/likes, 1+1/m+0.01; got > most {
			t.Errorf("%.4f write units a like at %.1f likes a window, want at most %.4f", got, m, most)
		}
		// T8: at most one write of the count item a window and aggregator.
		if w.countWrites != flushes || flushes > windows {
			t.Errorf("%d writes of the count item, %d flushes in %d windows", w.countWrites, flushes, windows)
		}
	})
}
