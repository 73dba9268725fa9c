package likeagg

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 200, "how many seeds to simulate")
	from  = flag.Uint64("from", 1, "the first of them")
)

// Every planted bug has to be found within this many seeds.
const plantedSeeds = 200

func TestCountsAreExactUnderEveryFault(t *testing.T) {
	fired := map[string]int{}
	n := *seeds
	if testing.Short() {
		n = min(n, 60)
	}
	for seed := *from; seed < *from+n; seed++ {
		bubble(t, func(t *testing.T) {
			violation, w := simulate(seed, true, Plant{})
			if violation != "" {
				t.Errorf("seed %d: %s", seed, violation)
			}
			for kind, n := range w.fired {
				fired[kind] += n
			}
			for _, o := range w.outcomes() {
				fired["fence"] += o.Fences
				if o.Lost {
					fired["lost window"]++
				}
			}
		})
	}
	for _, kind := range []string{
		"crash", "stop", "pause", "duplicate", "lost ack", "failed", "lost answer", "late effect", "slow",
		"expired", "fence", "lost window",
	} {
		if fired[kind] == 0 {
			t.Errorf("%s never happened", kind)
		}
	}
}

func TestTheSimulationFindsEachPlantedBug(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant Plant
	}{
		{"no fence", Plant{NoFence: true}},
		{"overlapping windows", Plant{OverlapWindows: true}},
		{"ack before flush", Plant{AckBeforeFlush: true}},
		{"flush past an unresolved put", Plant{FlushUnresolved: true}},
		{"pruned ledger read as not counted", Plant{PrunedNotCounted: true}},
		{"delta added twice after a lost answer", Plant{AddTwice: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= plantedSeeds; seed++ {
				var violation string
				bubble(t, func(*testing.T) { violation, _ = simulate(seed, true, tt.plant) })
				if violation != "" {
					t.Logf("found by seed %d: %s", seed, violation)
					return
				}
			}
			t.Errorf("not found in %d seeds", plantedSeeds)
		})
	}
}

func TestAHotPostCostsOneWriteALikeAndOneAWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(1, false, Plant{})
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
