// Package fanout delivers posts: it writes a reference to each post into the home
// timeline of every follower, and copies an author's posts into the home of who
// follows anew. It owns the order of those writes and the ledger that says how far
// a delivery is; it must never answer HTTP, decide who may post, or hold state that
// a crash may lose.
//
// # How a post travels
//
// PostCreated makes a worker put the post into the table, then read the first page
// of followers. If that is all of them, it writes their entries at once. If not, it
// sends a FanoutPlan: a planner cuts the key space of the followers into ranges,
// stores each as a chunk and sends a FanoutChunk, whose worker writes the entries
// of one range.
//
// # What must hold here
//
//   - I1: the post is in the table before any follower is read, and pages are read
//     consistently. So a page either sees a new follower's edge, or the follow was
//     committed after the post and its backfill sees the post.
//   - I1: the chunks cover every id there can be, ends open. A chunk starts where
//     the stored one before it ends, and is stored, if absent, before its message is
//     sent: whoever plans again, or at the same time, follows what is stored.
//   - I2: before each page the post is looked at; a deleted one is not delivered any
//     further. Homes leave it out in any case.
//   - I5, I6: a handler returns nil only when its work is durable. Every step may be
//     done again: entries have the same keys, ledger items are written on conditions.
//   - I8: a post's chunks travel on a topic and in a group of their own.
//   - I9: a handler holds one page of followers and the next. A planner holds none, it
//     asks where pages end: it holds a page of the ledger, of Config.PlanChunks, and ten
//     chunks. So at any number of followers. Goroutines are bounded by Config.Writers,
//     a planner's by the ten chunks that it stores at once.
//
// Port calls happen in an order that depends on their answers alone, so that a
// simulation which releases them one at a time can replay a run.
package fanout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Posts makes sure that a post is in the table.
type Posts interface {
	// EnsurePost returns nil once the post of e, its lookup by id, its author's
	// post count and its author's own timeline entry are in the table; deleted
	// tells that it is a tombstone by now. A post that can never be, such as one
	// whose id is another author's, is a *messages.PermanentError.
	EnsurePost(ctx context.Context, e *messages.PostCreated) (deleted bool, err error)
}

// Config is what a Worker needs. The sizes are for tests; zero takes the default.
type Config struct {
	Store     table.Store
	Posts     Posts
	Publisher message.Publisher
	IDs       *id.Generator
	Now       func() time.Time
	// TimelineTTL is how long after a post's time its entries live.
	TimelineTTL time.Duration
	// PushLimit is the number of followers above which an author is to be pulled
	// instead. Homes cannot be told yet, so all are pushed to; New logs that.
	PushLimit int64
	// Writers is how many writes of one page may be on their way at once. 1 is
	// right for a store that takes a page in one go, more for one that a page
	// costs many requests. Default 1.
	Writers int
	// PageSize is how many followers are read at once, and so the largest post
	// that is delivered without chunks. Default 1,024.
	PageSize int
	// ChunkSize is how many followers a chunk has when it is planned. Default
	// 4,000: a chunk costs two write units and up to three queue requests, so
	// this is 1.0005 units a delivery and at most 0.75 requests per 1,000; and four
	// default pages, or one of 4,096, hold it with room for followers who arrive.
	ChunkSize int
	// PlanChunks is how many chunks a planner cuts before it hands on to another
	// message. Default 50.
	PlanChunks int
	// Observe, if not nil, hears of entries that were written for followers: how
	// many at once, and how long after the post's time. Those of a message that
	// came again count again.
	Observe func(entries int, sincePost time.Duration)
	// Log may be nil.
	Log *zap.Logger
}

// Worker handles the events of fan-out. Its methods may be called at the same time.
type Worker struct {
	Config
	writers window
	// scratches holds *scratch, one for each page that is being written.
	scratches sync.Pool
}

// New returns a worker. It starts nothing.
func New(c Config) *Worker {
	c.Writers = orDefault(c.Writers, 1)
	c.PageSize = orDefault(c.PageSize, 1024)
	c.ChunkSize = orDefault(c.ChunkSize, 4000)
	c.PlanChunks = orDefault(c.PlanChunks, 50)
	if c.Observe == nil {
		c.Observe = func(int, time.Duration) {}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.PushLimit > 0 {
		c.Log.Warn("push limit has no effect yet: every author is pushed", zap.Int64("push_limit", c.PushLimit))
	}
	return &Worker{
		Config: c, writers: window{size: c.Writers, most: c.Writers},
		scratches: sync.Pool{New: func() any { return new(scratch) }},
	}
}

func orDefault(n, def int) int {
	if n > 0 {
		return n
	}
	return def
}

// HandlePosts is the queue.Handler of queue.TopicPosts.
func (w *Worker) HandlePosts(ctx context.Context, e messages.Event) error {
	switch e := e.(type) {
	case *messages.PostCreated:
		return wrap(e, w.postCreated(ctx, e))
	case *messages.Followed:
		return wrap(e, w.followed(ctx, e))
	}
	return unexpected(e, queue.TopicPosts)
}

// HandleChunks is the queue.Handler of queue.TopicChunks.
func (w *Worker) HandleChunks(ctx context.Context, e messages.Event) error {
	switch e := e.(type) {
	case *messages.FanoutPlan:
		return wrap(e, w.plan(ctx, e))
	case *messages.FanoutChunk:
		return wrap(e, w.chunk(ctx, e))
	}
	return unexpected(e, queue.TopicChunks)
}

func wrap(e messages.Event, err error) error {
	if err != nil {
		return fmt.Errorf("fan-out, %s %s: %w", e.Kind(), e.Head().EventID, err)
	}
	return nil
}

func unexpected(e messages.Event, topic string) error {
	return &messages.PermanentError{Reason: fmt.Sprintf("%s does not belong on topic %s", e.Kind(), topic)}
}

// post is what the delivery of one post needs to know of it.
type post struct {
	id, author string
	// at is the time of its id.
	at time.Time
	// sk and attrs are what all its timeline entries share.
	sk    string
	attrs []table.Attr
	// expired tells that the entries' time is over before they are written.
	expired bool
}

func (w *Worker) newPost(postID, author string, likeShards int) (post, error) {
	at, err := id.Time(postID)
	if err != nil {
		return post{}, err
	}
	ttl := at.Add(w.TimelineTTL)
	return post{
		id: postID, author: author, at: at, sk: schema.EntrySK(postID, author),
		attrs: schema.EntryAttrs(ttl, likeShards), expired: !ttl.After(w.Now()),
	}, nil
}

// living reads whether a post that is known to be stored still lives. One that is
// absent, or another author's, is the fault of who sent the message.
func (w *Worker) living(ctx context.Context, postID, author string) (ref schema.PostRef, living bool, err error) {
	res, err := w.Store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(postID), Consistent: true})
	if err != nil {
		return ref, false, fmt.Errorf("read post %s: %w", postID, err)
	}
	if res.Item == nil {
		return ref, false, &messages.PermanentError{Reason: fmt.Sprintf("there is no post %s", postID)}
	}
	if ref, err = schema.ParsePostRef(*res.Item); err != nil {
		return ref, false, err
	}
	if ref.Author != author {
		return ref, false, &messages.PermanentError{Reason: fmt.Sprintf("post %s is not of author %s", postID, author)}
	}
	return ref, !ref.Deleted, nil
}

// publish sends events to the chunks topic. After an error any of them may have
// been sent.
func (w *Worker) publish(ctx context.Context, events ...messages.Event) error {
	msgs := make([]*message.Message, 0, len(events))
	for _, e := range events {
		msg, err := queue.Message(ctx, e)
		if err != nil {
			return err
		}
		msgs = append(msgs, msg)
	}
	if err := w.Publisher.Publish(queue.TopicChunks, msgs...); err != nil {
		return fmt.Errorf("send %d messages to %s: %w", len(msgs), queue.TopicChunks, err)
	}
	return nil
}

// header is that of an event which follows from the request requestID.
func (w *Worker) header(requestID string) (messages.Header, error) {
	eventID, err := w.IDs.New()
	if err != nil {
		return messages.Header{}, err
	}
	return messages.Header{EventID: eventID, Time: w.Now().UTC(), RequestID: requestID}, nil
}
