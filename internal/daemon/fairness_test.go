package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// stuckMarks is a table in which no read of a home mark ends before the release, so no
// backfill gets on.
type stuckMarks struct {
	table.Store
	release chan struct{}
}

func (s stuckMarks) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if strings.HasSuffix(in.Key.PK, schema.MarksPK("")[len("u#"):]) {
		select {
		case <-s.release:
		case <-ctx.Done():
			return table.GetResult{}, ctx.Err()
		}
	}
	return s.Store.Get(ctx, in)
}

// TestAPostWaitsForNoBackfill lets a crowd follow one author, and holds up every
// backfill. A post that is published behind them all must reach its follower meanwhile,
// with one worker for each topic (I8).
func TestAPostWaitsForNoBackfill(t *testing.T) {
	const crowd = 2000
	broker, err := queueembedded.Open(t.TempDir(), queueembedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := obs.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	store := stuckMarks{tabletest.NewMemory(), make(chan struct{})}
	eng := &engine{store: store, broker: broker, writers: 1, workers: fanoutWorkers{1, 1, 1}}
	p := &process{opt: Options{Now: time.Now, Grace: time.Minute}, log: zap.NewNop()}
	p.cfg.TimelineTTL = time.Hour
	ids := id.NewGenerator(time.Now)
	users := p.newFeed(eng, store, metrics, ids)
	profile := func(user string) {
		t.Helper()
		if _, err := users.PutProfile(t.Context(), user, feed.ProfileInput{Name: user}); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(user, author string) {
		t.Helper()
		if err := users.Follow(t.Context(), user, author); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"celebrity", "ordinary", "reader"} {
		profile(user)
	}
	follow("reader", "ordinary")
	for i := range crowd {
		fan := fmt.Sprintf("fan%d", i)
		profile(fan)
		follow(fan, "celebrity")
	}
	post, err := users.CreatePost(t.Context(), "ordinary", feed.PostInput{Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}

	release := sync.OnceFunc(func() { close(store.release) })
	roots := newRoots(t.Context(), p.log)
	p.startFanout(roots, eng, metrics, ids)
	defer func() {
		release()
		roots.cancel()
		if err := roots.wait(); err != nil {
			t.Error(err)
		}
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	}()
	within := func(what string, done func() bool) {
		t.Helper()
		look, deadline := time.NewTicker(time.Millisecond), time.After(time.Minute)
		defer look.Stop()
		for !done() {
			select {
			case <-look.C:
			case <-deadline:
				t.Fatalf("no %s within a minute", what)
			}
		}
	}
	within("entry of the post", func() bool {
		res, err := store.Store.Get(t.Context(), table.GetInput{
			Key: table.Key{PK: schema.TimelinePK("reader"), SK: schema.EntrySK(post.ID, "ordinary")}, Consistent: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return res.Item != nil
	})
	depth := func() int64 {
		d, err := broker.Depth(t.Context(), queue.TopicBackfills)
		if err != nil {
			t.Fatal(err)
		}
		return d.Ready + d.InFlight + d.Delayed
	}
	if n := depth(); n != crowd+1 {
		t.Errorf("%d backfills are left while all are held up, want %d", n, crowd+1)
	}
	release()
	within("end of the backfills", func() bool { return depth() == 0 })
}
