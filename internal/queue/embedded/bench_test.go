package embedded_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
)

// body has about the size of a Liked event.
var body = []byte(strings.Repeat("x", 250))

func newMessage(group int) *message.Message {
	msg := message.NewMessage(watermill.NewULID(), body)
	msg.Metadata.Set(queue.MetaGroup, fmt.Sprint("group-", group))
	return msg
}

func open(tb testing.TB, dir string) *embedded.Broker {
	tb.Helper()
	b, err := embedded.Create(dir, embedded.Options{MaxInFlight: map[string]int{queue.TopicLikes: 10_000}})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		assert.NoError(tb, b.Close())
	})
	return b
}

// BenchmarkPublish publishes one durable message in each call, with 128 callers for each processor.
func BenchmarkPublish(b *testing.B) {
	broker := open(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(128)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := broker.Publish(queue.TopicLikes, newMessage(int(n.Add(1)%1000))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkConsume reads a backlog from the disk, and answers each message at once.
func BenchmarkConsume(b *testing.B) {
	broker := open(b, b.TempDir())
	fill(b, broker, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	in, err := broker.Subscribe(b.Context(), queue.TopicLikes)
	require.NoError(b, err)
	for range b.N {
		(<-in).Ack()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkConsumeBatches reads a backlog as the like aggregator does: it holds messages until
// a window closes, and then answers them together.
func BenchmarkConsumeBatches(b *testing.B) {
	broker := open(b, b.TempDir())
	fill(b, broker, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	in, err := broker.Subscribe(b.Context(), queue.TopicLikes)
	require.NoError(b, err)
	window := make([]*message.Message, 0, 5000)
	for i := range b.N {
		window = append(window, <-in)
		if len(window) == cap(window) || i == b.N-1 {
			for _, msg := range window {
				msg.Ack()
			}
			window = window[:0]
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkThrough publishes and consumes at the same time.
func BenchmarkThrough(b *testing.B) {
	broker := open(b, b.TempDir())
	in, err := broker.Subscribe(b.Context(), queue.TopicLikes)
	require.NoError(b, err)
	var n atomic.Int64
	b.SetParallelism(128)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := broker.Publish(queue.TopicLikes, newMessage(int(n.Add(1)%1000))); err != nil {
				b.Error(err)
				return
			}
			(<-in).Ack()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func fill(b *testing.B, broker *embedded.Broker, n int) {
	b.Helper()
	for i := 0; i < n; {
		var msgs []*message.Message
		for ; len(msgs) < 1000 && i < n; i++ {
			msgs = append(msgs, newMessage(i%1000))
		}
		require.NoError(b, broker.Publish(queue.TopicLikes, msgs...))
	}
}
