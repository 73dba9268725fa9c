package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

// bury publishes n messages, receives them, and makes them dead letters.
func bury(t *testing.T, b queue.Broker, n int) []*message.Message {
	t.Helper()
	publish(t, b, newMessages("g", n)...)
	in, cancel := subscribeUntil(t, b)
	defer cancel()
	var buried []*message.Message
	for range n {
		msg := receive(t, in)
		require.NoError(t, b.DeadLetter(t.Context(), topic, msg, "bad payload"))
		msg.Ack()
		buried = append(buried, msg)
	}
	endSubscription(in, cancel)
	waitDepth(t, b, queue.Depth{Dead: int64(n)})
	return buried
}

func deadLetterKept(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	sent := newMessage("g", 1)
	for len(sent.Metadata) < queue.MaxMetadata {
		sent.Metadata.Set(watermill.NewShortUUID(), "value")
	}
	publish(t, b, sent)
	in := subscribe(t, b)
	queue.HandBack(receive(t, in))
	msg := receive(t, in)
	require.NoError(t, b.DeadLetter(t.Context(), topic, msg, "no such \x00 version"))
	msg.Ack()
	waitDead(t, b, sent.UUID)
	waitDepth(t, b, queue.Depth{Dead: 1})
	require.NoError(t, b.Close())
	b = backend.Open(t, Options{})
	waitDead(t, b, sent.UUID) // a list removes nothing
	letter := listDead(t, b)[0]
	if letter.Topic != topic || letter.Reason != "no such \uFFFD version" || letter.Receives != 2 || letter.FailedAt.IsZero() {
		t.Errorf("dead letter %+v", letter)
	}
	if got := letter.Original(); !got.Equals(sent) {
		t.Errorf("dead letter has %v %q, sent %v %q", got.Metadata, got.Payload, sent.Metadata, sent.Payload)
	}
	if none, err := b.ListDead(t.Context(), topic, 0); err != nil || len(none) != 0 {
		t.Errorf("listing 0: %v, %v", none, err)
	}
}

// dueAtEachReceive has a consumer that sets the due time of a message at each receive: six
// minutes after the event, which is ten minutes old.
func dueAtEachReceive(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	const age, wait = 10 * time.Minute, 6 * time.Minute
	sent := newEventAt(t, "ann", time.Now().Add(-age))
	made, err := id.Time(sent.UUID)
	require.NoError(t, err)
	publish(t, b, sent)
	in, cancel := subscribeUntil(t, b)
	answer := func(want queue.Result, failure error) {
		t.Helper()
		msg := receive(t, in)
		_, err := queue.Event(msg)
		require.NoError(t, err)
		queue.Due(msg.Context(), made.Add(wait))
		var got queue.Answered
		queue.Answerer{Topic: topic, Dead: b, Log: zap.NewNop(), Observe: func(a queue.Answered) { got = a }}.Answer(t.Context(), msg, failure, false)
		assert.Equal(t, want, got.Result)
		assert.Equal(t, made.Add(wait), got.Due)
	}
	answer(queue.ResultLater, &queue.Later{Reason: "it is not due yet"})
	answer(queue.ResultRefused, &messages.PermanentError{Reason: messages.ReasonNoPost})
	endSubscription(in, cancel)
	waitDead(t, b, sent.UUID)
	require.NoError(t, b.Close())
	b = backend.Open(t, Options{})
	redriven, _, err := b.Redrive(t.Context(), topic, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, redriven)
	in = subscribe(t, b)
	answer(queue.ResultDone, nil)
}

func redrive(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	buried := bury(t, b, 15)
	in := subscribe(t, b)
	ctx := t.Context()

	one := buried[3]
	if sent, refused, err := b.Redrive(ctx, topic, []string{one.UUID, "no-such-id"}, nil); sent != 1 || refused != 0 || err != nil {
		t.Fatalf("redrive of one: sent %d, refused %d, %v", sent, refused, err)
	}
	got := receive(t, in)
	if !got.Equals(one) {
		t.Errorf("redrive sent %v %q, want %v %q", got.Metadata, got.Payload, one.Metadata, one.Payload)
	}
	n := queue.ReceiveOf(got).Receives
	assert.Equalf(t, 1, n, "receive count %d after a redrive", n)
	got.Ack()

	meant := 0
	sent, refused, err := b.Redrive(ctx, topic, nil, func(d queue.DeadLetter) error {
		switch {
		case meant == 3:
			return queue.ErrEnough
		case d.ID == buried[9].UUID:
			return queue.ErrNotMeant
		}
		meant++
		return nil
	})
	if sent != 3 || refused != 0 || meant != 3 || err != nil {
		t.Fatalf("redrive of three: sent %d of %d, refused %d, %v", sent, meant, refused, err)
	}
	for range 3 {
		again := receive(t, in)
		if again.UUID == buried[9].UUID {
			t.Error("a letter that was not meant was sent")
		}
		if err := b.DeadLetter(ctx, topic, again, "once more"); err != nil {
			t.Fatal(err)
		}
		again.Ack()
	}

	keep := buried[7].UUID
	sent, refused, err = b.Redrive(ctx, topic, nil, func(d queue.DeadLetter) error {
		if d.ID == keep {
			return errors.New("too old")
		}
		return nil
	})
	if sent != 13 || refused != 1 || err != nil {
		t.Fatalf("redrive of all: sent %d, refused %d, %v", sent, refused, err)
	}
	var rest []*message.Message
	for _, msg := range buried {
		if msg.UUID != keep && msg.UUID != one.UUID {
			rest = append(rest, msg)
		}
	}
	receiveAll(t, in, rest)
	waitDead(t, b, keep)
	waitDepth(t, b, queue.Depth{Dead: 1})
}

func drop(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	buried := bury(t, b, 12)
	ctx := t.Context()
	if n, err := b.DropDead(ctx, topic, []string{buried[0].UUID, buried[5].UUID}); n != 2 || err != nil {
		t.Fatalf("drop of two: %d, %v", n, err)
	}
	waitDepth(t, b, queue.Depth{Dead: 10})
	if n, err := b.DropDead(ctx, topic, nil); n != 10 || err != nil {
		t.Fatalf("drop of all: %d, %v", n, err)
	}
	waitDepth(t, b, queue.Depth{})
	waitDead(t, b)
}

func depth(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{MaxInFlight: 2})
	publish(t, b, newMessages("g", 7)...)
	waitDepth(t, b, queue.Depth{Ready: 7})
	in, cancel := subscribeUntil(t, b)
	defer cancel()
	held := []*message.Message{receive(t, in), receive(t, in)}
	waitDepth(t, b, queue.Depth{Ready: 5, InFlight: 2})
	for _, msg := range held {
		msg.Ack()
	}
	for range 5 {
		receive(t, in).Ack()
	}
	waitDepth(t, b, queue.Depth{})
	endSubscription(in, cancel)
	bury(t, b, 1)
}

func consumer(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	good, later, bad := newEvent(t, "ann"), newEvent(t, "ann"), newEvent(t, "ann")
	unreadable := newMessage("g", 1)
	publish(t, b, good, later, bad, unreadable)
	var done, postponed atomic.Int32
	c := &queue.Consumer{
		Topic: topic, Broker: b, Workers: 3, Grace: Patience, Now: time.Now, Log: zap.NewNop(),
		Handle: func(_ context.Context, e messages.Event) error {
			switch e.Head().EventID {
			case later.UUID:
				if postponed.Add(1) == 1 {
					return &queue.Later{Reason: "not yet"}
				}
			case bad.UUID:
				return &messages.PermanentError{Reason: messages.ReasonNoPost}
			}
			done.Add(1)
			return nil
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	waitDead(t, b, bad.UUID, unreadable.UUID)
	waitDepth(t, b, queue.Depth{Dead: 2})
	eventually(t, func() string { // SQS does not count a message that is changing its state
		if n, tries := done.Load(), postponed.Load(); n < 2 || tries < 2 {
			return fmt.Sprintf("%d done, %d tries of the postponed, want 2 and 2", n, tries)
		}
		return ""
	})
	stop()
	assert.NoError(t, <-ended)
	if done.Load() != 2 || postponed.Load() != 2 {
		t.Errorf("%d done, %d tries of the postponed, want 2 and 2", done.Load(), postponed.Load())
	}
}
