package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
)

// A process whose clock is ahead made the stored action. The next one must win all the same,
// whichever of the post's shards has it.
func TestAnActionIsAboveTheStoredOne(t *testing.T) {
	for shards := 1; shards <= 4; shards++ {
		w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 1 })
		w.users("ann", "bob")
		for _, fan := range numbered(shards-1, "fan") {
			w.users(fan)
			w.follow(fan, "ann")
		}
		p := w.post("ann", "x")
		w.deliver()
		fast := func() time.Time { return w.clock.now().Add(time.Minute) }
		ahead := newDomain(config{way: way{
			Store: w.store, Publisher: w.published, Now: fast, Lifetimes: lifetime.Fixed(timelineTTL), IDs: id.NewGenerator(fast),
		}})
		act := func(do func() error) string {
			require.NoError(t, do())
			events := w.published.take()
			require.Len(t, events, 1)
			w.published.events = events
			w.deliver()
			return events[0].Head().EventID
		}
		like := act(func() error { return ahead.Like(t.Context(), "bob", p.ID) })
		unlike := act(func() error { return w.Unlike(t.Context(), "bob", p.ID) })
		again := act(func() error { return w.Like(t.Context(), "bob", p.ID) })
		assert.Greater(t, unlike, like, "%d shards", shards)
		assert.Greater(t, again, unlike, "%d shards", shards)
		liker, err := w.LikeOf(t.Context(), p.ID, "bob")
		require.NoError(t, err)
		at, err := id.Time(again)
		require.NoError(t, err)
		assert.Equal(t, feed.Liker{UserID: "bob", LikedAt: at}, liker)
	}
}
