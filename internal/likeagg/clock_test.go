package likeagg

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// told lets the replies of the table set the clocks of the aggregators.
func (w *world) told() {
	var clocks []*clock.Clock
	w.tune = func(cfg *Config) {
		cfg.Clock = clock.New(cfg.Now)
		cfg.Clock.Observe(time.Now(), 0) // a process reads the table's time before it is ready
		clocks = append(clocks, cfg.Clock)
	}
	w.ended = func(request, fault, error) {
		for _, c := range clocks {
			c.Observe(time.Now(), 0)
		}
	}
}

// An aggregator whose clock is wrong by hours or days counts exactly. Or it leaves the likes for later,
// until its clock is right or another aggregator receives the likes.
func TestAClockThatIsWrongCountsExactlyOrWaits(t *testing.T) {
	for _, row := range []struct {
		ahead time.Duration
		waits bool
	}{
		{50 * time.Hour, false}, {10 * day, false}, {25 * day, false}, {40 * day, true},
		{-6 * time.Minute, false}, {-3 * time.Hour, true}, {-3 * day, true}, {-40 * day, true},
	} {
		t.Run(row.ahead.String(), func(t *testing.T) {
			step(t, func(w *world) {
				w.told()
				g := others(1)
				w.leftBy(g, 20)
				w.large(true)
				w.setCount(table.Attr{Name: schema.AttrLikes, Value: table.N(20)})
				entries := len(w.count().Done)
				wrong := w.run()
				wrong.skew.Store(int64(row.ahead))
				for i := range 10 {
					w.send(fmt.Sprint("new", i), true)
				}
				w.send("fan0", false)
				pass(2 * time.Minute)
				if row.waits {
					w.wantCount(20)
				} else {
					w.wantCount(29)
				}
				w.wantDead(0, "")
				assert.GreaterOrEqual(t, len(w.count().Done), entries, "entries were pruned")
				wrong.skew.Store(0)
				w.settle()
				w.wantDead(0, "")
				w.wantCount(29)
			})
		})
	}
}

// A healthy aggregator counts the likes that an aggregator with a wrong clock leaves.
func TestOneWrongClockHoldsUpNobody(t *testing.T) {
	step(t, func(w *world) {
		w.told()
		for _, ahead := range []time.Duration{40 * day, 0, 0} {
			w.run().skew.Store(int64(ahead))
		}
		for i := range 30 {
			w.send(fmt.Sprint("fan", i), true)
		}
		w.settle() // by chance the aggregator with the wrong clock may receive a like several times
		w.wantCount(30)
		w.wantDead(0, "")
	})
}

// An unlike's item has to outlive every message that the item refuses, so an aggregator whose clock is days
// behind gives the item no ttl. Such an aggregator accepts only messages that are days old.
func TestAnUnlikeByAClockThatIsBehindStays(t *testing.T) {
	for behind, stays := range map[time.Duration]bool{0: false, 3 * day: true} {
		step(t, func(w *world) {
			w.told()
			w.run().skew.Store(int64(-behind))
			w.send("alice", false)
			pass(behind + time.Minute)
			likes := w.likes(1)
			require.Len(t, likes, 1)
			assert.Equal(t, stays, likes[0].TTL.IsZero())
		})
	}
}
