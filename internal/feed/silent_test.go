package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// sees are the places where a viewer may see that ann follows bob.
type sees struct{ followers, following, friends, relationship, back, view bool }

// sees looks at all these places. bob follows ann.
func (w *world) sees(viewer string) (s sees) {
	w.t.Helper()
	ctx := w.t.Context()
	has := func(list page.List[feed.Edge], err error) func(string) bool {
		require.NoError(w.t, err)
		return func(user string) bool {
			for _, e := range list.Items {
				if e.UserID == user {
					return true
				}
			}
			return false
		}
	}
	s.followers = has(w.Followers(ctx, "bob", page.Request{}))("ann")
	s.following = has(w.Following(ctx, viewer, "ann", page.Request{}))("bob")
	s.friends = has(w.Friends(ctx, "ann", page.Request{}))("bob")
	assert.Equal(w.t, s.friends, has(w.Friends(ctx, "bob", page.Request{}))("ann"), "friends of each other")
	there, err := w.Relationship(ctx, viewer, "ann", "bob")
	require.NoError(w.t, err)
	back, err := w.Relationship(ctx, viewer, "bob", "ann")
	require.NoError(w.t, err)
	s.relationship, s.back = there.Following, back.FollowedBy
	assert.Equal(w.t, there.Following, there.Friends, "bob follows ann")
	views, err := w.UserViews(ctx, viewer, []string{"ann", "bob"})
	require.NoError(w.t, err)
	for _, v := range views.Items {
		of := map[string]func(view.User) bool{"ann": func(v view.User) bool { return v.Following }, "bob": func(v view.User) bool { return v.FollowedBy }}
		s.view = s.view || v.ID != viewer && of[viewer] != nil && of[viewer](v)
	}
	return s
}

// Only the follower sees a silent follow, and the follower's home has the posts.
func TestOnlyTheFollowerSeesASilentFollow(t *testing.T) {
	for _, c := range []struct {
		name   string
		follow func(w *world) error
		silent bool
	}{
		{"a follow", func(w *world) error { return w.Follow(t.Context(), "ann", "bob") }, false},
		{"a silent follow", func(w *world) error { return w.FollowSilently(t.Context(), "ann", "bob") }, true},
		{"an imported silent follow", func(w *world) error {
			_, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: "ann", Author: "bob", From: id.Min, Since: longAgo, Silent: true})
			return err
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.users("ann", "bob", "cid")
			w.follow("bob", "ann")
			w.post("bob", "before")
			w.published.take()
			require.NoError(t, c.follow(w))
			for _, e := range w.published.take() {
				if followed, ok := e.(*messages.Followed); ok {
					assert.Equal(t, c.silent, followed.FollowID == "", "only a loud follow has a notification")
					w.backfill(followed)
				}
			}
			w.post("bob", "after")
			w.deliver()
			w.homes("ann", "after", "before")

			loud := sees{true, true, true, true, true, false}
			for viewer, want := range map[string]sees{
				"ann": {following: true, relationship: true, back: true}, "bob": {}, "cid": {},
			} {
				if !c.silent {
					want = loud
				}
				want.view = viewer == "ann" || viewer == "bob" && !c.silent
				got := w.sees(viewer)
				got.view = got.view && viewer != "cid"
				assert.Equal(t, want, got, "what %s sees", viewer)
			}
			bob, err := w.User(t.Context(), "bob")
			require.NoError(t, err)
			assert.Equal(t, !c.silent, bob.Counts.Followers == 1)

			require.NoError(t, w.Follow(t.Context(), "ann", "bob"))
			assert.Equal(t, c.silent, w.item(schema.FollowerKey("bob", "ann")).Has(schema.AttrSilent), "an existing follow does not change")
			require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
			w.homes("ann")
			w.checkCounts("ann", "bob")
		})
	}
}

// A follow of a former life has the silence of the call that renews the follow.
func TestARenewedFollowHasTheSilenceOfItsCall(t *testing.T) {
	for _, c := range [][2]bool{{false, true}, {true, false}, {true, true}, {false, false}} { // the former life, the call
		former, silent := c[0], c[1]
		w := newWorld(t)
		w.users("ann", "bob")
		as := func(silent bool) error {
			if silent {
				return w.FollowSilently(t.Context(), "ann", "bob")
			}
			return w.Follow(t.Context(), "ann", "bob")
		}
		require.NoError(t, as(former))
		w.clock.add(time.Second)
		_, err := w.AskToForget(t.Context(), "ann")
		require.NoError(t, err)
		w.clock.add(2 * time.Hour)
		w.users("ann")
		require.NoError(t, as(silent))
		assert.Equal(t, silent, w.item(schema.FollowerKey("bob", "ann")).Has(schema.AttrSilent))
		assert.Equal(t, silent, w.item(schema.FollowingKey("ann", "bob")).Has(schema.AttrSilent))
		_, counts, err := schema.ParseUser(w.partition(schema.UserPK("bob")))
		require.NoError(t, err)
		assert.Equal(t, schema.Counts{Followers: 1, Silent: map[bool]int64{true: 1}[silent]}, counts)
	}
}

// Each of the two edges of a silent follow is restored from the other edge.
func TestAMendedFollowKeepsItsSilence(t *testing.T) {
	for lost := range 2 {
		w := newWorld(t)
		w.users("ann", "bob")
		require.NoError(t, w.FollowSilently(t.Context(), "ann", "bob"))
		w.deliver()
		keys := []table.Key{schema.FollowerKey("bob", "ann"), schema.FollowingKey("ann", "bob")}
		before := w.followItems()
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: keys[lost]})
		require.NoError(t, err)
		mended, err := w.MendFollow(t.Context(), "ann", "bob")
		require.NoError(t, err)
		assert.True(t, mended)
		for i, it := range w.followItems()[:2] {
			assert.Equal(t, before[i].Has(schema.AttrSilent), it.Has(schema.AttrSilent))
			assert.True(t, it.Has(schema.AttrSilent))
		}
		w.checkCounts("ann", "bob")
	}
}

// The pages of a list are full, although silent followers are between the others, and the list has each other follower once.
func TestAListOfFollowersPassesOverSilentFollowers(t *testing.T) {
	w := newWorld(t)
	w.users("bob")
	var want []string
	for i, name := range numbered(260, "fan") {
		w.users(name)
		if i%50 == 49 {
			w.follow(name, "bob")
			want = append(want, name)
		} else {
			require.NoError(t, w.FollowSilently(t.Context(), name, "bob"))
		}
	}
	for _, limit := range []int{1, 2, 100} {
		var got []string
		for _, e := range list(t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Followers(t.Context(), "bob", in) }) {
			got = append(got, e.UserID)
		}
		assert.Equal(t, want, got, "pages of %d", limit)
	}
	assert.Empty(t, w.home("bob", 10, home.Query{}))
}
