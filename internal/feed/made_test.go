package feed_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// The new posts of all authors are read across the end of a bucket of time, which is nine hours long.
// Posts of clocks that are ahead are read, too.
func TestNewPostsAreReadAcrossTheEndOfABucket(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "ben")
	var want []schema.PostRef
	for i := range 80 {
		p := w.post([]string{"ann", "ben"}[i%2], fmt.Sprint(i))
		want = append(want, schema.PostRef{ID: p.ID, Author: p.AuthorID, LikeShards: 1})
		w.clock.add(15 * time.Minute)
	}
	for i := range 40 {
		made, err := w.PostsMade(t.Context(), access.TimeOf(want[len(want)-i-1].ID))
		require.NoError(t, err)
		assert.ElementsMatch(t, want[len(want)-i-1:], made.Posts, "%d posts back", i+1)
	}
	w.clock.add(-19 * time.Minute) // the last post is four minutes ahead
	made, err := w.PostsMade(t.Context(), w.clock.now())
	require.NoError(t, err)
	assert.Equal(t, want[79:], made.Posts)
}

// A home shows the posts of its user, and of all followees that are not muted.
func TestTheAuthorsOfAHome(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "ben", "cat", "dan", "eve")
	for _, author := range []string{"ben", "cat", "dan"} {
		w.follow("ann", author)
	}
	w.mute("ann", "cat")
	w.mute("ann", "eve")
	for most, want := range map[int]struct {
		authors []string
		whole   bool
	}{2: {[]string{"ann", "ben"}, false}, 3: {[]string{"ann", "ben", "dan"}, true}} {
		authors, whole, err := w.Heard(t.Context(), "ann", most)
		require.NoError(t, err)
		assert.Equal(t, want.authors, authors)
		assert.Equal(t, want.whole, whole)
	}
}

// A look does not read the like counts of deleted posts again.
func TestLikeCountsOfDeletedPostsAreReadOnce(t *testing.T) {
	var m meter
	w := newWorld(t, m.onto)
	w.users("ann")
	p := w.post("ann", "x")
	w.addLikes(p.ID, 3)
	seen := w.watch("ann", "")
	require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
	for _, want := range []float64{1.5, 0.5} {
		assert.Equal(t, want, m.of(func() {
			changes, err := w.LikeChanges(t.Context(), "ann", seen)
			require.NoError(t, err)
			assert.Empty(t, changes)
		}))
	}
}

// A tick of the tail looks half a minute back, and a network may make a thousand changes a second.
func TestAMinuteOfManyChangesIsReadWhole(t *testing.T) {
	t.Parallel()
	const changes = 5001
	w := newWorld(t)
	start := w.clock.now()
	var items []table.Item
	for _, event := range w.ids(changes) {
		items = append(items, schema.Change{Event: event, Post: event, Author: "ann"}.Item(w.clock.now()))
	}
	w.put(items...)
	made, err := w.PostsMade(t.Context(), start)
	require.NoError(t, err)
	assert.Len(t, made.Changes, changes)
	assert.False(t, made.More)
}

// Processes with live homes read each deletion, take-down and edit in the log of changes, also across the
// end of a bucket of time. A process that is alone writes no log.
func TestChangesOfPostsAreInALog(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "ben")
	var posts []string
	for range 4 {
		posts = append(posts, w.post("ann", "x").ID)
	}
	start := w.clock.now()
	text := "y"
	want := []schema.Change{
		{Post: posts[0], Author: "ann"}, {Post: posts[0], Author: "ann", Deleted: true}, {Post: posts[1], Author: "ann", Deleted: true}, {Post: posts[2], Author: "ann"},
	}
	for i, change := range []func() error{
		func() error {
			_, err := w.EditPost(t.Context(), "ann", posts[0], feed.PostEdit{Text: &text})
			return err
		},
		func() error { return w.DeletePost(t.Context(), "ann", posts[0]) },
		func() error { _, err := w.TakeDown(t.Context(), "moderation", posts[1], "spam"); return err },
		func() error {
			_, err := w.EditPost(t.Context(), "ann", posts[2], feed.PostEdit{Text: &text})
			return err
		},
	} {
		w.clock.add(5 * time.Hour)
		require.NoError(t, change())
		made, err := w.PostsMade(t.Context(), w.clock.now().Add(-time.Minute))
		require.NoError(t, err)
		require.Len(t, made.Changes, 1, i)
		assert.Equal(t, w.clock.now().UnixMilli(), access.TimeOf(made.Changes[0].Event).UnixMilli())
		made.Changes[0].Event = ""
		assert.Equal(t, want[i], made.Changes[0])
	}
	w.clock.add(time.Minute)
	require.Error(t, w.DeletePost(t.Context(), "ann", posts[1]), "it is gone")
	require.Error(t, w.DeletePost(t.Context(), "ben", posts[2]))
	_, err := w.EditPost(t.Context(), "ann", posts[1], feed.PostEdit{Text: &text})
	require.Error(t, err)
	made, err := w.PostsMade(t.Context(), w.clock.now())
	require.NoError(t, err)
	assert.Empty(t, made.Changes, "of calls that changed nothing")
	made, err = w.PostsMade(t.Context(), start)
	require.NoError(t, err)
	assert.Len(t, made.Changes, 1, "the log keeps an hour")

	alone := newWorld(t, func(c *config) { c.Local = true })
	alone.users("ann")
	post := alone.post("ann", "x").ID
	_, err = alone.EditPost(t.Context(), "ann", post, feed.PostEdit{Text: &text})
	require.NoError(t, err)
	require.NoError(t, alone.DeletePost(t.Context(), "ann", post))
	made, err = alone.PostsMade(t.Context(), start.Add(-time.Hour))
	require.NoError(t, err)
	assert.Empty(t, made.Changes)
}

// Nobody knows the changes that a failed read would have found, so the tail must hear of the failure (C6).
func TestAFailedReadOfTheChangesIsAFailure(t *testing.T) {
	w, tp := tapped(t)
	tp.set(func(c call) failure {
		if strings.HasPrefix(c.key.PK, "changed#") {
			return lost
		}
		return works
	})
	_, err := w.PostsMade(t.Context(), w.clock.now())
	wantKind(t, err, fault.Unavailable)
}

// A second moderator takes a post down while the first one does.
func TestTwoTakeDownsAtOnceHaveTheFirstReason(t *testing.T) {
	w, store := onTransact(t)
	w.users("ann")
	p := w.post("ann", "p")
	store.do = func() {
		_, err := w.TakeDown(t.Context(), "first", p.ID, "the first reason")
		require.NoError(t, err)
	}
	down, err := w.TakeDown(t.Context(), "second", p.ID, "another reason")
	require.NoError(t, err)
	require.Nil(t, store.do)
	assert.Equal(t, "the first reason", down.Reason)
}
