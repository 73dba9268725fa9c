package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/queue"
	"fanfare/messages"
)

// If a message seems too old, but the consumer's clock is in doubt, the consumer hands the message back,
// because another consumer may have the right clock. When its own clock is right, the consumer handles the
// message.
func TestAClockInDoubtMakesNoDeadLetters(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{40 * 24 * time.Hour, -3 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var wrong atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
			b, clk := newBroker(), clock.New(now)
			wrong.Store(int64(skew))
			clk.Observe(time.Now(), 0)
			c := &queue.Consumer{
				Topic: queue.TopicLikes, Broker: b, Workers: 1, Now: now, Clock: clk, Log: zap.NewNop(),
				Handle: func(context.Context, messages.Event) error { return nil },
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { assert.NoError(t, c.Run(ctx)) })
			msg := event(t)
			b.deliver(msg, 1)
			pass(3 * time.Hour)
			require.GreaterOrEqual(t, len(b.answersOf(msg)), queue.MaxAttempts)
			for i, a := range b.answersOf(msg) {
				assert.Equal(t, answer{delay: queue.Backoff(i + 1)}, a)
			}
			assert.Empty(t, b.reason(msg))
			wrong.Store(0)
			pass(10 * time.Minute)
			answers := b.answersOf(msg)
			assert.True(t, answers[len(answers)-1].acked)
			assert.Empty(t, b.reason(msg))
			cancel()
			running.Wait()
			b.ending.Wait()
		})
	}
}
