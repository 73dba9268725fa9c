package feed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// A process whose clock is ahead made the stored action. The next action must still win, in whichever
// shard of the post the stored action is.
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
		liker, err := w.LikeOf(t.Context(), access.Viewer{}, p.ID, "bob")
		require.NoError(t, err)
		at, err := id.Time(again)
		require.NoError(t, err)
		assert.Equal(t, feed.Liker{UserID: "bob", LikedAt: at, Kind: schema.KindLike}, liker)
	}
}

// withoutLikes is a table whose replicas have no likes yet.
type withoutLikes struct{ table.Store }

func (w withoutLikes) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if _, ofUser := schema.UserOfSK(in.Key.SK); ofUser && !in.Consistent {
		return table.GetResult{}, nil
	}
	return w.Store.Get(ctx, in)
}

// An API whose clock is ahead accepted the previous action. The action is stored, but replicas of the
// table lack it. The next action still wins, at an API whose clock is right (I3).
func TestAnActionWinsOverAStoredOneOfAnAPIThatIsAhead(t *testing.T) {
	for _, likeShards := range []int{1, 3} {
		for _, kind := range []string{schema.KindLike, "love", ""} {
			w := newWorld(t, func(c *config) { c.Store = withoutLikes{c.Store} })
			w.users("ann", "bob")
			p := w.post("ann", "hello")
			w.put(schema.PostRef{ID: p.ID, Author: "ann", LikeShards: likeShards}.Item())
			ahead := func() time.Time { return w.clock.now().Add(time.Minute) }
			version, err := id.NewGenerator(ahead).New()
			require.NoError(t, err)
			w.put(schema.Like{Post: p.ID, User: "bob", LikeShards: likeShards, Kind: kind, Version: version, Flush: schema.Flush{Inc: "0", Seq: 1}}.Item())
			w.published.take()
			if kind != "" {
				require.NoError(t, w.Unlike(t.Context(), "bob", p.ID))
				unliked := w.published.take()[0].(*messages.Unliked)
				assert.Greater(t, unliked.EventID, version)
				assert.True(t, unliked.Stored, "the aggregator is told that there is an item")
			} else {
				require.NoError(t, w.Like(t.Context(), "bob", p.ID))
				assert.Greater(t, w.published.take()[0].(*messages.Liked).EventID, version)
			}
		}
	}
}
