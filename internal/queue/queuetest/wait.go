package queuetest

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/queue"
)

// waitsForLong has waits of more than ten seconds, which is the maximum time for which a
// waiting message may be in flight.
func waitsForLong(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	sent := newMessage("author-1", 1)
	sent.Metadata.Set("traceparent", "00-abc-def-01")
	publish(t, b, sent)
	in, cancel := subscribeUntil(t, b)
	next := func(receives int) *message.Message {
		t.Helper()
		msg := receive(t, in)
		assert.Equal(t, receives, queue.ReceiveOf(msg).Receives)
		assert.Truef(t, msg.Equals(sent), "received %s %v %q, sent %s %v %q", msg.UUID, msg.Metadata, msg.Payload, sent.UUID, sent.Metadata, sent.Payload)
		return msg
	}
	for n := range 2 {
		msg := next(n + 1)
		queue.ReceiveOf(msg).RetryAfter(11 * time.Second)
		msg.Nack()
		waitDepth(t, b, queue.Depth{Delayed: 1})
	}
	queue.HandBack(next(3))
	msg := next(4)
	require.NoError(t, b.DeadLetter(t.Context(), topic, msg, "why"))
	msg.Ack()
	endSubscription(in, cancel)
	waitDead(t, b, sent.UUID)
	letter := listDead(t, b)[0]
	assert.Equal(t, 4, letter.Receives)
	assert.Equal(t, sent.Metadata, letter.Metadata)
	_, _, err := b.Redrive(t.Context(), topic, nil, nil)
	require.NoError(t, err)
	in = subscribe(t, b)
	next(1).Ack()
	waitDepth(t, b, queue.Depth{})
}

// leftForLong has a message that its handler leaves for later, for a long time. Afterwards the message still
// has all its attempts.
func leftForLong(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	publish(t, b, newEvent(t, "ann"))
	in := subscribe(t, b)
	for _, step := range []struct {
		receives int
		failure  error
	}{
		{1, &queue.Later{After: time.Second, Reason: "not yet"}},
		{2, &queue.Later{After: queue.LongWait + time.Second, Reason: "another one is at work"}},
		{2, &queue.Later{After: queue.LongWait + time.Second, Counts: true, Reason: "another one may be dead"}},
		{3, nil},
	} {
		msg := receive(t, in)
		assert.Equal(t, step.receives, queue.ReceiveOf(msg).Receives)
		queue.Answerer{Topic: topic, Dead: b, Log: zap.NewNop()}.Answer(t.Context(), msg, step.failure, false)
	}
	waitDepth(t, b, queue.Depth{})
}
