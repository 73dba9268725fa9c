package delivery_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

const timelineTTL = 30 * 24 * time.Hour

// world has a feed and its deliveries on a table in memory. at is the time of the world.
type world struct {
	*feed.Service
	*delivery.Deliveries
	t         *testing.T
	at        time.Time
	ids       *id.Generator
	store     *tap
	published *recorder
}

func newWorld(t *testing.T, change ...func(*access.Config)) *world {
	t.Helper()
	w := &world{
		t: t, at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), store: &tap{Store: tabletest.NewMemory()}, published: &recorder{t: t},
	}
	w.ids = id.NewGenerator(w.now)
	cfg := access.Config{Store: w.store, Publisher: w.published, IDs: w.ids, Now: w.now, Lifetimes: lifetime.Fixed(timelineTTL)}
	for _, c := range change {
		c(&cfg)
	}
	way := access.New(cfg)
	w.Service, w.Deliveries = feed.New(feed.Config{Access: way}), delivery.New(way)
	return w
}

func (w *world) now() time.Time { return w.at }

func (w *world) add(d time.Duration) { w.at = w.at.Add(d) }

func (w *world) users(names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, err := w.PutProfile(w.t.Context(), name, feed.ProfileInput{Name: name})
		require.NoError(w.t, err)
	}
}

func (w *world) post(author, text string) feed.Post {
	w.t.Helper()
	w.add(time.Millisecond)
	p, err := w.CreatePost(w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: text}})
	require.NoError(w.t, err)
	return p
}

func (w *world) put(items ...table.Item) {
	w.t.Helper()
	for _, it := range items {
		_, err := w.store.Put(w.t.Context(), table.PutInput{Item: it})
		require.NoError(w.t, err)
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	failed, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, kind, failed.Kind)
}

// recorder is a publisher that keeps the published posts, and fails on demand.
type recorder struct {
	t    *testing.T
	mu   sync.Mutex
	got  []*messages.PostCreated
	fail error
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
		if e, ok := event.(*messages.PostCreated); ok {
			assert.Equal(r.t, queue.TopicPosts, topic)
			r.got = append(r.got, e)
		}
	}
	return nil
}

func (*recorder) Close() error { return nil }

// take returns the posts that were published since the last take.
func (r *recorder) take() []*messages.PostCreated {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// call is a read of a key, or of a page of a partition.
type call struct {
	op  table.Op
	key table.Key
}

// tap is a table that counts reads. A read fails if fault returns true.
type tap struct {
	table.Store
	mu    sync.Mutex
	calls []call
	fault func(call) bool
}

func (t *tap) read(op table.Op, key table.Key) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := call{op, key}
	t.calls = append(t.calls, c)
	if t.fault != nil && t.fault(c) {
		return &table.UnavailableError{Op: string(op), Err: context.DeadlineExceeded}
	}
	return nil
}

// take returns the calls since the last take.
func (t *tap) take() []call {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

func (t *tap) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if err := t.read(table.OpGet, in.Key); err != nil {
		return table.GetResult{}, err
	}
	return t.Store.Get(ctx, in)
}

func (t *tap) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if err := t.read(table.OpBatchGet, in.Keys[0]); err != nil {
		return table.BatchGetResult{}, err
	}
	return t.Store.BatchGet(ctx, in)
}

func (t *tap) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for page, err := range t.Store.Query(ctx, q) {
			if failed := t.read(table.OpQuery, table.Key{PK: q.PK}); failed != nil {
				page, err = table.Page{}, failed
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}
