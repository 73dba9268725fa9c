package feed_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/messages"
)

func withKinds(c *config) { c.Reactions, c.LikesByUser = []string{"love", "wow"}, true }

// Each read of reactions shows the kinds. Reads of likes show only the kind like.
func TestReadsShowEachKind(t *testing.T) {
	for _, shards := range []int64{1, 1000} { // shards is the number of followers for each shard
		w := newWorld(t, withKinds, func(c *config) { c.FollowersPerLikeShard = shards })
		w.users("ann", "bob", "cid", "dan")
		for _, fan := range []string{"bob", "cid", "dan"} {
			w.follow(fan, "ann")
		}
		p := w.post("ann", "x")
		w.deliver()
		for user, kind := range map[string]string{"bob": "love", "cid": "love", "dan": "like"} {
			require.NoError(t, w.React(t.Context(), user, p.ID, kind))
		}
		w.deliver()
		require.NoError(t, w.React(t.Context(), "cid", p.ID, "wow"))
		changed := w.published.take()
		require.Len(t, changed, 1)
		assert.True(t, changed[0].(*messages.Reacted).Stored)
		w.published.events = changed
		w.deliver()

		count, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 1, count.Count)
		counts := map[string]int64{"love": 1, "wow": 1, "like": 1}
		assert.Equal(t, counts, count.Kinds)
		for viewer, kind := range map[string]string{"bob": "love", "cid": "wow", "dan": "like", "ann": ""} {
			for _, pull := range []bool{false, true} {
				items := w.home(viewer, 20, home.Query{Pull: pull})
				require.Len(t, items, 1)
				assert.Equal(t, counts, items[0].Reactions)
				assert.Equal(t, kind, items[0].Reaction)
				assert.Equal(t, kind == "like", items[0].Liked)
				assert.EqualValues(t, 1, items[0].LikeCount)
			}
		}
		for kind, want := range map[string][]string{"": {"bob", "cid", "dan"}, "love": {"bob"}, "wow": {"cid"}, "like": {"dan"}, "other": nil} {
			var got []string
			list, err := w.Reactions(t.Context(), access.Viewer{}, p.ID, kind, page.Request{})
			require.NoError(t, err)
			for _, l := range list.Items {
				got = append(got, l.UserID)
			}
			assert.Equal(t, want, got, "kind %q", kind)
		}
		_, err = w.LikeOf(t.Context(), access.Viewer{}, p.ID, "bob")
		failure, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok)
		assert.Equal(t, fault.NotFound, failure.Kind)
		got, err := w.ReactionOf(t.Context(), access.Viewer{}, p.ID, "bob")
		require.NoError(t, err)
		assert.Equal(t, "love", got.Kind)
		for user, kind := range map[string]string{"bob": "love", "dan": "like"} {
			all, err := w.ReactionsByUser(t.Context(), access.Viewer{}, user, page.Request{})
			require.NoError(t, err)
			require.Len(t, all.Items, 1)
			assert.Equal(t, kind, all.Items[0].Kind)
			likes, err := w.LikesByUser(t.Context(), access.Viewer{}, user, page.Request{})
			require.NoError(t, err)
			assert.Len(t, likes.Items, map[bool]int{true: 1}[kind == "like"])
		}
	}
}

// The list of one kind refuses the cursor of another kind.
func TestACursorOfReactionsIsOfItsKind(t *testing.T) {
	w := newWorld(t, withKinds)
	w.users("ann", "bob", "cid")
	p := w.post("ann", "x")
	w.deliver()
	for _, user := range []string{"ann", "bob", "cid"} {
		require.NoError(t, w.React(t.Context(), user, p.ID, "love"))
	}
	w.deliver()
	first, err := w.Reactions(t.Context(), access.Viewer{}, p.ID, "love", page.Request{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, first.NextCursor)
	for _, kind := range []string{"", "wow", "like"} {
		_, err = w.Reactions(t.Context(), access.Viewer{}, p.ID, kind, page.Request{Limit: 1, Cursor: first.NextCursor})
		assert.Error(t, err, "kind %q", kind)
	}
}

// Reactions of kinds that are not configured are refused. Stored reactions of such kinds can be taken
// back, and show again once the kind is configured.
func TestReactionsSwitchedOff(t *testing.T) {
	w := newWorld(t, withKinds)
	w.users("ann", "bob")
	p := w.post("ann", "x")
	w.deliver()
	require.NoError(t, w.React(t.Context(), "bob", p.ID, "love"))
	w.deliver()
	off := newDomain(config{way: way{
		Store: w.store, Publisher: w.published, Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL), IDs: id.NewGenerator(w.clock.now),
	}, service: service{LikesByUser: true}})
	err := off.React(t.Context(), "bob", p.ID, "love")
	failure, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok, "%v", err)
	require.Len(t, failure.Fields, 1)
	assert.Equal(t, "kind", failure.Fields[0].Field)
	count, err := off.LikeCount(t.Context(), access.Viewer{}, p.ID)
	require.NoError(t, err)
	assert.Empty(t, count.Kinds)
	view, err := off.PostView(t.Context(), access.As("bob"), p.ID)
	require.NoError(t, err)
	assert.Nil(t, view.Reactions)
	assert.Empty(t, view.Reaction)
	assert.False(t, view.Liked)
	list, err := off.Reactions(t.Context(), access.Viewer{}, p.ID, "", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Liker{{UserID: "bob", LikedAt: list.Items[0].LikedAt, Kind: "love"}}, list.Items)
	on, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"love": 1}, on.Kinds)
	require.NoError(t, off.Unlike(t.Context(), "bob", p.ID))
	w.deliver()
	on, err = w.LikeCount(t.Context(), access.Viewer{}, p.ID)
	require.NoError(t, err)
	assert.Empty(t, on.Kinds)
}

// The live home has the counts by kind. When one kind replaces another kind, the live home sends the
// new counts.
func TestLikeChangesHaveTheKinds(t *testing.T) {
	w := newWorld(t, withKinds)
	w.users("ann", "bob")
	p := w.post("ann", "x")
	w.deliver()
	seen := w.watch("ann", "")
	w.arrivals("ann", seen)
	for _, kind := range []string{"love", "wow", ""} {
		act := func() error { return w.React(t.Context(), "bob", p.ID, kind) }
		if kind == "" {
			act = func() error { return w.Unlike(t.Context(), "bob", p.ID) }
		}
		require.NoError(t, act())
		w.deliver()
		changes, err := w.LikeChanges(t.Context(), "ann", seen)
		require.NoError(t, err)
		want := map[string]int64{}
		if kind != "" {
			want[kind] = 1
		}
		assert.Equal(t, []home.PostLikes{{PostID: p.ID, Reactions: want}}, changes)
		changes, err = w.LikeChanges(t.Context(), "ann", seen)
		require.NoError(t, err)
		assert.Empty(t, changes)
	}
}

// A removed user's reactions of all kinds are taken back.
func TestForgettingTakesBackEachKind(t *testing.T) {
	w := newWorld(t, withKinds)
	w.users("ann", "bob")
	p := w.post("ann", "x")
	w.deliver()
	require.NoError(t, w.React(t.Context(), "bob", p.ID, "love"))
	w.deliver()
	w.clock.add(time.Second)
	require.NoError(t, w.DeleteProfile(t.Context(), "bob"))
	assert.Equal(t, 1, w.forget("bob", w.published.take()[0].Head().EventID, 10).Likes)
	count, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
	require.NoError(t, err)
	assert.Empty(t, count.Kinds)
}
