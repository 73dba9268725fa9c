package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// unmade publishes a post of ann, whose transaction fails. unmade returns the event, and mends the table.
func unmade(t *testing.T) (w *world, e *messages.PostCreated) {
	t.Helper()
	w, mend := withoutTransactions(t)
	_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "accepted"}})
	require.NoError(t, err, "the event is durable")
	mend()
	for _, of := range w.published.take() {
		if made, ok := of.(*messages.PostCreated); ok {
			e = made
		}
	}
	require.NotNil(t, e)
	return w, e
}

// The post's event waits in the queue, and its author deletes the post. The post must not appear later.
func TestADeletionBeforeItsPostKeepsThePostAway(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, time.Hour, 20 * 24 * time.Hour} {
		w, e := unmade(t)
		w.clock.add(late)
		wantKind(t, w.DeletePost(t.Context(), "ann", e.PostID), fault.NotFound)
		p, err := w.EnsurePost(t.Context(), e)
		require.NoError(t, err)
		assert.True(t, p.Deleted)
		_, err = w.Post(t.Context(), access.Viewer{}, e.PostID)
		wantKind(t, err, fault.NotFound)
		ann, err := w.User(t.Context(), "ann")
		require.NoError(t, err)
		assert.Zero(t, ann.Counts.Posts)
		require.NoError(t, w.posts("next"), "the author waits for no deleted post")
	}
}

// A stranger has deleted the id, so the id has a tombstone that keeps no post of the author away. The author is not told that the
// post is gone, because a worker makes it.
func TestADeletionAfterAStrangersDeletionIsOpen(t *testing.T) {
	t.Parallel()
	w, e := unmade(t)
	w.users("mallory")
	wantKind(t, w.DeletePost(t.Context(), "mallory", e.PostID), fault.NotFound)
	wantKind(t, w.DeletePost(t.Context(), "ann", e.PostID), fault.Unavailable)
	wantKind(t, w.DeletePost(t.Context(), "mallory", e.PostID), fault.NotFound)
	_, err := w.EnsurePost(t.Context(), e)
	require.NoError(t, err)
	require.NoError(t, w.DeletePost(t.Context(), "ann", e.PostID))
	_, err = w.EnsurePost(t.Context(), e)
	require.NoError(t, err)
	_, err = w.Post(t.Context(), access.Viewer{}, e.PostID)
	wantKind(t, err, fault.NotFound)
}

// No event can make the post any more, so it is gone.
func TestADeletionAfterAStrangersDeletionEndsWithTheMessages(t *testing.T) {
	t.Parallel()
	w, e := unmade(t)
	w.users("mallory")
	wantKind(t, w.DeletePost(t.Context(), "mallory", e.PostID), fault.NotFound)
	w.clock.add(messages.MaxAge + time.Hour)
	wantKind(t, w.DeletePost(t.Context(), "ann", e.PostID), fault.NotFound)
}

// A read that fails leaves no tombstone, so the answer must not be that there is no post.
func TestADeletionBeforeItsPostPromisesNothingWithoutItsTombstone(t *testing.T) {
	t.Parallel()
	for _, unread := range []table.Key{schema.CountsKey("ann"), schema.ProfileKey("ann")} {
		w, e := unmade(t)
		tp, ok := w.store.(*tap)
		require.True(t, ok)
		inOrder := newWorldAt(t, w.clock, func(c *config) { c.Store, c.Local = tp, true }) // the read of the post comes first
		tp.set(func(c call) failure {
			if c.key == unread {
				return lost
			}
			return works
		})
		wantKind(t, inOrder.DeletePost(t.Context(), "ann", e.PostID), fault.Unavailable)
	}
}

// The worker makes the post between the deletion's read and its write.
func TestADeletionBesideItsPostDeletesThePost(t *testing.T) {
	t.Parallel()
	w, e := unmade(t)
	made := false
	tp, ok := w.store.(*tap)
	require.True(t, ok)
	worker := newWorldAt(t, w.clock, func(c *config) { c.Store = tp.Store })
	tp.set(func(c call) failure {
		if c.op == table.OpPut && !made {
			made = true
			_, err := worker.EnsurePost(t.Context(), e)
			require.NoError(t, err)
		}
		return works
	})
	require.NoError(t, w.DeletePost(t.Context(), "ann", e.PostID))
	assert.True(t, made)
	_, err := w.Post(t.Context(), access.Viewer{}, e.PostID)
	wantKind(t, err, fault.NotFound)
}

// A deletion writes nothing for an id that no event can make any more, and for a user without a profile.
func TestADeletionOfAnIDThatNobodyMakesWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann")
	old, err := id.Named(w.clock.now().Add(-messages.MaxAge-time.Hour), "old")
	require.NoError(t, err)
	for _, try := range [][2]string{{"ann", old}, {"nobody", w.ids(1)[0]}, {"ann", "malformed"}} {
		wantKind(t, w.DeletePost(t.Context(), try[0], try[1]), fault.NotFound)
		it, err := w.store.Get(t.Context(), table.GetInput{Key: schema.PostByIDKey(try[1]), Consistent: true})
		require.NoError(t, err)
		assert.Nil(t, it.Item, try)
	}
}

// Any user may delete an id that no post has yet. That keeps no post of another user away whose id the user has guessed, such as
// the id that an import makes.
func TestADeletionOfAnIDKeepsNoPostOfAnotherUserAway(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(w *world, post string) error{
		"an import": func(w *world, post string) error {
			_, err := w.ImportPost(t.Context(), schema.Post{ID: post, Author: "ann", Content: schema.Content{Text: "imported"}})
			return err
		},
		"an event of another producer": func(w *world, post string) error {
			_, err := w.EnsurePost(t.Context(), &messages.PostCreated{PostID: post, AuthorID: "ann", Content: messages.Content{Text: "produced"}})
			return err
		},
	} {
		w := newWorld(t)
		w.users("ann", "mallory")
		post := w.ids(1)[0]
		wantKind(t, w.DeletePost(t.Context(), "mallory", post), fault.NotFound)
		require.NoError(t, made(w, post), name)
		p, err := w.Post(t.Context(), access.Viewer{}, post)
		require.NoError(t, err, name)
		assert.Equal(t, "ann", p.AuthorID)
		require.NoError(t, made(w, post), "%s, again", name)
		wantKind(t, w.DeletePost(t.Context(), "mallory", post), fault.Forbidden)

		require.NoError(t, w.DeletePost(t.Context(), "ann", post))
		_ = made(w, post) // only the effect matters
		_, err = w.Post(t.Context(), access.Viewer{}, post)
		wantKind(t, err, fault.NotFound)
		ann, err := w.User(t.Context(), "ann")
		require.NoError(t, err)
		assert.Zero(t, ann.Counts.Posts, name)
	}
}

// A post that its author has deleted keeps its id: another user's post with the id is refused.
func TestADeletedPostKeepsItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("ann", "mine")
	require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
	_, err := w.ImportPost(t.Context(), schema.Post{ID: p.ID, Author: "bob", Content: schema.Content{Text: "not mine"}})
	require.ErrorContains(t, err, "belongs to a post of ann")
	_, err = w.EnsurePost(t.Context(), &messages.PostCreated{PostID: p.ID, AuthorID: "bob", Content: messages.Content{Text: "not mine"}})
	require.ErrorAs(t, err, new(*messages.PermanentError))
}

// No answered call of another kind is undone before it is made: a comment, a follow and a bookmark are in the table when they are
// answered, and a like is an event with a lower version than the event that takes it back.
func TestNoOtherDeletionComesBeforeItsObject(t *testing.T) {
	t.Parallel()
	tp := &tap{Store: tabletest.NewMemory()}
	w := newWorld(t, func(c *config) { c.Store = tp })
	w.users("ann", "bob")
	p := w.post("bob", "there")
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			return lost
		}
		return works
	})
	_, err := w.CreateComment(t.Context(), "ann", p.ID, "lost")
	wantKind(t, err, fault.Unavailable)
	wantKind(t, w.Follow(t.Context(), "ann", "bob"), fault.Unavailable)
	wantKind(t, w.Bookmark(t.Context(), "ann", p.ID), fault.Unavailable)
	tp.set(nil)
	w.published.take()
	require.NoError(t, w.Like(t.Context(), "ann", p.ID))
	w.clock.add(-time.Second) // another process, before anybody has stored the like
	require.NoError(t, w.Unlike(t.Context(), "ann", p.ID))
	events := w.published.take()
	require.Len(t, events, 2)
	assert.Less(t, events[0].Head().EventID, events[1].Head().EventID)
	for _, pk := range []string{schema.CommentsPK(p.ID), schema.FollowersPK("bob"), schema.BookmarksPK("ann")} {
		assert.Empty(t, w.partition(pk))
	}
}
