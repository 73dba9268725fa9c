package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

const (
	author      = "author"
	timelineTTL = 30 * 24 * time.Hour
)

// world is a table, a queue, a worker and one author with followers. Tests can hook
// port calls.
type world struct {
	*testing.T
	mem    table.Store // without hooks
	store  *hooked
	worker *fanout.Worker
	ids    *id.Generator
	now    time.Time
	// likeShards is the number of like shards of posts whose events have no number of like shards.
	likeShards int

	mu       sync.Mutex
	queued   []messages.Event
	publish  int // the number of Publish calls
	sent     int // the number of messages
	units    table.Units
	observed int
}

// small sets sizes that give few followers many pages, chunks and plans.
func small(c *fanout.Config) { c.PageSize, c.ChunkSize, c.PlanChunks = 4, 7, 3 }

func newWorld(t *testing.T, followers int, options ...func(*fanout.Config)) *world {
	t.Helper()
	w := &world{T: t, mem: tabletest.NewMemory(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.ids = id.NewGenerator(w.clock)
	w.store = &hooked{Store: table.Measure(w.mem, func(_ table.Op, u table.Units, _ error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.units = w.units.Plus(u)
	})}
	w.worker = w.newWorker(options...)
	for i := range followers {
		w.addFollower(follower(i))
	}
	return w
}

func (w *world) clock() time.Time { return w.now }

func (w *world) newWorker(options ...func(*fanout.Config)) *fanout.Worker {
	c := fanout.Config{
		Store: w.store, Posts: w, Publisher: publisher{w}, IDs: w.ids, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL),
		Observe: func(n int, _ time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.observed += n
		},
	}
	for _, o := range options {
		o(&c)
	}
	return fanout.New(c)
}

func follower(i int) string { return fmt.Sprintf("f%06d", i) }

func (w *world) must(err error) {
	if err != nil {
		w.Helper()
		w.Fatal(err)
	}
}

func (w *world) addFollower(user string) {
	w.Helper()
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.FollowerItem(author, user, w.now)})
	w.must(err)
	_, err = w.mem.Update(w.Context(), table.UpdateInput{
		Key: schema.FollowerCountKey(author, user), Add: []table.Attr{{Name: schema.AttrN, Value: table.N(1)}},
	})
	w.must(err)
}

// follow writes the items of a new follow and queues its event, as the domain does.
func (w *world) follow(user, from string) *messages.Followed {
	w.Helper()
	w.addFollower(user)
	version := w.newID()
	w.putMark(schema.Mark{User: user, Author: author, Kind: schema.MarkBackfill, From: from, Version: version, FollowID: version})
	e := &messages.Followed{Header: w.header(), FollowerID: user, AuthorID: author, From: from, MarkVersion: version, FollowID: version}
	w.enqueue(e)
	return e
}

// unfollow writes the items of an unfollow and returns its event.
func (w *world) unfollow(user string) *messages.Unfollowed {
	w.Helper()
	_, err := w.mem.Delete(w.Context(), table.DeleteInput{Key: schema.FollowerKey(author, user)})
	w.must(err)
	version := w.newID()
	w.putMark(schema.Mark{User: user, Author: author, Kind: schema.MarkUnfollowed, Version: version})
	return &messages.Unfollowed{Header: w.header(), FollowerID: user, AuthorID: author, MarkVersion: version}
}

func (w *world) putMark(m schema.Mark) {
	w.Helper()
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: m.Item()})
	w.must(err)
}

func (w *world) mark(user string) *schema.Mark {
	w.Helper()
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.MarkKey(user, author), Consistent: true})
	w.must(err)
	if res.Item == nil {
		return nil
	}
	m, err := schema.ParseMark(*res.Item)
	w.must(err)
	return &m
}

func (w *world) newID() string {
	w.Helper()
	s, err := w.ids.New()
	w.must(err)
	return s
}

func (w *world) header() messages.Header {
	w.Helper()
	return messages.Header{EventID: w.newID(), Time: w.now, RequestID: "request"}
}

// post returns the event of a new post, which is not in the table yet.
func (w *world) post() *messages.PostCreated {
	w.Helper()
	return &messages.PostCreated{Header: w.header(), PostID: w.newID(), AuthorID: author, Content: messages.Content{Text: "hello"}}
}

// EnsurePost stores the post in one transaction, as feed.EnsurePost does.
func (w *world) EnsurePost(ctx context.Context, e *messages.PostCreated) (schema.Post, error) {
	key := schema.PostByIDKey(e.PostID)
	res, err := w.store.Get(ctx, table.GetInput{Key: key, Consistent: true})
	if err != nil {
		return schema.Post{}, err
	}
	if res.Item != nil {
		ref, err := schema.ParsePostRef(*res.Item)
		return schema.Post{ID: ref.ID, Author: ref.Author, LikeShards: ref.LikeShards, Content: schema.Content{ExpiresAt: ref.End}, Deleted: ref.Gone(w.clock())}, err
	}
	at, err := id.Time(e.PostID)
	if err != nil {
		return schema.Post{}, err
	}
	shards := max(e.LikeShards, w.likeShards)
	post := schema.Post{ID: e.PostID, Author: e.AuthorID, Content: schema.Content{Text: e.Text}, Reference: e.Reference, LikeShards: shards}
	ref := schema.PostRef{ID: e.PostID, Author: e.AuthorID, LikeShards: shards, RepostOf: e.RepostOf}
	own := table.Item{
		Key:   table.Key{PK: schema.TimelinePK(e.AuthorID), SK: schema.EntrySK(e.PostID, e.AuthorID)},
		Attrs: schema.EntryAttrs(at.Add(timelineTTL), shards),
	}
	_, err = w.store.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{
		{Put: &table.PutInput{Item: post.Item(), If: table.Absent{}}},
		{Put: &table.PutInput{Item: ref.Item(), If: table.Absent{}}},
		{Put: &table.PutInput{Item: own, If: table.Absent{}}},
		{Update: &table.UpdateInput{Key: schema.CountsKey(e.AuthorID), Add: []table.Attr{{Name: schema.AttrPosts, Value: table.N(1)}}}},
	}})
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok && cancelled.Failed(0) {
		return post, nil // another worker has stored it
	}
	return post, err
}

func (w *world) deletePost(postID string) {
	w.Helper()
	_, err := w.mem.Delete(w.Context(), table.DeleteInput{Key: schema.PostKey(author, postID)})
	w.must(err)
	_, err = w.mem.Update(w.Context(), table.UpdateInput{
		Key: schema.PostByIDKey(postID), Set: []table.Attr{{Name: schema.AttrDeleted, Value: table.N(1)}, {Name: schema.AttrAuthor, Value: table.S(author)}},
	})
	w.must(err)
}

// endPost lets a post end now.
func (w *world) endPost(postID string) {
	w.Helper()
	_, err := w.mem.Update(w.Context(), table.UpdateInput{
		Key: schema.PostByIDKey(postID), Set: []table.Attr{{Name: schema.AttrEnds, Value: table.N(w.now.Unix())}},
	})
	w.must(err)
}

var takenAt = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// takeDown deletes a post as a service does.
func (w *world) takeDown(postID string) {
	w.Helper()
	w.deletePost(postID)
	_, err := w.mem.Put(w.Context(), table.PutInput{Item: schema.PostRef{
		ID: postID, Author: author, LikeShards: 1, Deleted: true, TakenDown: &schema.TakeDown{Reason: "forged shoes", By: "moderation", At: takenAt},
	}.Item()})
	w.must(err)
}

func (w *world) enqueue(events ...messages.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued = append(w.queued, events...)
}

func (w *world) take() messages.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queued) == 0 {
		return nil
	}
	e := w.queued[0]
	w.queued = slices.Delete(w.queued, 0, 1)
	return e
}

func handle(ctx context.Context, worker *fanout.Worker, e messages.Event) error {
	switch {
	case queue.Carries(queue.TopicChunks, e):
		return worker.HandleChunks(ctx, e)
	case queue.Carries(queue.TopicBackfills, e):
		return worker.HandleBackfills(ctx, e)
	}
	return worker.HandlePosts(ctx, e)
}

// drain handles messages until the queue is empty. A message that fails is queued
// again.
func (w *world) drain(worker *fanout.Worker) {
	w.Helper()
	for tries := 0; ; tries++ {
		e := w.take()
		if e == nil {
			return
		}
		if err := handle(w.Context(), worker, e); err != nil {
			require.LessOrEqualf(w, tries, 10_000, "%s never succeeds: %v", messages.KindOf(e), err)
			w.enqueue(e)
		}
	}
}

// home returns the posts in a user's timeline.
func (w *world) home(user string) []string {
	w.Helper()
	items, _, err := table.Collect(w.mem.Query(w.Context(), table.Query{PK: schema.TimelinePK(user), Consistent: true}), 0)
	w.must(err)
	var posts []string
	for _, it := range items {
		e, err := schema.ParseEntry(it)
		if err != nil || e.Author != author {
			w.Errorf("home of %s holds a post of %s, %v", user, e.Author, err)
		}
		posts = append(posts, e.Post)
	}
	return posts
}

func (w *world) wantHome(user string, posts ...string) {
	w.Helper()
	if got := w.home(user); !slices.Equal(got, posts) { // the check runs for each follower after each call
		w.Errorf("home of %s = %v, want %v", user, got, posts)
	}
}

// record returns the stored items of a post's delivery.
func (w *world) record(postID string) []table.Item {
	w.Helper()
	items, _, err := table.Collect(w.mem.Query(w.Context(), table.Query{PK: schema.DeliveryPK(postID), Consistent: true}), 0)
	w.must(err)
	return items
}

func (w *world) delivery(postID string) delivery.Progress {
	w.Helper()
	d, err := delivery.New(access.New(access.Config{Store: w.mem, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL)})).Delivery(w.Context(), author, postID)
	w.must(err)
	return d
}

// wantDelivered checks that n followers and the author have the post, and that the delivery
// record has the right numbers.
func (w *world) wantDelivered(postID string, n int) {
	w.Helper()
	w.wantHome(author, postID)
	for i := range n {
		w.wantHome(follower(i), postID)
	}
	d := w.delivery(postID)
	require.Equal(w, delivery.Complete, d.State)
	if *d.Delivered != int64(n+1) || *d.Planned != int64(n+1) {
		w.Errorf("delivered %d of %d, want %d", *d.Delivered, *d.Planned, n+1)
	}
}

// atCall calls change just before the port call with this number. fired reports whether this port call was made.
func (w *world) atCall(number int, change func()) (fired func() bool) {
	seen := 0
	w.store.around = func(_ table.Op, _ []table.Key, do func() error) error {
		w.mu.Lock()
		now := seen == number
		seen++
		w.mu.Unlock()
		if now {
			change()
		}
		return do()
	}
	return func() bool { return seen > number }
}

// publisher is the queue of a world.
type publisher struct{ w *world }

func (p publisher) Publish(topic string, msgs ...*message.Message) error {
	return p.w.store.hook("send", nil, func() error {
		p.w.mu.Lock()
		p.w.publish++
		p.w.sent += len(msgs)
		p.w.mu.Unlock()
		for _, m := range msgs {
			e, err := messages.Decode(m.Payload)
			if err != nil {
				return err
			}
			if !queue.Carries(topic, e) {
				return fmt.Errorf("publish %s to %s", messages.KindOf(e), topic)
			}
			if m.Metadata.Get(queue.MetaGroup) != messages.GroupOf(e) {
				return errors.New("message without its group")
			}
			p.w.enqueue(e)
		}
		return nil
	})
}

func (publisher) Close() error { return nil }

// hooked is a store whose calls go through around, if around is set. around may skip do, and may return
// another error.
type hooked struct {
	table.Store
	around func(op table.Op, keys []table.Key, do func() error) error
	// short is the number of refusals that each batch reports.
	short int
	// empty makes each query begin with a page without items.
	empty bool
}

func (h *hooked) hook(op table.Op, keys []table.Key, do func() error) error {
	if h.around == nil {
		return do()
	}
	return h.around(op, keys, do)
}

func (h *hooked) Get(ctx context.Context, in table.GetInput) (res table.GetResult, err error) {
	err = h.hook(table.OpGet, []table.Key{in.Key}, func() error {
		res, err = h.Store.Get(ctx, in)
		return err
	})
	return res, err
}

func (h *hooked) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		// The pages are pulled one by one, so that each page is a call of its own.
		next, stop := iter.Pull2(h.Store.Query(ctx, q))
		defer stop()
		if h.empty && !yield(table.Page{More: true}, nil) {
			return
		}
		for {
			var page table.Page
			var more bool
			err := h.hook(table.OpQuery, []table.Key{{PK: q.PK}}, func() error {
				var err error
				page, err, more = next()
				return err
			})
			if err != nil {
				yield(table.Page{}, err)
				return
			}
			if !more || !yield(page, nil) || !page.More {
				return
			}
		}
	}
}

func (h *hooked) Put(ctx context.Context, in table.PutInput) (res table.WriteResult, err error) {
	err = h.hook(table.OpPut, []table.Key{in.Item.Key}, func() error {
		res, err = h.Store.Put(ctx, in)
		return err
	})
	return res, err
}

func (h *hooked) Update(ctx context.Context, in table.UpdateInput) (res table.WriteResult, err error) {
	err = h.hook(table.OpUpdate, []table.Key{in.Key}, func() error {
		res, err = h.Store.Update(ctx, in)
		return err
	})
	return res, err
}

func (h *hooked) BatchWrite(ctx context.Context, writes []table.BatchWrite) (res table.WriteResult, err error) {
	keys := make([]table.Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Key()
	}
	err = h.hook(table.OpBatchWrite, keys, func() error {
		res, err = h.Store.BatchWrite(ctx, writes)
		return err
	})
	if h.short > 0 {
		res.Refused = slices.Repeat([]string{writes[0].Key().PK}, h.short)
	}
	return res, err
}

func (h *hooked) Transact(ctx context.Context, in table.TransactInput) (res table.WriteResult, err error) {
	err = h.hook(table.OpTransact, nil, func() error {
		res, err = h.Store.Transact(ctx, in)
		return err
	})
	return res, err
}
