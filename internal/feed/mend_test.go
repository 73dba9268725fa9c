package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// rest is the part of bob's follow by ann that remains after damage.
type rest struct {
	pushed, listed, blocked bool
	mark                    schema.MarkKind
}

// put writes r, and returns the times of the edges, and the first post of the edge or of the mark. The
// two edges have different times.
func (r rest) put(w *world) (under, edge time.Time, from string) {
	w.t.Helper()
	w.users("ann", "bob")
	under, edge = w.clock.now().Add(-time.Hour), w.clock.now().Add(-2*time.Hour)
	ofEdge, ofMark := id.Floor(under), id.Floor(edge)
	if r.pushed {
		w.put(schema.FollowerItem("bob", "ann", under))
	}
	if r.mark != "" {
		from = ofMark
		w.put(schema.Mark{User: "ann", Author: "bob", Kind: r.mark, From: from, Version: ofMark}.Item())
	}
	if r.listed {
		from = ofEdge
		w.put(schema.FollowingItem("ann", "bob", edge, from))
	}
	if r.blocked {
		w.put(schema.Block{User: "ann", Other: "bob", Since: under}.Item())
	}
	if from == "" {
		from = id.Min
	}
	return under, edge, from
}

// followItems returns the items of bob's follow by ann.
func (w *world) followItems() (all []table.Item) {
	w.t.Helper()
	for _, key := range []table.Key{schema.FollowerKey("bob", "ann"), schema.FollowingKey("ann", "bob"), schema.MarkKey("ann", "bob"), schema.CountsKey("ann")} {
		if it := w.item(key); it != nil {
			all = append(all, *it)
		}
	}
	return all
}

// An incomplete follow becomes a complete follow. An incomplete follow becomes no follow if its home
// mark is the mark of an unfollow, or if a block exists. Without a follow, the home hides the author.
func TestAFollowThatLostItemsIsMended(t *testing.T) {
	const none, backfill, unfollowed = schema.MarkKind(""), schema.MarkBackfill, schema.MarkUnfollowed
	const whole, hidden, left = "whole", "hidden", "left as it is"
	for r, want := range map[rest]string{
		{}:                                             hidden,
		{mark: backfill}:                               hidden,
		{mark: unfollowed}:                             left,
		{pushed: true}:                                 whole,
		{pushed: true, mark: backfill}:                 whole,
		{pushed: true, mark: unfollowed}:               hidden,
		{listed: true}:                                 whole,
		{listed: true, mark: backfill}:                 whole,
		{listed: true, mark: unfollowed}:               hidden,
		{pushed: true, listed: true, mark: none}:       whole,
		{pushed: true, listed: true, mark: backfill}:   left,
		{pushed: true, listed: true, mark: unfollowed}: whole,

		{blocked: true}:                                               hidden,
		{blocked: true, mark: backfill}:                               hidden,
		{blocked: true, mark: unfollowed}:                             left,
		{blocked: true, pushed: true}:                                 hidden,
		{blocked: true, listed: true, mark: backfill}:                 hidden,
		{blocked: true, listed: true, mark: unfollowed}:               hidden,
		{blocked: true, pushed: true, listed: true, mark: none}:       hidden,
		{blocked: true, pushed: true, listed: true, mark: backfill}:   hidden,
		{blocked: true, pushed: true, listed: true, mark: unfollowed}: hidden,
	} {
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			w := newWorld(t)
			under, edge, from := r.put(w)
			before := w.followItems()
			mended, err := w.MendFollow(t.Context(), "ann", "bob")
			require.NoError(t, err)
			assert.Equal(t, want != left, mended)
			after, events := w.followItems(), w.published.take()
			if want == left {
				assert.Equal(t, before, after)
				assert.Empty(t, events)
				return
			}
			mark, err := schema.ParseMark(*w.item(schema.MarkKey("ann", "bob")))
			require.NoError(t, err)
			assert.True(t, id.Valid(mark.Version) && mark.Version != id.Floor(edge), "a new version")
			next := schema.Mark{User: "ann", Author: "bob", Kind: unfollowed, Version: mark.Version, TTL: w.clock.now().Add(timelineTTL + messages.MaxAge)}
			var items []table.Item
			var event messages.Event = &messages.Unfollowed{FollowerID: "ann", AuthorID: "bob", MarkVersion: mark.Version}
			if want == whole {
				next = schema.Mark{User: "ann", Author: "bob", Kind: backfill, From: from, Version: mark.Version}
				event = &messages.Followed{FollowerID: "ann", AuthorID: "bob", From: from, MarkVersion: mark.Version}
				if !r.pushed { // an existing edge keeps its time
					under = edge
				}
				if !r.listed {
					edge = under
				}
				items = append(items, schema.FollowerItem("bob", "ann", under), schema.FollowingItem("ann", "bob", edge, from))
			}
			assert.Equal(t, append(items, next.Item()), after)
			require.Len(t, events, 1)
			*event.Head() = *events[0].Head()
			assert.Equal(t, event, events[0])
			mended, err = w.MendFollow(t.Context(), "ann", "bob")
			require.NoError(t, err)
			assert.False(t, mended, "again")
		})
	}
}

// Another process changes the item between the read and the transaction of a repair. Then the repair
// writes and publishes nothing.
func TestARepairOfAFollowYieldsToOtherCalls(t *testing.T) {
	later := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	unfollowed := schema.Mark{User: "ann", Author: "bob", Kind: schema.MarkUnfollowed, Version: id.Floor(later)}.Item()
	under, edge := schema.FollowerItem("bob", "ann", later), schema.FollowingItem("ann", "bob", later, id.Min)
	for _, c := range []struct {
		left rest
		put  table.Item
	}{
		{rest{pushed: true}, under},
		{rest{pushed: true}, edge},
		{rest{pushed: true}, unfollowed},
		{rest{pushed: true, mark: schema.MarkBackfill}, unfollowed},
		{rest{pushed: true}, schema.Block{User: "ann", Other: "bob", Since: later}.Item()},
		{rest{listed: true}, under},
		{rest{listed: true}, edge},
		{rest{}, under},
		{rest{}, edge},
		{rest{pushed: true, mark: schema.MarkUnfollowed}, under},
		{rest{listed: true, mark: schema.MarkUnfollowed}, edge},
	} {
		w, store := onTransact(t)
		c.left.put(w)
		store.do = func() { w.put(c.put) }
		mended, err := w.MendFollow(t.Context(), "ann", "bob")
		require.NoError(t, err)
		assert.Falsef(t, mended, "%+v, and then %v", c.left, c.put)
		assert.Equal(t, &c.put, w.item(c.put.Key))
		assert.Empty(t, w.published.take())
	}
}

func TestAFailedRepairOfAFollowMayBeRepeated(t *testing.T) {
	for _, mark := range []schema.MarkKind{schema.MarkBackfill, schema.MarkUnfollowed} {
		eachCallFails(t, func(w *world) { rest{pushed: true, mark: mark}.put(w) },
			func(w *world) error { _, err := w.MendFollow(t.Context(), "ann", "bob"); return err },
			func(w *world) {
				want := mark == schema.MarkBackfill
				assert.Equal(t, want, w.item(schema.FollowerKey("bob", "ann")) != nil)
				assert.Equal(t, want, w.item(schema.FollowingKey("ann", "bob")) != nil)
			})
	}
	w := newWorld(t)
	w.put(table.Item{Key: schema.MarkKey("ann", "bob"), Attrs: []table.Attr{{Name: schema.AttrKind, Value: table.S("of a later version")}}})
	_, err := w.MendFollow(t.Context(), "ann", "bob")
	wantDamage(t, err)
	assert.Empty(t, w.published.take())
}

// lostPost makes a post by ann whose item is lost, and the tombstone that the burial of the post
// makes.
func lostPost(w *world) (post feed.Post, tombstone schema.PostRef) {
	w.t.Helper()
	w.users("ann")
	post = w.post("ann", "lost")
	w.published.take()
	_, err := w.store.Delete(w.t.Context(), table.DeleteInput{Key: schema.PostKey("ann", post.ID)})
	require.NoError(w.t, err)
	return post, schema.PostRef{
		ID: post.ID, Author: "ann", LikeShards: 1, Deleted: true, TTL: w.clock.now().Add(timelineTTL + schema.DeliveryKept).Truncate(time.Second),
	}
}

func (w *world) ref(post string) schema.PostRef {
	w.t.Helper()
	ref, err := schema.ParsePostRef(*w.item(schema.PostByIDKey(post)))
	require.NoError(w.t, err)
	ref.TTL = ref.TTL.UTC()
	return ref
}

func (w *world) counts(user string) schema.Counts {
	w.t.Helper()
	_, counts, err := schema.ParseUser(w.partition(schema.UserPK(user)))
	require.NoError(w.t, err)
	return counts
}

func TestALostPostIsBuried(t *testing.T) {
	var post feed.Post
	var want schema.PostRef
	eachCallFails(t, func(w *world) { post, want = lostPost(w) },
		func(w *world) error { _, err := w.BuryLost(t.Context(), post.ID); return err },
		func(w *world) {
			assert.Equal(t, want, w.ref(post.ID))
			assert.Equal(t, schema.Counts{Posts: 1, LastDeleted: post.ID}, w.counts("ann"), "it counts the post that was lost")
			asked, ok := w.published.take()[0].(*messages.PostDeleted)
			require.True(t, ok, "its remains are asked for")
			assert.Equal(t, &messages.PostDeleted{Header: asked.Header, PostID: post.ID, AuthorID: "ann"}, asked)
			w.published.take()
			buried, err := w.BuryLost(t.Context(), post.ID)
			require.NoError(t, err)
			assert.False(t, buried, "again")
			assert.Empty(t, w.published.take(), "again")
		})
	w := newWorld(t)
	post, _ = lostPost(w)
	buried, err := w.BuryLost(t.Context(), post.ID)
	require.NoError(t, err)
	assert.True(t, buried)
	_, err = w.BuryLost(t.Context(), id.Floor(w.clock.now()))
	wantKind(t, err, fault.NotFound)
}

// The author's counts name the newest deleted post. A burial never replaces that post with an older one.
func TestABurialKeepsTheNewestDeletedPost(t *testing.T) {
	for name, last := range map[string]func(post string) string{
		"none":    func(string) string { return "" },
		"older":   func(string) string { return id.Min },
		"the one": func(post string) string { return post },
		"newer":   func(string) string { return id.Max },
	} {
		w := newWorld(t)
		post, _ := lostPost(w)
		counts := table.Item{Key: schema.CountsKey("ann"), Attrs: []table.Attr{{Name: schema.AttrLastDel, Value: table.S(last(post.ID))}}}
		if name == "none" {
			_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: counts.Key})
			require.NoError(t, err)
		} else {
			w.put(counts)
		}
		buried, err := w.BuryLost(t.Context(), post.ID)
		require.NoError(t, err)
		assert.True(t, buried, name)
		assert.Equal(t, max(post.ID, last(post.ID)), w.counts("ann").LastDeleted, name)
	}
}

// A post whose item exists is not lost. After the read of the repair, the item may have returned, and
// a newer post may have been deleted.
func TestOnlyALostPostIsBuried(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world, post feed.Post){
		"the item is there": func(w *world, post feed.Post) {
			w.put(schema.Post{ID: post.ID, Author: "ann", Content: schema.Content{Text: "back"}, LikeShards: 1}.Item())
		},
		"the post was deleted": func(w *world, post feed.Post) {
			w.put(schema.PostRef{ID: post.ID, Author: "ann", LikeShards: 1, Deleted: true}.Item())
		},
		"a newer one was deleted": func(w *world, _ feed.Post) {
			w.put(table.Item{Key: schema.CountsKey("ann"), Attrs: []table.Attr{{Name: schema.AttrLastDel, Value: table.S(id.Max)}}})
		},
	} {
		w, store := onTransact(t)
		post, tombstone := lostPost(w)
		store.do = func() { meanwhile(w, post) }
		buried, err := w.BuryLost(t.Context(), post.ID)
		require.NoError(t, err, name)
		assert.False(t, buried, name)
		assert.NotEqual(t, tombstone, w.ref(post.ID), name)
	}
}

// A repair makes no item for a user without a profile. Once the user has a profile, the repair makes
// the items.
func TestNothingIsMadeOfAUserWithoutAProfile(t *testing.T) {
	for _, user := range []string{"ann", "bob"} {
		for name, c := range map[string]struct {
			damage func(w *world)
			mend   func(w *world) (bool, error)
			there  func(w *world) int
		}{
			"half a follow": {
				func(w *world) { rest{pushed: true}.put(w) },
				func(w *world) (bool, error) { return w.MendFollow(t.Context(), "ann", "bob") },
				func(w *world) int { return len(w.followItems()) },
			},
			"half a block": {
				func(w *world) { w.users("ann", "bob"); w.putSides(sides{ann: longAgo}) },
				func(w *world) (bool, error) { return w.MendBlock(t.Context(), "ann", "bob") },
				func(w *world) int {
					return len(w.partition(schema.BlocksPK("ann"))) + len(w.partition(schema.BlocksPK("bob")))
				},
			},
		} {
			w := newWorld(t)
			c.damage(w)
			profile, before := w.item(schema.ProfileKey(user)), c.there(w)
			_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: profile.Key})
			require.NoError(t, err)
			mended, err := c.mend(w)
			require.NoError(t, err)
			assert.False(t, mended, name)
			assert.Equal(t, before, c.there(w), name)
			w.put(*profile)
			mended, err = c.mend(w)
			require.NoError(t, err)
			assert.True(t, mended, name)
			assert.Greater(t, c.there(w), before, name)
		}
	}
}
