package likeagg_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/messages"
)

// BenchmarkHotPost applies and counts likes of one post by distinct users on the durable embedded engine, from
// the queue to the count (T9). The measured time leaves out the publishing.
func BenchmarkHotPost(b *testing.B) {
	store, err := embedded.Create(b.TempDir(), embedded.Options{SweepEvery: -1})
	require.NoError(b, err)
	defer func() {
		assert.NoError(b, store.Close())
	}()
	const inHand = 50_000
	broker, err := queueembedded.Create(b.TempDir(), queueembedded.Options{MaxInFlight: map[string]int{queue.TopicLikes: inHand}})
	require.NoError(b, err)
	defer func() {
		assert.NoError(b, broker.Close())
	}()
	post := publishLikes(b, store, broker, b.N)

	var applied, flushes atomic.Int64
	var written atomic.Uint64
	complete := make(chan struct{})
	measured := table.Measure(store, func(_ table.Op, units table.Units, _ error) { written.Add(uint64(units.Write)) })
	aggregator := likeagg.New(likeagg.Config{
		Store: measured, Broker: broker, Window: time.Second, MaxMessages: inHand, Grace: time.Second,
		Observe: func(o likeagg.Outcome) {
			if o.Flushed {
				flushes.Add(1)
			}
			if applied.Add(int64(o.Applied)) == int64(b.N) {
				close(complete)
			}
		},
	})
	b.ReportAllocs()
	b.ResetTimer()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := aggregator.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	<-complete
	b.StopTimer()
	stop()
	running.Wait()
	res, err := store.Get(context.Background(), table.GetInput{Key: schema.LikeCountKey(post), Consistent: true})
	require.NoError(b, err)
	assert.Equal(b, int64(b.N), schema.ParseLikeCount(res.Item).Likes())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "likes/s")
	b.ReportMetric(float64(flushes.Load()), "flushes")
	b.ReportMetric(float64(written.Load())/float64(b.N), "WCU/like")
}

// publishLikes makes a post, and publishes n likes of the post by distinct users.
func publishLikes(b *testing.B, store table.Store, publisher message.Publisher, n int) (post string) {
	b.Helper()
	ids := id.NewGenerator(time.Now)
	next := func() string {
		made, err := ids.New()
		require.NoError(b, err)
		return made
	}
	post = next()
	ref := schema.PostRef{ID: post, Author: "author"}
	_, err := store.Put(context.Background(), table.PutInput{Item: ref.Item()})
	require.NoError(b, err)
	const batch = 1000
	msgs := make([]*message.Message, 0, batch)
	for i := range n {
		msg, err := queue.Message(context.Background(), &messages.Liked{Like: messages.Like{
			Header: messages.Header{EventID: next(), Time: time.Now()}, PostID: post, UserID: fmt.Sprintf("user-%07d", i), AuthorID: "author",
		}})
		require.NoError(b, err)
		if msgs = append(msgs, msg); len(msgs) == batch || i == n-1 {
			require.NoError(b, publisher.Publish(queue.TopicLikes, msgs...))
			msgs = msgs[:0]
		}
	}
	return post
}
