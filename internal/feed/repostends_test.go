package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/schema"
)

// story makes a post that ends.
func (w *world) story(author string, lasts time.Duration) feed.Post {
	w.t.Helper()
	p, err := w.CreatePost(w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: "story", ExpiresAt: w.clock.now().Add(lasts)}})
	require.NoError(w.t, err)
	return p
}

// The id of a repost may be ahead of the clock, because the ids of its user are: no repost begins after the end of its original.
func TestARepostAfterTheEndOfItsOriginalIsRefused(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.story("ann", time.Minute)
	w.clock.add(70 * time.Second)
	q := w.post("bob", "from a clock that is ahead")
	w.clock.add(-20 * time.Second)
	require.NoError(t, w.DeletePost(t.Context(), "bob", q.ID)) // the next id is above the newest deleted post
	w.published.take()
	_, err := w.Repost(t.Context(), "bob", p.ID)
	wantKind(t, err, fault.NotFound)
	require.Empty(t, w.published.take())
	require.Nil(t, w.item(schema.RepostKey("bob", p.ID)))
}

// A repost ends with its original. A call that ends it afterwards succeeds, and leaves no binding.
func TestTheEndOfARepostThatHasEndedSucceeds(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.story("ann", time.Hour)
	w.repost("bob", p.ID)
	w.clock.add(2 * time.Hour)
	for range 2 {
		w.endRepost("bob", p.ID)
		require.Nil(t, w.item(schema.RepostKey("bob", p.ID)))
	}
}
