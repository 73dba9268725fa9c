package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestACommentTellsOfItselfFirst(t *testing.T) {
	var w *world
	var sent []messages.Event
	var fail error
	there := -1
	w = newWorld(t, func(c *config) {
		c.Notices = func(ctx context.Context, events ...messages.Event) error {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok && time.Until(deadline) <= time.Second, "a comment waits no longer for the queue")
			commented, ok := events[0].(*messages.Commented)
			require.True(t, ok)
			there = len(w.partition(schema.CommentsPK(commented.PostID)))
			sent = append(sent, events...)
			return fail
		}
	})
	w.users("ann", "bob")
	p := w.post("ann", "hello")
	w.deliver()
	c, err := w.CreateComment(t.Context(), "bob", p.ID, "hi")
	require.NoError(t, err)
	assert.Zero(t, there, "the comment was made before its event was sent")
	require.Len(t, sent, 1)
	made := sent[0].(*messages.Commented)
	assert.Equal(t, messages.Commented{Header: made.Header, PostID: p.ID, AuthorID: "ann", CommentID: c.ID, UserID: "bob"}, *made)
	assert.True(t, id.Valid(made.EventID))

	fail = errors.New("planned")
	wantKind(t, w.DeleteComment(t.Context(), "bob", p.ID, c.ID), fault.Unavailable)
	assert.Len(t, w.partition(schema.CommentsPK(p.ID)), 1, "a comment went that a notification shows")
	_, err = w.CreateComment(t.Context(), "bob", p.ID, "again")
	require.NoError(t, err, "a comment is made all the same")

	fail, sent = nil, nil
	require.NoError(t, w.DeleteComment(t.Context(), "ann", p.ID, c.ID))
	assert.Equal(t, 2, there)
	require.Len(t, sent, 1)
	gone := sent[0].(*messages.Commented)
	assert.Equal(t, messages.Commented{Header: gone.Header, PostID: p.ID, AuthorID: "ann", CommentID: c.ID, UserID: "bob", Deleted: true}, *gone)
}

// A removal removes exactly the notifications of former lives.
func TestNotificationsOfAFormerLifeGo(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	put := func(it table.Item) {
		_, err := w.store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	notice := func(kind schema.NoticeKind, target, place string) schema.Notice {
		return schema.Notice{User: "ann", Kind: kind, Target: target, Revision: 7, Acts: []schema.Act{{Version: id.Min, Place: place, State: schema.ActHolds, User: "bob"}}}
	}
	before := id.Floor(w.clock.now())
	ids := w.ids(3)
	for _, n := range []schema.Notice{notice(schema.NoticeLike, ids[0], before), notice(schema.NoticeMention, ids[1], before), notice(schema.NoticeFollow, "", before)} {
		put(n.Item())
	}
	put(schema.NoticeMarkItem("ann", before))
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	event := w.published.take()[0].Head().EventID
	w.clock.add(2 * time.Minute)
	w.users("ann")
	after := id.Floor(w.clock.now().Add(time.Hour))
	kept := notice(schema.NoticeMention, ids[2], after)
	put(kept.Item())
	for {
		done, err := w.Forget(t.Context(), "ann", event, 2)
		require.NoError(t, err)
		if done.Sum() == 0 {
			break
		}
	}
	left := w.partition(schema.NoticesPK("ann"))
	require.Len(t, left, 1)
	assert.Equal(t, kept.Key(), left[0].Key)
}
