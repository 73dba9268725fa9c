package fanout_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func (o *others) notified(c *fanout.Config) { c.Notices = o.send }

func TestMentionedUsersAreToldAfterTheDelivery(t *testing.T) {
	var out others
	w := newWorld(t, 3, out.notified)
	e := w.post()
	e.Mentions = []string{"bob", "cid"}
	out.err = errors.New("planned")
	require.ErrorIs(t, handle(t.Context(), w.worker, e), out.err)
	assert.Equal(t, "complete", w.deliveryState(e.PostID), "notices that fail hold up a post")
	out.err = nil
	w.must(handle(t.Context(), w.worker, e))
	var users []string
	for _, sent := range out.sent {
		m, ok := sent.(*messages.Mentioned)
		require.True(t, ok)
		assert.Equal(t, []string{author, e.PostID, ""}, []string{m.ActorID, m.PostID, m.CommentID})
		users = append(users, m.UserID)
	}
	assert.Equal(t, []string{"bob", "cid"}, users)
}

func TestTheAuthorOfTheOriginalIsToldOfARepost(t *testing.T) {
	var out others
	w := newWorld(t, 1, out.notified)
	e := w.post()
	e.Text, e.Reference = "", messages.Reference{RepostOf: w.newID(), OfAuthor: "bob", OfShards: 1}
	w.must(handle(t.Context(), w.worker, e))
	counted := func(repost string, deleted bool) messages.Event {
		t.Helper()
		like, kind, ok := messages.ActionOf(w.queued[len(w.queued)-1])
		require.True(t, ok)
		assert.Equal(t, e.RepostOf+" "+messages.Reposter(repost), like.PostID+" "+like.UserID)
		assert.Equal(t, deleted, kind == "")
		return w.queued[len(w.queued)-1]
	}
	assert.Equal(t, e.PostID, counted(e.PostID, false).Head().EventID)
	require.Len(t, out.sent, 1)
	told, ok := out.sent[0].(*messages.Reposted)
	require.True(t, ok)
	assert.Equal(t, messages.Reposted{Header: told.Header, PostID: e.RepostOf, AuthorID: "bob", RepostID: e.PostID, UserID: author}, *told)

	_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.PostRef{ID: e.RepostOf, Author: "bob", LikeShards: 1}.Item()})
	w.must(err)
	deleted := &messages.PostDeleted{Header: w.header(), PostID: e.PostID, AuthorID: author}
	w.deletePost(e.PostID)
	w.now = w.now.Add(10 * time.Minute)
	w.must(w.worker.HandleBackfills(t.Context(), deleted))
	assert.Greater(t, counted(e.PostID, true).Head().EventID, e.PostID)
	sent := len(w.queued)
	w.must(handle(t.Context(), w.worker, e))
	assert.Len(t, w.queued, sent, "a deleted repost does not count")
}

// A repost counts whether or not users have notifications, and its message is redelivered until the aggregator knows of it.
func TestARepostCountsWithoutNotifications(t *testing.T) {
	likes := noLikes{down: true}
	w := newWorld(t, 1, func(c *fanout.Config) { likes.Publisher, c.Publisher = c.Publisher, &likes })
	e := w.post()
	e.Text, e.Reference = "", messages.Reference{RepostOf: w.newID(), OfAuthor: "bob", OfShards: 1}
	require.ErrorIs(t, handle(t.Context(), w.worker, e), errLost)
	likes.down = false
	w.must(handle(t.Context(), w.worker, e))
	require.NotEmpty(t, w.queued)
	like, kind, ok := messages.ActionOf(w.queued[len(w.queued)-1])
	require.True(t, ok)
	assert.Equal(t, e.RepostOf+" "+messages.Reposter(e.PostID)+" true", fmt.Sprint(like.PostID, " ", like.UserID, " ", kind != ""))
}

// noLikes is a queue that takes no message for the aggregator while it is down.
type noLikes struct {
	message.Publisher
	down bool
}

func (q *noLikes) Publish(topic string, msgs ...*message.Message) error {
	if q.down && topic == queue.TopicLikes {
		return errLost
	}
	return q.Publisher.Publish(topic, msgs...)
}

func TestTheNotificationsOfADeletedPostGo(t *testing.T) {
	var out others
	w := newWorld(t, 0, out.notified)
	e := w.discussed(1, 3)
	e.Mentions = []string{"bob", author, "bob"}
	put := func(it table.Item) table.Key {
		_, err := w.mem.Put(t.Context(), table.PutInput{Item: it})
		w.must(err)
		return it.Key
	}
	put(schema.Comment{ID: w.newID(), Post: e.PostID, Author: "zoe", Text: "x", Mentions: []string{"cid", author}}.Item())
	put(schema.Comment{ID: w.newID(), Post: e.PostID, Author: "zoe", Text: "x", Mentions: []string{"cid"}}.Item())
	notice := func(user string, kind schema.NoticeKind, post string) table.Key {
		return put(schema.Notice{User: user, Kind: kind, Target: post, Revision: 1, Acts: []schema.Act{{Version: post, Place: post, State: schema.ActHolds, User: "zoe"}}}.Item())
	}
	other := notice(author, schema.NoticeLike, w.newID())
	gone := []table.Key{
		notice(author, schema.NoticeLike, e.PostID), notice(author, schema.NoticeComment, e.PostID), notice(author, schema.NoticeMention, e.PostID), notice(author, schema.NoticeRepost, e.PostID),
		notice("bob", schema.NoticeMention, e.PostID), notice("cid", schema.NoticeMention, e.PostID),
	}
	w.deletePost(e.PostID)
	w.now = w.now.Add(10 * time.Minute)
	w.must(w.worker.HandleBackfills(t.Context(), e))
	res, err := w.mem.BatchGet(t.Context(), table.BatchGetInput{Keys: append(gone, other), Consistent: true})
	w.must(err)
	require.Len(t, res.Items, 1)
	assert.Equal(t, other, res.Items[0].Key)
}

// Once the comments that mention users are deleted, the notifications of these mentions cannot be found.
func TestAPurgeDeletesTheNotificationsOfMentionsBeforeTheComments(t *testing.T) {
	var out others
	w := newWorld(t, 0, out.notified)
	e := w.discussed(1, 0)
	users := make([]string, messages.MaxMentions)
	for i := range users {
		users[i] = follower(i)
	}
	for range 3 {
		_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.Comment{ID: w.newID(), Post: e.PostID, Author: "zoe", Text: "x", Mentions: users}.Item()})
		w.must(err)
	}
	w.deletePost(e.PostID)
	w.now = w.now.Add(10 * time.Minute)
	var deleted []string
	w.store.around = func(op table.Op, keys []table.Key, do func() error) error {
		if op == table.OpBatchWrite {
			ofComments := 0
			for _, key := range keys {
				if key.PK == schema.CommentsPK(e.PostID) {
					ofComments++
				}
			}
			require.Contains(t, []int{0, len(keys)}, ofComments, "the comments are a batch of one partition, which the throttle knows")
			deleted = append(deleted, map[bool]string{true: "comments", false: "notifications"}[ofComments > 0])
			if ofComments == 0 {
				assert.LessOrEqual(t, len(keys), schema.NoticedMentions, "a comment notifies no more users")
			}
		}
		return do()
	}
	w.must(w.worker.HandleBackfills(t.Context(), e))
	assert.Equal(t, []string{"notifications", "notifications", "comments"}, deleted, "of the post, of the mentions, and then the comments")
}
