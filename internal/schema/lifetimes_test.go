package schema_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

const (
	hour = time.Hour
	day  = 24 * hour
)

// ttlHistory is the definition of Lifetimes: every TTL that was ever in force.
type ttlHistory []schema.Lifetime

func (h ttlHistory) decided(ttl time.Duration, now time.Time) ttlHistory {
	if len(h) > 0 && h[len(h)-1].TTL == ttl {
		return h
	}
	for len(h) > 1 && h[len(h)-1].From.After(now.Add(14*hour)) {
		h = h[:len(h)-1]
	}
	if len(h) > 0 && h[len(h)-1].TTL == ttl {
		return h
	}
	if len(h) == 0 {
		return ttlHistory{{time.UnixMilli(0), ttl}}
	}
	return append(h[:len(h):len(h)], schema.Lifetime{From: now.Add(day), TTL: ttl})
}

// life returns the shortest TTL that was in force from a post's time to now.
func (h ttlHistory) life(made, now time.Time) time.Duration {
	life := h[0].TTL
	for _, step := range h[1:] {
		switch {
		case !step.From.After(made):
			life = step.TTL
		case !step.From.After(now):
			life = min(life, step.TTL)
		}
	}
	return life
}

func TestAPostLivesAsLongAsTheShortestTTLSinceItWasMade(t *testing.T) {
	ttls := []time.Duration{time.Minute, hour, 20 * hour, 7 * day, 30 * day, 365 * day}
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		upTo := func(most time.Duration) time.Duration {
			return time.Duration(rng.Int64N(int64(most/time.Second))) * time.Second
		}
		type mark struct {
			at      time.Time
			longest time.Duration
		}
		var history ttlHistory
		var lives schema.Lifetimes
		var posts []time.Time
		var marks []mark
		gone := map[time.Time]bool{}
		for range 40 {
			ttl := ttls[rng.IntN(len(ttls))]
			known := lives // the lifetimes of a process that has not read the decision yet
			lives, history = lives.Decided(ttl, now), history.decided(ttl, now)
			if known == nil {
				known = lives
			}
			marks = append(marks, mark{now.Add(15 * time.Minute), known.Longest()})
			for range 20 {
				now = now.Add(upTo([]time.Duration{10 * time.Minute, 10 * hour, 20 * day}[rng.IntN(3)]) + time.Second)
				posts = append(posts, now)
				for _, made := range posts[max(0, len(posts)-40):] {
					shown := now.Before(made.Add(history.life(made, now)))
					if shown == made.Before(lives.Oldest(now)) || shown != now.Before(lives.End(made)) {
						t.Fatalf("seed %d: a post of %s shows at %s: %v, by %v; the oldest is of %s, it leaves at %s by %s", seed, made, now, shown, history, lives.Oldest(now), lives.End(made), lives)
					}
					if gone[made] && shown || shown && !now.Before(made.Add(lives.Written(made))) {
						t.Fatalf("seed %d: a post of %s shows again at %s, or its entries have expired", seed, made, now)
					}
					gone[made] = !shown
				}
				// A view that is a quarter of an hour old writes the mark of an unfollow. A backfill in
				// progress writes a post an hour later, by a clock that is six hours ahead.
				for _, m := range marks {
					if made := m.at.Add(7 * hour); !made.After(now) && lives.End(made).Sub(made) > m.longest {
						t.Fatalf("seed %d: a post of %s outlives the mark of %s", seed, made, m.at)
					}
				}
			}
			read, err := schema.ParseLifetimes(lives.Item())
			require.NoError(t, err)
			require.Equal(t, lives.String(), read.String())
			require.Less(t, len(lives), 12, "seed %d: %s", seed, lives)
		}
	}
}

func TestADecisionAboutTheTTLIsInForceADayLater(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := schema.Lifetimes{}.Decided(30*day, now)
	assert.Equal(t, now.Add(time.Second-30*day), first.Oldest(now), "the first one is in force at once")
	assert.Equal(t, first.String(), first.Decided(30*day, now.Add(hour)).String())

	raised := first.Decided(365*day, now)
	assert.Equal(t, raised.String(), raised.Decided(365*day, now.Add(3*hour)).String(), "the next process of the roll-out changes nothing")
	assert.Equal(t, first.String(), raised.Decided(30*day, now.Add(3*hour)).String(), "an old process that starts again takes it back")
	late := raised.Decided(30*day, now.Add(12*hour))
	assert.Len(t, late, 3, "a process whose clock is ahead may use it already, so another decision follows it")
	assert.Equal(t, 30*day, late.End(now.Add(25*hour)).Sub(now.Add(25*hour)))

	wrong := first.Decided(365*day, now.Add(3650*day))
	assert.Equal(t, raised.String(), wrong.Decided(365*day, now).String(), "a clock that was years ahead does not put it off")
	assert.Equal(t, first.String(), wrong.Decided(30*day, now).String())

	lowered := first.Decided(day, now)
	assert.Equal(t, now.Add(hour-30*day+time.Second), lowered.Oldest(now.Add(hour)))
	assert.Equal(t, now.Add(time.Second), lowered.Oldest(now.Add(day)))
}

func TestLifetimesThatCannotBeReadAreRefused(t *testing.T) {
	for _, steps := range []string{"", "5", "0:0", "0:-1", "a:1", "5:1 4:1", "0:1 x"} {
		_, err := schema.ParseLifetimes(table.Item{Key: schema.LifetimesKey(), Attrs: []table.Attr{{Name: schema.AttrLifetimes, Value: table.S(steps)}}})
		assert.Error(t, err, steps)
	}
	_, err := schema.ParseLifetimes(table.Item{Key: schema.ProfileKey("ann"), Attrs: schema.Lifetimes{{TTL: day}}.Item().Attrs})
	assert.Error(t, err)
}
