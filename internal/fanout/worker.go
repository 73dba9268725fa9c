// Package fanout delivers posts. It writes an entry for each post into the timeline of every
// follower, and copies an author's posts into the timeline of each new follower. It removes
// the entries of unfollowed authors, and the comments and likes of deleted posts. It writes
// a changed name into the bylines of posts. It does not deliver posts of very large authors:
// it prepares homes to merge them in. The package owns the order of those writes and each
// post's delivery record: the plan, and the chain of chunks. The package must never answer
// HTTP, decide which users may post, or hold state that a crash could lose.
//
// # How a post travels
//
// A worker that receives PostCreated puts the post into the table and then reads the
// first page of followers. If there are no more followers, it writes their entries at
// once. Otherwise it sends a FanoutPlan. A planner then cuts the followers' key space
// into ranges, stores each range as a chunk and sends a FanoutChunk for it. The worker
// that receives a FanoutChunk writes the entries of one range.
//
// # The invariants it keeps
//
//   - I1: the post is in the table before any follower is read, and pages of followers
//     are read consistently. So a page shows a new follower's edge, or the follow was
//     committed after the post, and then the backfill of the follow sees the post.
//   - I1: the chunks of a post cover every possible user id, because the first chunk
//     begins open and the last chunk ends open. Each chunk begins where the previous chunk
//     ends. A chunk is stored, if absent, before its message is sent. So planners that
//     run again, or at the same time, follow the stored chain.
//   - I2: before each page of followers the post is read, and the delivery of a
//     deleted post stops. Homes leave out deleted posts in any case.
//   - I5, I6: a handler returns nil only when its work is durable. Every step may be
//     repeated: entries get the same keys, and the delivery record is written under
//     conditions.
//   - I8: chunks have their own topic, and a group for each author. Backfills have
//     their own topic too. So neither chunks nor backfills delay the posts of other authors.
//     Mark walks share the topic of backfills, and take Config.Walks of its workers at most.
//   - I9: memory does not grow with the number of followers. A handler holds one page of
//     followers and the next. A planner reads only the last key of each page, and holds a
//     page of at most Config.PlanChunks stored chunks and ten new chunks. Config.Writers
//     goroutines at most write a page. New chunks are stored in tens.
//
// The order of port calls depends only on their answers. So a simulation that runs one
// call at a time can replay a run.
package fanout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Posts stores posts.
type Posts interface {
	// EnsurePost returns the post of e once the table has the post, the post by id, its
	// author's post count and its author's own timeline entry. The returned post has its id,
	// author and like shards, and the version of its byline, 0 if unknown. The post may have
	// been deleted. If the post can never be stored, for example because its id is the id of
	// another author's post, the error is a *messages.PermanentError.
	EnsurePost(ctx context.Context, e *messages.PostCreated) (schema.Post, error)
}

// Users removes users.
type Users interface {
	// Forget removes up to most things of a user. event is the id of the event that began the removal.
	Forget(ctx context.Context, user, event string, most int) (Forgotten, error)
}

// Forgotten is the result of one Forget.
type Forgotten struct {
	// Removed counts the removed things: if it is 0, nothing is left. Unliked is the number of
	// likes among the removed things. A later Forget finds a like again until an aggregator has
	// counted that the like was taken back.
	Removed, Unliked int
	// Wait is the time until Forget takes back the found likes again, 0 if none were found.
	Wait time.Duration
	// Left is the time when the profile was removed, zero if the time is unknown.
	Left time.Time
	// Overtaken means that a newer event removes the same user.
	Overtaken bool
}

// These are the defaults of the sizes that the daemons do not set.
const (
	DefaultChunkSize  = 4000
	DefaultPlanChunks = 50
)

// Config holds the parts and settings of a Worker. The fields down to Lifetimes are
// required; the zero value of each other field takes its default.
type Config struct {
	Store     table.Store
	Posts     Posts
	Publisher message.Publisher
	IDs       *id.Generator
	Now       func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age.
	Clock *clock.Clock
	// Lifetimes has the times for which entries live, from the post's time on.
	Lifetimes *lifetime.View
	// Users removes users; nil if the worker must not remove users.
	Users Users
	// PushLimit is the number of followers above which an author's posts are no longer
	// delivered: homes pull these posts. Below 80 % of the limit the author is pushed again. 0
	// means no limit: any pulled author who posts is pushed again.
	PushLimit int64
	// ActiveDays is the number of days ahead to which readers' edges are dated. 0 skips no reader.
	ActiveDays int
	// Writers is the maximum number of concurrent writes of one page. 1 suits a store that
	// takes a page in one request. A store that needs many requests for a page needs more.
	// Default 1.
	Writers int
	// PageSize is the number of followers that are read at once. A post with at most so many
	// followers is delivered without chunks. Default 1,024.
	PageSize int
	// ChunkSize is the number of followers in a chunk when the chunk is planned. The default is
	// DefaultChunkSize. A chunk costs two write units and up to three queue requests, so a
	// delivery costs 1.0005 units, and 1,000 deliveries cost at most 0.75 requests. Four
	// default pages, or one page of 4,096, hold such a chunk and leave room for new followers.
	ChunkSize int
	// PlanChunks is the number of chunks that one FanoutPlan message plans, and the number of
	// pages of a timeline that one Unfollowed message cleans. Another message does the rest.
	// Default DefaultPlanChunks.
	PlanChunks int
	// Walks is the maximum number of mark walks that run at the same time. A walk takes a
	// worker of the backfills for minutes; further walks wait. Default 1.
	Walks int
	// ReturnPosts returns the number of posts that a return writes as entries, for a reader
	// with so many followees: 1 at least. The gap has the older posts. The default is
	// ReturnPosts.
	ReturnPosts func(followees int) int
	// Observe is called for entries that were written for followers, with their number and the
	// time since the post's time. If a message is redelivered, its entries are observed again.
	Observe func(entries int, sincePost time.Duration)
	// Skipped is called with the number of followers that were away and skipped.
	Skipped func(followers int)
	// Events, if not nil, sends the events of applied work to other programs. Notices, if not
	// nil, sends the events that notify users.
	Events, Notices func(ctx context.Context, events ...messages.Event) error
	// Log is the worker's log. Default none.
	Log *zap.Logger
}

func (c Config) withDefaults() Config {
	c.Writers = orDefault(c.Writers, 1)
	c.PageSize = orDefault(c.PageSize, 1024)
	c.ChunkSize = orDefault(c.ChunkSize, DefaultChunkSize)
	c.PlanChunks = orDefault(c.PlanChunks, DefaultPlanChunks)
	c.Walks = orDefault(c.Walks, 1)
	if c.ReturnPosts == nil {
		c.ReturnPosts = ReturnPosts
	}
	if c.Observe == nil {
		c.Observe = func(int, time.Duration) {}
	}
	if c.Skipped == nil {
		c.Skipped = func(int) {}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

func orDefault(n, def int) int {
	if n > 0 {
		return n
	}
	return def
}

// Worker handles the events of fan-out. Its methods may be called at the same time.
type Worker struct {
	cfg     Config
	writers parallelism
	// buffers holds values of type *buffers, one for each page that is being written.
	buffers sync.Pool
	// walks has a value for each running mark walk.
	walks chan struct{}
}

// New returns a worker. It starts nothing.
func New(cfg Config) *Worker {
	cfg = cfg.withDefaults()
	return &Worker{
		cfg: cfg, writers: parallelism{limit: cfg.Writers, most: cfg.Writers},
		buffers: sync.Pool{New: func() any { return new(buffers) }},
		walks:   make(chan struct{}, cfg.Walks),
	}
}

// HandlePosts is the queue.Handler of queue.TopicPosts.
func (w *Worker) HandlePosts(ctx context.Context, e messages.Event) error {
	return w.handle(ctx, queue.TopicPosts, e)
}

// HandleBackfills is the queue.Handler of queue.TopicBackfills.
func (w *Worker) HandleBackfills(ctx context.Context, e messages.Event) error {
	return w.handle(ctx, queue.TopicBackfills, e)
}

// HandleChunks is the queue.Handler of queue.TopicChunks.
func (w *Worker) HandleChunks(ctx context.Context, e messages.Event) error {
	return w.handle(ctx, queue.TopicChunks, e)
}

// handle does the work of an event. Then it sends the events of that work, even if the work was
// already done: an earlier attempt may have ended before it sent the events (I6).
func (w *Worker) handle(ctx context.Context, topic string, e messages.Event) error {
	if !queue.Carries(topic, e) {
		return messages.Permanent(messages.ReasonWrongTopic, "%s on %s", messages.KindOf(e), topic)
	}
	about, err := w.apply(ctx, e)
	if err == nil {
		err = about.tell(ctx, w)
	}
	if err != nil {
		return fmt.Errorf("fan-out, %s %s: %w", messages.KindOf(e), e.Head().EventID, err)
	}
	return nil
}

// apply does the work of an event, or finds it done. It returns the subject, whose tell sends
// the events of that work.
func (w *Worker) apply(ctx context.Context, e messages.Event) (subject, error) {
	switch e := e.(type) {
	case *messages.PostCreated:
		living, err := w.postCreated(ctx, e)
		return posted{e, living, delivery{e.PostID, e.RequestID}}, err
	case *messages.FanoutPlan:
		return delivery{e.PostID, e.RequestID}, w.plan(ctx, e)
	case *messages.FanoutChunk:
		return delivery{e.PostID, e.RequestID}, w.chunk(ctx, e)
	case *messages.Followed:
		return follow(*e), w.followed(ctx, e)
	case *messages.Unfollowed:
		return nothing{}, w.unfollowed(ctx, e)
	case *messages.PostDeleted:
		return w.postDeleted(ctx, e)
	case *messages.UserForgotten:
		return nothing{}, w.userForgotten(ctx, e)
	case *messages.ProfileChanged:
		return nothing{}, w.profileChanged(ctx, e)
	case *messages.MarkWalk:
		return nothing{}, w.walk(ctx, e)
	case *messages.Seen:
		return nothing{}, w.seen(ctx, e)
	case *messages.Returned:
		return nothing{}, w.returned(ctx, e)
	}
	return nothing{}, messages.Permanent(messages.ReasonWrongTopic, "fan-out has no work for %s", messages.KindOf(e))
}

// post is a post that the worker delivers.
type post struct {
	id, author string
	// at is the time of the post's id, day the day of that time.
	at  time.Time
	day schema.Day
	// sk and attrs are the sort key and the attributes of all the post's timeline entries.
	sk    string
	attrs []table.Attr
	// expired means that the post's entries would expire before they are written.
	expired bool
	// recordTTL is the expiry of the post's delivery record.
	recordTTL time.Time
}

// newPost returns a post from its post by id.
func (w *Worker) newPost(ctx context.Context, of schema.PostRef) (post, error) {
	at, err := id.Time(of.ID)
	if err != nil {
		return post{}, err
	}
	lives, err := w.cfg.Lifetimes.Current(ctx)
	if err != nil {
		return post{}, err
	}
	ttl := at.Add(lives.Written(at))
	expired, err := w.passed(lives.End(at))
	if err != nil {
		return post{}, err
	}
	return post{
		id: of.ID, author: of.Author, at: at, day: schema.DayOf(at), sk: schema.EntrySK(of.ID, of.Author),
		// An entry that is written after the end of the post is hidden at once.
		attrs: schema.EntryAttrs(of.Until(ttl), of.LikeShards), expired: expired,
		recordTTL: ttl.Add(schema.DeliveryKept),
	}, nil
}

// gone reports whether a post was deleted or has ended. If the clock is in doubt, an ended post
// is an error, and the message is redelivered.
func (w *Worker) gone(ref schema.PostRef) (bool, error) {
	if ref.Deleted || ref.End.IsZero() {
		return ref.Deleted, nil
	}
	return w.passed(ref.End)
}

// appendEntry adds the entry of a stored post in a user's timeline to writes, unless the post is too
// old for homes.
func (w *Worker) appendEntry(ctx context.Context, writes []table.BatchWrite, user string, stored schema.Post) ([]table.BatchWrite, error) {
	p, err := w.newPost(ctx, stored.Ref(0))
	if err != nil || p.expired {
		return writes, err
	}
	if gone, err := w.gone(stored.Ref(0)); gone || err != nil {
		return writes, err
	}
	key := table.Key{PK: schema.TimelinePK(user), SK: p.sk}
	return append(writes, table.BatchWrite{Put: &table.Item{Key: key, Attrs: p.attrs}}), nil
}

// oldestShown returns the lowest post id that homes show.
func (w *Worker) oldestShown(ctx context.Context) (string, error) {
	lives, err := w.cfg.Lifetimes.Current(ctx)
	return id.Floor(lives.Oldest(w.cfg.Now())), err
}

// passed reports whether a time has passed. If the clock is in doubt, a passed time is an
// error, a *clock.DoubtError, so nothing is left out and the message is redelivered.
func (w *Worker) passed(at time.Time) (bool, error) {
	if at.After(w.cfg.Now()) {
		return false, nil
	}
	return true, w.cfg.Clock.Doubt()
}

// postRef reads the author and the state of a post that was stored before the message was sent. If the post is
// absent, or has another author, no retry can help. But the sender may have found the post only in its
// author's list. So if the post is absent, postRef waits until all of the post's transaction must be visible,
// and reads again (I1).
func (w *Worker) postRef(ctx context.Context, postID, author string) (ref schema.PostRef, err error) {
	found, err := w.postByID(ctx, postID)
	if err == nil && found == nil {
		if err = backoff.Wait(ctx, table.VisibleWithin); err == nil {
			found, err = w.postByID(ctx, postID)
		}
	}
	switch {
	case err != nil:
		return ref, err
	case found == nil:
		return ref, messages.Permanent(messages.ReasonNoPost, "%s", postID)
	case found.Author != author:
		return *found, messages.Permanent(messages.ReasonOtherAuthor, "%s is not of %s", postID, author)
	}
	return *found, nil
}

// postByID reads a post by its id, nil if it is absent.
func (w *Worker) postByID(ctx context.Context, postID string) (*schema.PostRef, error) {
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(postID), Consistent: true})
	if err != nil {
		return nil, fmt.Errorf("read post %s: %w", postID, err)
	}
	if res.Item == nil {
		return nil, nil
	}
	ref, err := schema.ParsePostRef(*res.Item)
	return &ref, err
}
