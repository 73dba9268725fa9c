package feed_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/notices"
	"fanfare/internal/feed/removal"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

const timelineTTL = 30 * 24 * time.Hour

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// recorder is a publisher that keeps the published events, and fails on demand.
type recorder struct {
	mu     sync.Mutex
	events []messages.Event
	fail   error
}

func (r *recorder) Publish(topic string, msgs ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	for _, msg := range msgs {
		event, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		if !queue.Carries(topic, event) {
			return fmt.Errorf("%s is published on %s", messages.KindOf(event), topic)
		}
		r.events = append(r.events, event)
	}
	return nil
}

func (*recorder) Close() error { return nil }

// take returns the events that were published since the last take.
func (r *recorder) take() []messages.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

func (r *recorder) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

type (
	way     = access.Config
	service = feed.Config
	homes   = home.Config
)

// config has the settings of all parts of the domain.
type config struct {
	way
	service
	homes
	noNotices  bool
	unreadRead func()
	data       string
}

// domain combines all parts of the product's domain.
type domain struct {
	*feed.Service
	*home.Homes
	*view.Views
	*delivery.Deliveries
	*removal.Removals
	notices *notices.Notices
}

func newDomain(c config) *domain {
	a := access.New(c.way)
	c.service.Access = a
	s := feed.New(c.service)
	c.homes.Access, c.homes.Items, c.homes.Mutes = a, s, s
	return &domain{s, home.New(c.homes), view.New(a, s), delivery.New(a), removal.New(a, s), notices.New(a, s, !c.noNotices, c.unreadRead)}
}

// world is a domain on a table in memory. A test that needs delivered posts calls deliver.
type world struct {
	*domain
	t         *testing.T
	store     table.Store
	clock     *clock
	published *recorder
	// data is the custom data of posts, comments and profiles, if a test sets no data.
	data string
}

func (w *world) CreatePost(ctx context.Context, author string, in feed.PostInput) (feed.Post, error) {
	in.Data = cmp.Or(in.Data, feed.Data(w.data))
	return w.domain.CreatePost(ctx, author, in)
}

func (w *world) CreateComment(ctx context.Context, user, post, text string) (feed.Comment, error) {
	return w.AddComment(ctx, user, post, feed.CommentInput{Text: text, Data: w.data})
}

func (w *world) PutProfile(ctx context.Context, user string, in feed.ProfileInput) (feed.User, error) {
	if in.Data == nil && w.data != "" {
		in.Data = &w.data
	}
	return w.domain.PutProfile(ctx, user, in)
}

func newWorld(t *testing.T, change ...func(*config)) *world {
	t.Helper()
	return newWorldAt(t, newClock(), change...)
}

func newWorldAt(t *testing.T, clock *clock, change ...func(*config)) *world {
	t.Helper()
	w := &world{t: t, store: tabletest.NewMemory(), clock: clock, published: &recorder{}}
	cfg := config{way: way{
		Store: w.store, Publisher: w.published, IDs: id.NewGenerator(w.clock.now), Now: w.clock.now,
		Lifetimes: lifetime.Fixed(timelineTTL), Jitter: func() float64 { return 0 },
	}, service: service{LikesByUser: true}}
	for _, c := range change {
		c(&cfg)
	}
	w.store, w.data = cfg.Store, cfg.data
	w.domain = newDomain(cfg)
	return w
}

func (w *world) users(names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, err := w.PutProfile(w.t.Context(), name, feed.ProfileInput{Name: "Name of " + name})
		require.NoError(w.t, err)
	}
}

func (w *world) follow(follower, author string) {
	w.t.Helper()
	require.NoError(w.t, w.Follow(w.t.Context(), follower, author))
}

func (w *world) post(author, text string) feed.Post {
	w.t.Helper()
	w.clock.add(time.Millisecond)
	p, err := w.CreatePost(w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: text}})
	require.NoError(w.t, err)
	return p
}

// deliver does the work of the fan-out worker. deliver handles all published events: it writes the
// entries of posts and ends backfills.
func (w *world) deliver() {
	w.t.Helper()
	for _, event := range w.published.take() {
		switch e := event.(type) {
		case *messages.PostCreated:
			w.fanOut(e)
		case *messages.Followed:
			w.backfill(e)
		default:
			if like, kind, ok := messages.ActionOf(e); ok {
				w.count(*like, kind)
			}
		}
	}
}

func (w *world) fanOut(e *messages.PostCreated) {
	w.t.Helper()
	ref, err := w.EnsurePost(w.t.Context(), e)
	require.NoError(w.t, err)
	if ref.Deleted {
		return
	}
	for _, it := range w.partition(schema.FollowersPK(e.AuthorID)) {
		edge, err := schema.ParseEdge(it)
		require.NoError(w.t, err)
		w.entry(edge.Other, e.AuthorID, e.PostID, ref.LikeShards)
	}
}

func (w *world) backfill(e *messages.Followed) {
	w.t.Helper()
	key := schema.MarkKey(e.FollowerID, e.AuthorID)
	for _, it := range w.partition(schema.PostsPK(e.AuthorID)) {
		p, err := schema.ParsePost(it)
		require.NoError(w.t, err)
		if p.ID >= e.From && !p.Deleted {
			w.entry(e.FollowerID, e.AuthorID, p.ID, p.LikeShards)
		}
	}
	_, err := w.store.Update(w.t.Context(), table.UpdateInput{
		Key: key, Set: []table.Attr{{Name: table.AttrTTL, Value: table.N(w.clock.now().Add(time.Minute).Unix())}},
		If: table.Equal{Name: schema.AttrVersion, Value: table.S(e.MarkVersion)},
	})
	if _, other := errors.AsType[*table.ConditionError](err); err != nil && !other {
		w.t.Fatal(err)
	}
}

func (w *world) entry(user, author, post string, likeShards int) {
	w.t.Helper()
	at, err := id.Time(post)
	require.NoError(w.t, err)
	it := table.Item{
		Key:   table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, author)},
		Attrs: schema.EntryAttrs(at.Add(timelineTTL), likeShards),
	}
	_, err = w.store.BatchWrite(w.t.Context(), []table.BatchWrite{{Put: &it}})
	require.NoError(w.t, err)
}

// count does the work of the aggregator. It counts one like in a separate window.
func (w *world) count(e messages.Like, kind string) {
	w.t.Helper()
	like := schema.Like{
		Post: e.PostID, User: e.UserID, Kind: kind, Version: e.EventID, LikeShards: e.LikeShards,
		Flush: schema.Flush{Inc: "test", Seq: 1}, Indexed: true,
	}
	res, err := w.store.Get(w.t.Context(), table.GetInput{Key: like.Item().Key, Consistent: true})
	require.NoError(w.t, err)
	if res.Item != nil && res.Item.Str(schema.AttrVersion) >= e.EventID {
		return // the later of two actions wins
	}
	var was schema.Like
	if res.Item != nil {
		was, err = schema.ParseLike(*res.Item)
		require.NoError(w.t, err)
	}
	_, err = w.store.Put(w.t.Context(), table.PutInput{Item: like.Item()})
	require.NoError(w.t, err)
	delta := map[string]int64{}
	delta[kind]++
	delta[was.Kind]--
	for kind, by := range delta {
		if kind != "" {
			w.addReactions(e.PostID, kind, by)
		}
	}
}

// addLikes changes a post's like count.
func (w *world) addLikes(post string, delta int64) { w.addReactions(post, schema.KindLike, delta) }

func (w *world) addReactions(post, kind string, delta int64) {
	w.t.Helper()
	_, err := w.store.Update(w.t.Context(), table.UpdateInput{
		Key: schema.LikeCountKey(post),
		Add: []table.Attr{{Name: schema.AttrCount(kind), Value: table.N(delta)}},
		Set: []table.Attr{{Name: schema.AttrAsOf, Value: table.N(w.clock.now().UnixMilli())}},
	})
	require.NoError(w.t, err)
}

func (w *world) partition(pk string) []table.Item {
	w.t.Helper()
	items, _, err := table.Collect(w.store.Query(w.t.Context(), table.Query{PK: pk, Consistent: true}), 0)
	require.NoError(w.t, err)
	return items
}

// list reads a list page by page to its end. list fails the test if a page with a cursor is empty, or
// if a cursor appears twice.
func list[T any](t *testing.T, limit int, read func(page.Request) (page.List[T], error)) []T {
	t.Helper()
	var items []T
	seen := map[string]bool{}
	for cursor := ""; ; {
		l, err := read(page.Request{Limit: limit, Cursor: cursor})
		require.NoError(t, err)
		require.LessOrEqualf(t, len(l.Items), limit, "a page of %d has %d items", limit, len(l.Items))
		items = append(items, l.Items...)
		if l.NextCursor == "" {
			return items
		}
		require.NotEmpty(t, l.Items, "a page with a cursor is empty")
		require.False(t, seen[l.NextCursor], "a cursor came twice")
		seen[l.NextCursor] = true
		cursor = l.NextCursor
	}
}

// viewed adds the views of the users to a page that a list returned.
func viewed[T any](ctx context.Context, views func(context.Context, string, page.List[T]) (page.List[view.WithUser[T]], error), viewer string) func(page.List[T], error) (page.List[view.WithUser[T]], error) {
	return func(list page.List[T], err error) (page.List[view.WithUser[T]], error) {
		if err != nil {
			return page.List[view.WithUser[T]]{}, err
		}
		return views(ctx, viewer, list)
	}
}

func (w *world) home(viewer string, limit int, query home.Query) []feed.HomeItem {
	w.t.Helper()
	return list(w.t, limit, func(in page.Request) (page.List[feed.HomeItem], error) {
		return w.Home(w.t.Context(), viewer, query, in)
	})
}

// texts returns the texts of a home's posts.
func texts(items []feed.HomeItem) []string {
	var all []string
	for _, item := range items {
		all = append(all, item.Post.Text)
	}
	return all
}

// homes checks the texts of viewer's home, by push and by pull.
func (w *world) homes(viewer string, want ...string) {
	w.t.Helper()
	for _, pull := range []bool{false, true} {
		for _, limit := range []int{1, 3, 100} {
			if got := texts(w.home(viewer, limit, home.Query{Pull: pull})); !slices.Equal(got, want) {
				w.t.Errorf("home of %s (pull %v, limit %d): %q, want %q", viewer, pull, limit, got, want)
			}
		}
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != kind {
		t.Fatalf("got %v, want the kind %s", err, kind)
	}
}

func numbered(n int, prefix string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return all
}

var errDown = &table.UnavailableError{Op: "test", Err: context.DeadlineExceeded}
