package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// The mark of an unfollow outlives the entries that messages in flight may still write. The table may
// keep the mark for days after the mark's end, so a follow compares the end with the clock, to the
// second.
func TestAFollowPassesOverAMarkThatHasExpired(t *testing.T) {
	for _, after := range []time.Duration{-time.Second, 0, time.Second, aDay} {
		w := newWorld(t)
		w.users("ann", "bob")
		w.follow("ann", "bob")
		require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
		mark := w.item(schema.MarkKey("ann", "bob"))
		life := timelineTTL + messages.MaxAge
		assert.Equal(t, w.clock.now().Add(life).Unix(), mark.Int(table.AttrTTL))
		w.clock.add(life + after)
		w.follow("ann", "bob")
		r, err := w.Relationship(t.Context(), "ann", "ann", "bob")
		require.NoError(t, err)
		assert.Equal(t, feed.Relationship{Following: true}, r)
		w.checkCounts("ann", "bob")
	}
}

// The limit allows one more follow. Between the read and the transaction of that follow, another call
// writes. The follow fails only if it would exceed the limit.
func TestAFollowAtTheLimitMeetsAnotherWrite(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(other *world)
		kind      fault.Kind
	}{
		"the same follow": {func(other *world) { other.follow("ann", "bob") }, 0},
		"another follow":  {func(other *world) { other.follow("ann", "cid") }, fault.Limit},
		"higher days": {func(other *world) {
			raised := other.today() + 100
			other.put(
				table.Item{Key: schema.CountsKey("ann"), Attrs: []table.Attr{{Name: schema.AttrUptoDay, Value: table.N(int64(raised))}}},
				schema.Presence{User: "ann", State: schema.PresenceHere, Until: raised}.Item(),
			)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapped(t, active(2), func(c *config) { c.MaxFollowing = 1 })
			w.users("ann", "bob", "cid")
			other := newWorldAt(t, w.clock, active(2), func(c *config) { c.Store = tp.Store })
			first := true
			tp.set(func(made call) failure {
				if made.op == table.OpTransact && first {
					first = false
					c.meanwhile(other)
				}
				return works
			})
			err := w.Follow(t.Context(), "ann", "bob")
			tp.set(nil)
			if c.kind != 0 {
				wantKind(t, err, c.kind)
			} else {
				require.NoError(t, err)
			}
			r, err := w.Relationship(t.Context(), "ann", "ann", "bob")
			require.NoError(t, err)
			assert.Equal(t, c.kind == 0, r.Following)
			w.checkCounts("ann", "bob", "cid")
		})
	}
}

// An edge proves that its users exist. If no edge exists, both users must have a profile.
func TestTheFollowsBetweenTwoUsers(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid", "dan")
	w.follow("ann", "bob")
	w.follow("ann", "cid")
	w.follow("cid", "ann")
	for users, want := range map[[2]string]feed.Relationship{
		{"ann", "bob"}: {Following: true},
		{"bob", "ann"}: {FollowedBy: true},
		{"ann", "cid"}: {Following: true, FollowedBy: true, Friends: true},
		{"cid", "ann"}: {Following: true, FollowedBy: true, Friends: true},
		{"ann", "dan"}: {},
		{"ann", "ann"}: {},
	} {
		r, err := w.Relationship(t.Context(), users[0], users[0], users[1])
		require.NoError(t, err)
		assert.Equal(t, want, r, "%v", users)
	}
}

// An unfollow is repeated while its transaction is visible in part: the edge is gone, and the home mark still shows
// the author's posts.
func TestAnUnfollowIsRepeatedWhileItBecomesVisible(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	w.follow("ann", "bob")
	key := schema.MarkKey("ann", "bob")
	former := w.item(key)
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	now := w.item(key)
	side := func(it *table.Item) {
		_, err := tp.Store.Put(t.Context(), table.PutInput{Item: *it})
		require.NoError(t, err)
	}
	side(former)
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			side(now) // a transaction waits for the other one
		}
		return works
	})
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	m, err := schema.ParseMark(*w.item(key))
	require.NoError(t, err)
	assert.Equal(t, schema.MarkUnfollowed, m.Kind)
}
