package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// withoutTransactions returns a world in which each post is large, and whose table refuses transactions
// until the caller calls mend.
func withoutTransactions(t *testing.T) (w *world, mend func()) {
	t.Helper()
	tp := &tap{Store: tabletest.NewMemory()}
	w = newWorld(t, func(c *config) { c.Store, c.UserUnits = tp, 10_000 })
	w.users("ann", "bob")
	w.clock.add(time.Hour)
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			return lost
		}
		return works
	})
	return w, func() { tp.set(nil) }
}

// neverMade lets the worker handle the events of posts that it must not make.
func (w *world) neverMade() {
	w.t.Helper()
	for _, e := range w.published.take() {
		if made, ok := e.(*messages.PostCreated); ok {
			p, err := w.EnsurePost(w.t.Context(), made)
			require.NoError(w.t, err)
			require.True(w.t, p.Deleted)
		}
	}
}

func (w *world) posts(text string) error {
	_, err := w.CreatePost(w.t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: text}})
	return err
}

// The worker writes no post that has ended, so the author waits for it until its end only.
func TestAnAuthorWaitsForNoPostThatHasEnded(t *testing.T) {
	t.Parallel()
	w, mend := withoutTransactions(t)
	_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "ends", ExpiresAt: w.clock.now().Add(2 * time.Minute)}})
	require.NoError(t, err, "the event is durable")
	mend()
	wantKind(t, w.posts("too soon"), fault.Unavailable)
	w.clock.add(2 * time.Minute)
	w.neverMade()
	require.NoError(t, w.posts("next"))
}

// The worker writes no post of a former life.
func TestAnAuthorWaitsForNoPostOfAFormerLife(t *testing.T) {
	t.Parallel()
	w, mend := withoutTransactions(t)
	require.NoError(t, w.posts("of the first life"))
	mend()
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	w.neverMade()
	w.users("ann")
	w.clock.add(5 * time.Minute)
	require.NoError(t, w.posts("of the new life"))
}

// A message may be a dead letter, or its queue may be away.
func TestAnAuthorWaitsForAPostForMinutesAtMost(t *testing.T) {
	t.Parallel()
	w, mend := withoutTransactions(t)
	require.NoError(t, w.posts("never made"))
	mend()
	w.clock.add(4 * time.Minute)
	wantKind(t, w.posts("too soon"), fault.Unavailable)
	w.clock.add(time.Minute)
	require.NoError(t, w.posts("next"))
}
