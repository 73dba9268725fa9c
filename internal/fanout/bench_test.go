package fanout_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/messages"
)

const (
	celebrity  = 100_000 // followers
	activeDays = 14      // the default; the edge of each follower has the day of today's refresh
)

// BenchmarkDelivery delivers posts of one author to 100,000 followers on the embedded
// engine. Queue, worker and table are durable, as in production. BenchmarkBarePebble
// measures the disk and Pebble alone (T1).
func BenchmarkDelivery(b *testing.B) {
	store, err := embedded.Create(b.TempDir(), embedded.Options{SweepEvery: -1})
	require.NoError(b, err)
	defer closeAll(b, store.Close)
	broker, err := queueembedded.Create(b.TempDir(), queueembedded.Options{})
	require.NoError(b, err)
	defer closeAll(b, broker.Close)
	seedFollowers(b, store)

	var delivered atomic.Int64
	complete := make(chan struct{}, 1)
	ids := id.NewGenerator(time.Now)
	worker := fanout.New(fanout.Config{
		Store: store, Posts: storedPosts{}, Publisher: broker, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL), ActiveDays: activeDays,
		Observe: func(n int, _ time.Duration) {
			if delivered.Add(int64(n)) == celebrity {
				complete <- struct{}{}
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	var consumers sync.WaitGroup
	defer consumers.Wait()
	defer stop()
	for topic, handle := range map[string]queue.Handler{queue.TopicPosts: worker.HandlePosts, queue.TopicChunks: worker.HandleChunks} {
		consumer := &queue.Consumer{Topic: topic, Broker: broker, Handle: handle, Workers: 4, Grace: time.Second, Now: time.Now, Log: zap.NewNop()}
		consumers.Go(func() {
			if err := consumer.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}

	b.ReportAllocs()
	for b.Loop() {
		post, err := ids.New()
		if err != nil {
			b.Fatal(err)
		}
		delivered.Store(0)
		if _, err := store.Put(ctx, table.PutInput{Item: schema.PostRef{ID: post, Author: author}.Item()}); err != nil {
			b.Fatal(err)
		}
		msg, err := queue.Message(ctx, &messages.PostCreated{
			Header: messages.Header{EventID: post, Time: time.Now()}, PostID: post, AuthorID: author, Content: messages.Content{Text: "hello"},
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := broker.Publish(queue.TopicPosts, msg); err != nil {
			b.Fatal(err)
		}
		<-complete
	}
	b.ReportMetric(float64(b.N)*celebrity/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkBarePebble writes keys and values of the same size in synced batches of
// 1,000.
func BenchmarkBarePebble(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), &pebble.Options{MemTableSize: 16 << 20, MemTableStopWritesThreshold: 4, Logger: quiet{}})
	require.NoError(b, err)
	defer closeAll(b, db.Close)
	ids := id.NewGenerator(time.Now)
	value := make([]byte, 10)
	for b.Loop() {
		post, err := ids.New()
		if err != nil {
			b.Fatal(err)
		}
		sk := schema.EntrySK(post, author)
		key := make([]byte, 0, 128)
		for from := 0; from < celebrity; from += 1000 {
			batch := db.NewBatch()
			for i := range 1000 {
				key = append(schema.AppendTimelinePK(append(key[:0], "i00"...), follower(from+i)), sk...)
				if err := batch.Set(key, value, nil); err != nil {
					b.Fatal(err)
				}
			}
			if err := batch.Commit(pebble.Sync); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*celebrity/b.Elapsed().Seconds(), "puts/s")
}

// storedPosts is a Posts for posts that are in the table.
type storedPosts struct{}

func (storedPosts) EnsurePost(_ context.Context, e *messages.PostCreated) (schema.Post, error) {
	return schema.Post{ID: e.PostID, Author: e.AuthorID}, nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func seedFollowers(b *testing.B, store table.Store) {
	b.Helper()
	since := time.Now()
	items := make([]table.Item, celebrity)
	writes := make([]table.BatchWrite, celebrity)
	for i := range items {
		items[i] = schema.DatedFollowerItem(author, follower(i), since, schema.DayOf(since)+activeDays)
		writes[i].Put = &items[i]
	}
	_, err := store.BatchWrite(b.Context(), writes)
	require.NoError(b, err)
}

func closeAll(b *testing.B, closing func() error) {
	b.Helper()
	assert.NoError(b, closing())
}
