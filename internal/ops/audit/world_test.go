package audit_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/removal"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/likeagg"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// backends has functions that open the tables of this process.
var backends = map[string]func(t *testing.T) table.Store{
	"memory": func(*testing.T) table.Store { return tabletest.NewMemory() },
	"stale":  func(*testing.T) table.Store { return tabletest.Stale(tabletest.NewMemory(), 1) },
	"embedded": func(t *testing.T) table.Store {
		t.Helper()
		store, err := tableembedded.Create("table", tableembedded.Options{FS: vfs.NewMem(), MemoryBytes: 8 << 20})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return store
	},
}

const timelineTTL = 30 * 24 * time.Hour

// world is a whole system: the domain, its workers and an audit, on one table.
type world struct {
	*feed.Service
	*home.Homes
	*view.Views
	*delivery.Deliveries
	*removal.Removals
	t     *testing.T
	store table.Store
	audit *audit.Audit
	cfg   audit.Config
	// ahead is the time by which the clock of the world is ahead.
	ahead  atomic.Int64
	broker *queueembedded.Broker
	// stop ends the workers, and returns after they have ended.
	stop func()
	// sweep handles UserForgotten. If sweep is nil, the tests themselves sweep.
	sweep atomic.Pointer[queue.Handler]
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func newWorld(t *testing.T, store table.Store) *world {
	t.Helper()
	w := &world{t: t}
	w.broker = openQueue(t, "queue", vfs.NewMem(), w.now)
	w.run(store)
	return w
}

func openQueue(t *testing.T, dir string, fs vfs.FS, now func() time.Time) *queueembedded.Broker {
	t.Helper()
	broker, err := queueembedded.Create(dir, queueembedded.Options{
		FS: fs, Now: now, MaxInFlight: map[string]int{queue.TopicPosts: 8, queue.TopicBackfills: 8, queue.TopicChunks: 8, queue.TopicLikes: 1000},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	return broker
}

// run starts a system on a table, with the queues of the world.
func (w *world) run(store table.Store) {
	t := w.t
	t.Helper()
	w.store = store
	ids := id.NewGenerator(w.now)
	way := access.New(access.Config{
		Store: store, Local: true, Publisher: w.broker, IDs: ids, Now: w.now, Lifetimes: lifetime.Fixed(timelineTTL), ActiveDays: 14,
	})
	w.Service = feed.New(feed.Config{Access: way, LikesByUser: true})
	w.Homes = home.New(home.Config{Access: way, Items: w.Service, Mutes: w.Service})
	w.Views = view.New(way, w.Service)
	w.Deliveries = delivery.New(way)
	w.Removals = removal.New(way, w.Service)
	worker := fanout.New(fanout.Config{
		Store: store, Posts: w.Service, Publisher: w.broker, IDs: ids, Now: w.now, Lifetimes: lifetime.Fixed(timelineTTL), ActiveDays: 14, ChunkSize: 4, PageSize: 2,
	})
	backfills := func(ctx context.Context, e messages.Event) error {
		if _, removal := e.(*messages.UserForgotten); !removal {
			return worker.HandleBackfills(ctx, e)
		}
		if sweep := w.sweep.Load(); sweep != nil {
			return (*sweep)(ctx, e)
		}
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for topic, handle := range map[string]queue.Handler{
		queue.TopicPosts: worker.HandlePosts, queue.TopicBackfills: backfills, queue.TopicChunks: worker.HandleChunks,
	} {
		c := &queue.Consumer{Topic: topic, Broker: w.broker, Handle: handle, Workers: 4, Now: w.now, Log: zap.NewNop()}
		running.Go(func() { _ = c.Run(ctx) }) // Run returns nil after a stop
	}
	likes := likeagg.New(likeagg.Config{Store: store, Broker: w.broker, Now: w.now, Window: 10 * time.Millisecond, IndexLikes: true})
	running.Go(func() { _ = likes.Run(ctx) }) // Run returns nil after a stop
	w.stop = func() {
		stop()
		running.Wait()
	}
	t.Cleanup(w.stop)
	w.cfg = audit.Config{Store: store, Local: true, Feed: w.Service, IDs: ids, Now: w.now, Lifetimes: lifetime.Fixed(timelineTTL), LikesByUser: true}
	w.audit = audit.New(w.cfg)
}

func (w *world) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

// walk walks over the table once, and returns the findings.
func (w *world) walk(repair bool) ([]audit.Finding, audit.Summary) {
	w.t.Helper()
	return w.walkAfter(time.Time{}, repair)
}

// walkAfter walks over a table that was restored to a time, and returns the findings.
func (w *world) walkAfter(restoredTo time.Time, repair bool) ([]audit.Finding, audit.Summary) {
	w.t.Helper()
	var all []audit.Finding
	sum, err := w.audit.Run(w.t.Context(), audit.Walk{Repair: repair, RestoredTo: restoredTo, Found: func(f audit.Finding) error { all = append(all, f); return nil }})
	w.must(err)
	return all, sum
}

// until waits until a condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		require.Truef(w.t, time.Now().Before(deadline), "%s did not happen in time", what)
		<-time.After(5 * time.Millisecond) // the pause between two checks
	}
}

// quiet waits until no message is left.
func (w *world) quiet() {
	w.t.Helper()
	w.until("an end of all messages", func() bool {
		for _, topic := range queue.Topics() {
			depth, err := w.broker.Depth(w.t.Context(), topic)
			w.must(err)
			if depth.Ready+depth.InFlight > 0 {
				return false
			}
		}
		return true
	})
}

func (w *world) people(names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, err := w.PutProfile(w.t.Context(), name, feed.ProfileInput{Name: name})
		w.must(err)
	}
}

func (w *world) post(author string) string {
	w.t.Helper()
	p, err := w.CreatePost(w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: "hello"}})
	w.must(err)
	return p.ID
}

// town returns a world with records of each kind: ann has followers, posts, comments and likes.
func town(t *testing.T, store table.Store) (w *world, posts []string) {
	t.Helper()
	w = newWorld(t, store)
	fans := []string{}
	for i := range 9 {
		fans = append(fans, fmt.Sprintf("fan%d", i))
	}
	w.people(append(fans, "ann", "eve")...)
	for _, fan := range fans {
		w.must(w.Follow(t.Context(), fan, "ann"))
	}
	w.must(w.Follow(t.Context(), "fan0", "eve"))
	w.must(w.Unfollow(t.Context(), "fan0", "eve"))
	w.ahead.Store(int64(time.Hour))
	for range 8 {
		post := w.post("ann")
		posts = append(posts, post)
		_, err := w.CreateComment(t.Context(), "fan1", post, "yes")
		w.must(err)
		for _, fan := range fans[:3] {
			w.must(w.Like(t.Context(), fan, post))
		}
		w.must(w.Unlike(t.Context(), "fan2", post))
	}
	w.must(w.DeletePost(t.Context(), "ann", w.post("ann")))
	w.until("all counts", func() bool {
		for _, post := range posts {
			if n, err := w.LikeCount(t.Context(), access.Viewer{}, post); err != nil || n.Count != 2 {
				return false
			}
		}
		return true
	})
	for _, post := range posts {
		w.until("a delivery", func() bool {
			d, err := w.AnyDelivery(t.Context(), post)
			return err == nil && d.State == delivery.Complete
		})
	}
	return w, posts
}

func (w *world) put(it table.Item) {
	w.t.Helper()
	_, err := w.store.Put(w.t.Context(), table.PutInput{Item: it})
	w.must(err)
}

func (w *world) drop(key table.Key) {
	w.t.Helper()
	_, err := w.store.Delete(w.t.Context(), table.DeleteInput{Key: key, If: table.Exists{}})
	w.must(err)
}

func (w *world) change(key table.Key, set []table.Attr, add []table.Attr, remove ...string) {
	w.t.Helper()
	_, err := w.store.Update(w.t.Context(), table.UpdateInput{Key: key, Set: set, Add: add, Remove: remove, If: table.Exists{}})
	w.must(err)
}

func (w *world) item(key table.Key) *table.Item {
	w.t.Helper()
	res, err := w.store.Get(w.t.Context(), table.GetInput{Key: key, Consistent: true})
	w.must(err)
	return res.Item
}

func entryKey(user, post, author string) table.Key {
	return table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, author)}
}
