package fanout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/messages"
)

// A worker whose clock is in doubt leaves out nothing because of an age: no entry that seems expired, no
// chain whose record seems expired, and no post of a backfill. The messages are redelivered, and succeed once
// the clock is right.
func TestAClockInDoubtLeavesNothingOut(t *testing.T) {
	wrong := 0 * time.Second
	var w *world
	now := func() time.Time { return w.now.Add(wrong) }
	w = newWorld(t, 9, small)
	clk := clock.New(now)
	w.worker = w.newWorker(small, func(c *fanout.Config) { c.Now, c.Clock, c.Lifetimes = now, clk, lifetime.Fixed(24*time.Hour) })
	post := w.post()
	_, err := w.EnsurePost(t.Context(), post)
	w.must(err)
	follow := w.follow("new", post.PostID)
	plan := &messages.FanoutPlan{Header: w.header(), PostID: post.PostID, AuthorID: author}
	purge := &messages.PostDeleted{Header: w.header(), PostID: post.PostID, AuthorID: author}
	for _, row := range []struct {
		e     messages.Event
		ahead time.Duration
	}{
		{post, 10 * 24 * time.Hour}, {post, 40 * 24 * time.Hour}, {follow, 10 * 24 * time.Hour}, {plan, 70 * 24 * time.Hour}, {purge, time.Hour},
	} {
		wrong = row.ahead
		require.ErrorAs(t, handle(t.Context(), w.worker, row.e), new(*clock.DoubtError), "%s by a clock %s ahead", messages.KindOf(row.e), row.ahead)
	}
	wrong = 0
	w.enqueue(post)
	w.drain(w.worker)
	for _, user := range []string{author, follower(0), follower(8), "new"} {
		w.wantHome(user, post.PostID)
	}
}

// The clock is ahead by fewer days than homes keep posts, so a new post seems old, but not too old. If the worker
// made a message with an id of that clock, other workers would refuse the message as permanently invalid.
func TestAClockInDoubtMakesNoID(t *testing.T) {
	wrong := 10 * 24 * time.Hour
	var w *world
	now := func() time.Time { return w.now.Add(wrong) }
	w = newWorld(t, 9, small)
	clk := clock.New(now)
	clk.Observe(w.now, 0)
	ids := id.NewGenerator(now)
	w.worker = w.newWorker(small, func(c *fanout.Config) { c.Now, c.Clock, c.IDs = now, clk, ids })
	post := w.post()
	_, err := w.EnsurePost(t.Context(), post)
	w.must(err)
	unfollowed := w.unfollow(follower(8))
	w.entries(follower(8), author, 60)
	for _, e := range []messages.Event{post, unfollowed, &messages.FanoutPlan{Header: w.header(), PostID: post.PostID, AuthorID: author}} {
		require.ErrorAs(t, handle(t.Context(), w.worker, e), new(*clock.DoubtError), "%s", messages.KindOf(e))
	}
	require.Empty(t, w.queued)
	wrong = 0
	made, err := ids.New()
	w.must(err)
	at, err := id.Time(made)
	w.must(err)
	require.WithinDuration(t, w.now, at, time.Second, "the generator makes no id of the wrong clock later")
}
