package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// checkCounts compares the counts of users with the stored edges and posts (I4), and the counts of
// posts with the stored comments. checkCounts also compares edges and posts with their counterparts.
// No failure may leave an incomplete change.
func (w *world) checkCounts(users ...string) {
	w.t.Helper()
	for _, user := range users {
		u, err := w.User(w.t.Context(), user)
		require.NoError(w.t, err)
		want := feed.Counts{Following: int64(len(w.partition(schema.FollowingPK(user))))}
		for _, it := range w.partition(schema.FollowersPK(user)) {
			if !it.Has(schema.AttrSilent) {
				want.Followers++
			}
		}
		for _, it := range w.partition(schema.PostsPK(user)) {
			p, err := schema.ParsePost(it)
			require.NoError(w.t, err)
			want.Posts++
			comments := int64(len(w.partition(schema.CommentsPK(p.ID))))
			assert.Equal(w.t, comments, p.Comments, "post %+v", p)
			ref := w.item(schema.PostByIDKey(p.ID))
			if ref == nil || ref.Str(schema.AttrAuthor) != user || ref.Int(schema.AttrDeleted) != 0 {
				w.t.Errorf("post %+v has the post by id %+v", p, ref)
			}
		}
		assert.Equalf(w.t, want, u.Counts, "%s counts %+v, there are %+v", user, u.Counts, want)
		for _, it := range w.partition(schema.FollowingPK(user)) {
			edge, err := schema.ParseEdge(it)
			require.NoError(w.t, err)
			assert.NotNilf(w.t, w.item(schema.FollowerKey(edge.Other, user)),
				"%s follows %s, who is not followed", user, edge.Other)
			assert.Nilf(w.t, w.item(schema.BlockKey(user, edge.Other)), "%s follows %s over a block", user, edge.Other)
		}
		w.checkHidden(user)
	}
}

// checkHidden compares the two items of each of user's mutes, and the two sides of each of user's
// blocks.
func (w *world) checkHidden(user string) {
	w.t.Helper()
	halves := w.partition(schema.MutersPK(user))
	for _, it := range w.partition(schema.MarksPK(user)) {
		if _, ok := schema.MutedOfSK(it.Key.SK); ok {
			halves = append(halves, it)
		}
	}
	for _, it := range halves {
		m, err := schema.ParseMute(it)
		require.NoError(w.t, err)
		assert.NotNil(w.t, w.item(schema.MuteKey(m.User, m.Author)), it.Key)
		assert.NotNil(w.t, w.item(schema.MuterKey(m.Author, m.User)), it.Key)
	}
	for _, it := range w.partition(schema.BlocksPK(user)) {
		b, err := schema.ParseBlock(it)
		require.NoError(w.t, err)
		other := w.item(schema.BlockKey(b.Other, user))
		require.NotNil(w.t, other, it.Key)
		back, err := schema.ParseBlock(*other)
		require.NoError(w.t, err)
		assert.Equal(w.t, schema.Block{User: b.Other, Other: user, Since: b.By, By: b.Since}, back)
		assert.NotNil(w.t, w.item(schema.HasBlocksKey(user)), "likes of %s's posts ask for no blocks", user)
	}
}

func (w *world) item(key table.Key) *table.Item {
	w.t.Helper()
	res, err := w.store.Get(w.t.Context(), table.GetInput{Key: key, Consistent: true})
	require.NoError(w.t, err)
	return res.Item
}

func isWrite(c call) bool {
	switch c.op {
	case table.OpGet, table.OpBatchGet, table.OpQuery:
		return false
	default:
		return true
	}
}

// operation is one call that writes. In the world of the call, bob has the post with the id post and a
// comment by ann, ann follows cid, and no work is pending.
type operation struct {
	name string
	do   func(w *world, s stage) error
	// writes is the number of writes that the operation makes.
	writes int
	// durable is the number of the first write whose failure must not fail the operation.
	durable int
	// repeated is the kind of error that a repeated call may return after the operation had its effect, 0
	// for no error.
	repeated fault.Kind
	// done reports whether the operation had its effect exactly once.
	done func(w *world, s stage) bool
}

type stage struct {
	post    feed.Post
	comment feed.Comment
}

func operations() []operation {
	ctx := context.Background()
	never := 99
	return []operation{
		{
			name: "PutProfile of a new user", writes: 1, durable: never,
			do: func(w *world, _ stage) error {
				_, err := w.PutProfile(ctx, "dan", feed.ProfileInput{Name: "Dan"})
				return err
			},
			done: func(w *world, _ stage) bool { u, err := w.User(ctx, "dan"); return err == nil && u.Name == "Dan" },
		},
		{
			name: "PutProfile of a known user", writes: 1, durable: never,
			do: func(w *world, _ stage) error {
				_, err := w.PutProfile(ctx, "ann", feed.ProfileInput{Name: "Anna"})
				return err
			},
			done: func(w *world, _ stage) bool { u, err := w.User(ctx, "ann"); return err == nil && u.Name == "Anna" },
		},
		{
			name: "Follow", writes: 1, durable: never,
			do: func(w *world, _ stage) error { return w.Follow(ctx, "ann", "bob") },
			done: func(w *world, _ stage) bool {
				r, err := w.Relationship(ctx, "ann", "ann", "bob")
				return err == nil && r.Following
			},
		},
		{
			name: "Unfollow", writes: 1, durable: never,
			do: func(w *world, _ stage) error { return w.Unfollow(ctx, "ann", "cid") },
			done: func(w *world, _ stage) bool {
				r, err := w.Relationship(ctx, "ann", "ann", "cid")
				return err == nil && !r.Following
			},
		},
		{
			name: "Mute", writes: 1, durable: never,
			do: func(w *world, _ stage) error { return w.Mute(ctx, "ann", "bob") },
			done: func(w *world, _ stage) bool {
				l, err := w.Mutes(ctx, "ann", page.Request{})
				return err == nil && len(l.Items) == 2
			},
		},
		{
			name: "Unmute", writes: 1, durable: never,
			do: func(w *world, _ stage) error { return w.Unmute(ctx, "ann", "eve") },
			done: func(w *world, _ stage) bool {
				l, err := w.Mutes(ctx, "ann", page.Request{})
				return err == nil && len(l.Items) == 0
			},
		},
		{
			name: "Bookmark", writes: 1, durable: never,
			do: func(w *world, s stage) error { return w.Bookmark(ctx, "ann", s.post.ID) },
			done: func(w *world, s stage) bool {
				l, err := w.Bookmarks(ctx, "ann", page.Request{})
				return err == nil && len(l.Items) == 1 && l.Items[0].PostID == s.post.ID && len(w.partition(schema.BookmarksPK("ann"))) == 2
			},
		},
		{
			name: "Unbookmark", writes: 1, durable: never,
			do:   func(w *world, s stage) error { return w.Unbookmark(ctx, "cid", s.post.ID) },
			done: func(w *world, _ stage) bool { return len(w.partition(schema.BookmarksPK("cid"))) == 0 },
		},
		{
			name: "SetMarker", writes: 1, durable: never,
			do: func(w *world, _ stage) error { _, err := w.SetMarker(ctx, "ann", "home", "2"); return err },
			done: func(w *world, _ stage) bool {
				m, err := w.MarkerOf(ctx, "ann", "home")
				return err == nil && m.Position == "2"
			},
		},
		{
			name: "DeleteMarker", writes: 1, durable: never,
			do:   func(w *world, _ stage) error { return w.DeleteMarker(ctx, "cid", "home") },
			done: func(w *world, _ stage) bool { return w.item(schema.MarkerKey("cid", "home")) == nil },
		},
		{
			name: "Block", writes: 1, durable: never,
			do: func(w *world, _ stage) error { return w.Block(ctx, "cid", "ann") },
			done: func(w *world, _ stage) bool {
				l, err := w.Blocks(ctx, "cid", page.Request{})
				r, err2 := w.Relationship(ctx, "ann", "ann", "cid")
				return err == nil && err2 == nil && len(l.Items) == 1 && !r.Following
			},
		},
		{
			name: "Unblock", writes: 1, durable: never,
			do: func(w *world, _ stage) error { return w.Unblock(ctx, "eve", "ann") },
			done: func(w *world, _ stage) bool {
				l, err := w.Blocks(ctx, "eve", page.Request{})
				return err == nil && len(l.Items) == 0
			},
		},
		{
			name: "CreatePost", writes: 1, durable: 1,
			do: func(w *world, _ stage) error {
				_, err := w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "new"}})
				return err
			},
			done: func(w *world, _ stage) bool {
				return strings.Join(texts(w.home("ann", 5, home.Query{})), " ") == "new"
			},
		},
		{
			name: "CreatePost with a key", writes: 2, durable: 2,
			do: func(w *world, _ stage) error {
				_, err := w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "new"}, IdempotencyKey: "k"})
				return err
			},
			done: func(w *world, _ stage) bool {
				return strings.Join(texts(w.home("ann", 5, home.Query{})), " ") == "new"
			},
		},
		{
			name: "Repost", writes: 2, durable: 2,
			do: func(w *world, s stage) error { _, err := w.Repost(ctx, "ann", s.post.ID); return err },
			done: func(w *world, _ stage) bool {
				return len(w.home("ann", 5, home.Query{})) == 1 && len(w.partition(schema.RepostsPK("ann"))) == 1
			},
		},
		{
			name: "EndRepost", writes: 2, durable: never,
			do: func(w *world, s stage) error { return w.EndRepost(ctx, "eve", s.post.ID) },
			done: func(w *world, _ stage) bool {
				return len(w.partition(schema.RepostsPK("eve"))) == 0 && len(w.partition(schema.PostsPK("eve"))) == 0
			},
		},
		{
			name: "EditPost", writes: 1, durable: never,
			do: func(w *world, s stage) error {
				text := "edited"
				_, err := w.EditPost(ctx, "bob", s.post.ID, feed.PostEdit{Text: &text})
				return err
			},
			done: func(w *world, s stage) bool {
				p, err := w.Post(ctx, access.Viewer{}, s.post.ID)
				return err == nil && p.Text == "edited"
			},
		},
		{
			name: "DeletePost", writes: 1, durable: never, repeated: fault.NotFound,
			do: func(w *world, s stage) error { return w.DeletePost(ctx, "bob", s.post.ID) },
			done: func(w *world, s stage) bool {
				_, err := w.Post(ctx, access.Viewer{}, s.post.ID)
				e, ok := errors.AsType[*fault.Error](err)
				return ok && e.Kind == fault.NotFound
			},
		},
		{
			name: "TakeDown", writes: 1, durable: never,
			do: func(w *world, s stage) error {
				_, err := w.TakeDown(ctx, "moderation", s.post.ID, "a reason")
				return err
			},
			done: func(w *world, s stage) bool {
				d, err := w.Delivery(ctx, "bob", s.post.ID)
				return err == nil && d.TakenDown != nil && d.TakenDown.Reason == "a reason"
			},
		},
		{
			name: "CreateComment", writes: 1, durable: never,
			do: func(w *world, s stage) error { _, err := w.CreateComment(ctx, "cid", s.post.ID, "new"); return err },
			done: func(w *world, s stage) bool {
				l, err := w.Comments(ctx, access.Viewer{}, s.post.ID, page.Request{})
				return err == nil && len(l.Items) > 1
			},
		},
		{
			name: "DeleteComment", writes: 1, durable: never, repeated: fault.NotFound,
			do: func(w *world, s stage) error { return w.DeleteComment(ctx, "ann", s.post.ID, s.comment.ID) },
			done: func(w *world, s stage) bool {
				l, err := w.Comments(ctx, access.Viewer{}, s.post.ID, page.Request{})
				return err == nil && len(l.Items) == 0
			},
		},
	}
}

func newStage(t *testing.T) (*world, *tap, stage) {
	t.Helper()
	w, tp := tapped(t)
	w.users("ann", "bob", "cid", "eve")
	w.follow("ann", "cid")
	w.mute("ann", "eve")
	w.block("eve", "ann")
	var s stage
	s.post = w.post("bob", "old")
	w.bookmark("cid", s.post)
	w.repost("eve", s.post.ID)
	w.marker("cid", "home", "1", "1")
	var err error
	s.comment, err = w.CreateComment(t.Context(), "ann", s.post.ID, "old")
	require.NoError(t, err)
	w.deliver()
	w.clock.add(1)
	return w, tp, s
}

func TestEveryWriteMayFailInEachWay(t *testing.T) {
	for _, op := range operations() {
		for nth := 1; nth <= op.writes; nth++ {
			for _, f := range []failure{lost, answerLost, conflicts} {
				t.Run(fmt.Sprintf("%s, write %d %s", op.name, nth, f), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { failOneWrite(t, op, nth, f) })
				})
			}
		}
	}
}

func failOneWrite(t *testing.T, op operation, nth int, f failure) {
	t.Helper()
	w, tp, s := newStage(t)
	writes, transaction := 0, false
	tp.set(func(c call) failure {
		if !isWrite(c) {
			return works
		}
		if writes++; writes != nth {
			return works
		}
		transaction = c.op == table.OpTransact
		return f
	})
	err := op.do(w, s)
	tp.set(nil)
	require.GreaterOrEqualf(t, writes, nth, "it made %d writes: the fault never fired", writes)
	switch {
	case f == conflicts && transaction, nth >= op.durable:
		require.NoError(t, err, "it failed")
	default:
		wantKind(t, err, fault.Unavailable)
		if e, _ := errors.AsType[*fault.Error](err); e.RetryAfter <= 0 {
			t.Error("the error has no RetryAfter")
		}
	}
	w.checkCounts("ann", "bob", "cid")
	if f == lost && err != nil && op.done(w, s) {
		t.Error("it was done, though nothing was written")
	}
	if f == answerLost && nth == op.writes && !op.done(w, s) {
		t.Error("it was not done, though all was written")
	}
	if err != nil { // the user retries the call
		w.clock.add(1)
		if err := op.do(w, s); err != nil {
			require.NotZerof(t, op.repeated, "again: %v", err)
			wantKind(t, err, op.repeated)
		}
	}
	w.deliver() // a worker completes the accepted operation
	assert.True(t, op.done(w, s), "in the end it was not done")
	w.checkCounts("ann", "bob", "cid")
}

func TestLastingConflictsAreUnavailable(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, tp, s := newStage(t)
				transactions := 0
				tp.set(func(c call) failure {
					if c.op != table.OpTransact {
						return works
					}
					transactions++
					return conflicts
				})
				err := op.do(w, s)
				tp.set(nil)
				switch {
				case transactions == 0, op.durable <= op.writes:
					assert.NoError(t, err)
				default:
					wantKind(t, err, fault.Unavailable)
					assert.False(t, op.done(w, s), "it was done")
				}
				w.checkCounts("ann", "bob", "cid")
			})
		})
	}
}

func TestEveryReadMayFail(t *testing.T) {
	for _, op := range operations() {
		for nth := 1; ; nth++ {
			fired := false
			t.Run(fmt.Sprintf("%s, read %d", op.name, nth), func(t *testing.T) {
				w, tp, s := newStage(t)
				reads := 0
				tp.set(func(c call) failure {
					if isWrite(c) {
						return works
					}
					if reads++; reads != nth {
						return works
					}
					fired = true
					return lost
				})
				err := op.do(w, s)
				tp.set(nil)
				if !fired {
					return
				}
				wantKind(t, err, fault.Unavailable)
				assert.False(t, op.done(w, s), "it was done")
				w.checkCounts("ann", "bob", "cid")
				assert.Empty(t, w.published.take(), "something was published")
			})
			if !fired {
				break
			}
		}
	}
}

// lossyPublisher publishes the events and then reports a failure.
type lossyPublisher struct{ *recorder }

func (p lossyPublisher) Publish(topic string, msgs ...*message.Message) error {
	if err := p.recorder.Publish(topic, msgs...); err != nil {
		return err
	}
	return errors.New("answer lost")
}

func TestAFailedPublishOfAPostWritesNothing(t *testing.T) {
	for _, key := range []string{"", "k"} {
		w := newWorld(t)
		w.users("ann")
		w.published.failWith(errors.New("queue down"))
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "new"}, IdempotencyKey: key})
		wantKind(t, err, fault.Unavailable)
		w.checkCounts("ann")
		w.homes("ann")
		w.published.failWith(nil)
		_, err = w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "new"}, IdempotencyKey: key})
		require.NoError(t, err)
		w.deliver()
		w.homes("ann", "new")
		w.checkCounts("ann")
	}
}

func TestAPublishWhoseAnswerWasLostIsOnePostWithAKey(t *testing.T) {
	rec := &recorder{}
	lossy := true
	w := newWorld(t, func(c *config) {
		c.Publisher = publishFunc(func(topic string, msgs ...*message.Message) error {
			if lossy {
				return lossyPublisher{rec}.Publish(topic, msgs...)
			}
			return rec.Publish(topic, msgs...)
		})
	})
	w.published = rec
	w.users("ann")
	in := feed.PostInput{Content: feed.Content{Text: "new"}, IdempotencyKey: "k"}
	_, err := w.CreatePost(t.Context(), "ann", in)
	wantKind(t, err, fault.Unavailable)
	lossy = false
	_, err = w.CreatePost(t.Context(), "ann", in)
	require.NoError(t, err)
	if events := rec.take(); len(events) != 2 || events[0].(*messages.PostCreated).PostID != events[1].(*messages.PostCreated).PostID {
		t.Errorf("published %+v, want the same post twice", events)
	}
	w.homes("ann", "new")
	w.checkCounts("ann")
}

type publishFunc func(topic string, msgs ...*message.Message) error

func (f publishFunc) Publish(topic string, msgs ...*message.Message) error { return f(topic, msgs...) }
func (publishFunc) Close() error                                           { return nil }

func TestAFollowWhosePublishFailedIsAFollow(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.post("bob", "b1")
	w.deliver()
	w.published.failWith(errors.New("queue down"))
	w.follow("ann", "bob")
	w.homes("ann", "b1")
	w.published.failWith(nil)
	w.homes("ann", "b1")
	assert.Empty(t, w.published.take(), "a young mark was reminded of")
	w.clock.add(11e9)
	w.homes("ann", "b1")
	events := w.published.take()
	require.Len(t, events, 1)
	w.backfill(events[0].(*messages.Followed))
	w.clock.add(61e9)
	w.homes("ann", "b1")
	assert.NotNil(t, w.item(table.Key{PK: schema.TimelinePK("ann"), SK: w.partition(schema.TimelinePK("ann"))[0].Key.SK}),
		"the backfill copied nothing")
}

func TestALikeThatWasNotPublishedIsUnavailable(t *testing.T) {
	w, _, s := newStage(t)
	w.published.failWith(errors.New("queue down"))
	wantKind(t, w.Like(t.Context(), "ann", s.post.ID), fault.Unavailable)
	wantKind(t, w.Unlike(t.Context(), "ann", s.post.ID), fault.Unavailable)
}
