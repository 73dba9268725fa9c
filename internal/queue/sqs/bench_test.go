package sqs_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
)

// The endpoint is the fake in this process, with a latency of 5 ms. So these benchmarks measure
// the transport and the SDK.
func benchBroker(b *testing.B) (*sqstest.Server, *sqs.Broker) {
	b.Helper()
	f := sqstest.New(5 * time.Millisecond)
	broker := sqs.New(sqstest.Client(f), sqs.Options{
		Prefix: "test", Pollers: 32, Requests: 32, PollWait: time.Second, MaxInFlight: map[string]int{topic: 2000},
	})
	b.Cleanup(func() {
		assert.NoError(b, broker.Close())
	})
	return f, broker
}

func BenchmarkPublish(b *testing.B) {
	f, broker := benchBroker(b)
	var n atomic.Int64
	b.SetParallelism(256)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := broker.Publish(topic, message.NewMessage(fmt.Sprint(n.Add(1)), []byte("x"))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(f.Requests()[opSend])/float64(b.N)*1000, "requests/1000msg")
}

func BenchmarkConsume(b *testing.B) {
	f, broker := benchBroker(b)
	const batch = 1000
	for i := 0; i < b.N; i += batch {
		msgs := make([]*message.Message, min(batch, b.N-i))
		for j := range msgs {
			msgs[j] = message.NewMessage("id", []byte("x"))
			msgs[j].Metadata.Set(queue.MetaGroup, "g")
		}
		if err := broker.Publish(topic, msgs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	in, err := broker.Subscribe(b.Context(), topic)
	require.NoError(b, err)
	for range b.N {
		(<-in).Ack()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(f.Requests()[opReceive])/float64(b.N)*1000, "receives/1000msg")
}
