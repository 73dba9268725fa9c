package queuetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

func receivedAsSent(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	in := subscribe(t, b)
	sent := newMessage("author-1", 1)
	sent.Metadata.Set("traceparent", "00-abc-def-01")
	publish(t, b, sent)
	got := receive(t, in)
	defer got.Ack()
	if !got.Equals(sent) {
		t.Errorf("received %s %v %q, sent %s %v %q", got.UUID, got.Metadata, got.Payload, sent.UUID, sent.Metadata, sent.Payload)
	}
	assert.Equal(t, 1, queue.ReceiveOf(got).Receives, "receive count")
}

// eventReceived also tests a backend that delivers the published event itself. If a message is
// redelivered, or its payload was replaced, its event is the event of the payload.
func eventReceived(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	in := subscribe(t, b)
	sent, replaced := newEvent(t, "ann"), newEvent(t, "ann")
	replaced.Payload = bytes.Replace(replaced.Payload, []byte("ann"), []byte("bob"), 1)
	for want, msg := range map[string]*message.Message{"ann": sent, "bob": replaced} {
		publish(t, b, msg)
		for range 2 {
			got := receive(t, in)
			event, err := queue.Event(got)
			require.NoError(t, err)
			like, ok := event.(*messages.Liked)
			require.True(t, ok, "a %T came", event)
			assert.Equal(t, want, like.UserID)
			again, err := messages.Encode(event)
			require.NoError(t, err)
			assert.Equal(t, string(msg.Payload), string(again))
			if queue.ReceiveOf(got).Receives == 1 {
				queue.HandBack(got)
			} else {
				got.Ack()
			}
		}
	}
}

// newEvent returns the message of a like by user.
func newEvent(t *testing.T, user string) *message.Message {
	t.Helper()
	return newEventAt(t, user, time.Now())
}

// newEventAt returns the message of a like that user made at some time.
func newEventAt(t *testing.T, user string, at time.Time) *message.Message {
	t.Helper()
	eventID, err := id.NewGenerator(func() time.Time { return at }).New()
	require.NoError(t, err)
	msg, err := queue.Message(t.Context(), &messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: eventID, Time: at}, PostID: eventID, UserID: user,
	}})
	require.NoError(t, err)
	return msg
}

func survivesReopen(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	sent := newMessages("g", 3)
	publish(t, b, sent...)
	require.NoError(t, b.Close())
	receiveAll(t, subscribe(t, backend.Open(t, Options{})), sent)
}

func survivesCrash(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	sent := newMessages("g", 30)
	var publishing sync.WaitGroup
	for _, msg := range sent {
		publishing.Go(func() { publish(t, b, msg) })
	}
	publishing.Wait()
	backend.Crash(t, b)
	receiveAll(t, subscribe(t, backend.Open(t, Options{})), sent)
}

func manyAtOnce(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	publish(t, b)
	sent := newMessages("g", 57)
	publish(t, b, sent...)
	receiveAll(t, subscribe(t, b), sent)
	waitDepth(t, b, queue.Depth{})
}

func largest(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	var sent []*message.Message
	for range 3 {
		msg := message.NewMessage(watermill.NewULID(), nil)
		msg.Payload = []byte(strings.Repeat("x", queue.MaxMessageBytes-queue.Size(msg)))
		sent = append(sent, msg)
	}
	publish(t, b, sent...)
	in := subscribe(t, b)
	receiveAll(t, in, sent[:2])
	// The same message can also become a dead letter with a long reason.
	publish(t, b, sent[2])
	msg := receive(t, in)
	require.NoError(t, b.DeadLetter(t.Context(), topic, msg, strings.Repeat("why ", 2000)))
	msg.Ack()
	waitDead(t, b, msg.UUID)
}

func textSurvives(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	in := subscribe(t, b)
	for _, text := range []string{
		`{"text":"👩‍👩‍👧‍👦 é ß 漢字 \u0000 \ufffe \uffff \ud83d\ude00"}`,
		"tabs\tand\r\nlines", `"quotes" & <tags> ]]> %s \`, " leading and trailing ", "\u2028\u2029\u0085\uFEFF\U0010FFFF",
	} {
		sent := message.NewMessage(watermill.NewULID(), []byte(text))
		sent.Metadata.Set("note", text)
		publish(t, b, sent)
		got := receive(t, in)
		assert.Truef(t, got.Equals(sent), "received %q with %q, sent %q", got.Payload, got.Metadata["note"], text)
		got.Ack()
	}
}

func refused(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	with := func(change func(*message.Message)) *message.Message {
		msg := newMessage("g", 0)
		change(msg)
		return msg
	}
	payload := func(s string) *message.Message {
		return with(func(m *message.Message) { m.Payload = []byte(s) })
	}
	for _, test := range []struct {
		name string
		msg  *message.Message
		want error
	}{
		{"payload one byte too large", with(func(m *message.Message) {
			m.Payload = nil
			m.Payload = []byte(strings.Repeat("x", queue.MaxMessageBytes-queue.Size(m)+1))
		}), queue.ErrTooLarge},
		{"too many metadata", with(func(m *message.Message) {
			for i := range queue.MaxMetadata {
				m.Metadata.Set(fmt.Sprint("key", i), "v")
			}
		}), queue.ErrTooLarge},
		{"empty payload", payload(""), queue.ErrInvalid},
		{"payload not UTF-8", payload("a\xffb"), queue.ErrInvalid},
		{"payload with NUL", payload("a\x00b"), queue.ErrInvalid},
		{"payload with U+FFFE", payload("a\uFFFEb"), queue.ErrInvalid},
		{"empty id", with(func(m *message.Message) { m.UUID = "" }), queue.ErrInvalid},
		{"empty metadata value", with(func(m *message.Message) { m.Metadata.Set("k", "") }), queue.ErrInvalid},
		{"metadata value not UTF-8", with(func(m *message.Message) { m.Metadata.Set("k", "\xff") }), queue.ErrInvalid},
		{"empty metadata key", with(func(m *message.Message) { m.Metadata.Set("", "v") }), queue.ErrInvalid},
		{"metadata key with a space", with(func(m *message.Message) { m.Metadata.Set("a b", "v") }), queue.ErrInvalid},
		{"metadata key of the transport", with(func(m *message.Message) { m.Metadata.Set(queue.MetaWait, "v") }), queue.ErrInvalid},
	} {
		assert.ErrorIs(t, b.Publish(topic, newMessage("g", 1), test.msg), test.want, test.name)
	}
	for _, name := range []string{"", "a b", "a/b", strings.Repeat("x", 61)} {
		assert.ErrorIsf(t, b.Publish(name, newMessage("g", 1)), queue.ErrInvalid, "topic %q", name)
	}
	waitDepth(t, b, queue.Depth{}) // the valid messages of the refused calls were not sent either
}

func ackRemoves(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{Visibility: visibility})
	publish(t, b, newMessages("g", 5)...)
	in := subscribe(t, b)
	for range 5 {
		receive(t, in).Ack()
	}
	waitDepth(t, b, queue.Depth{})
	require.NoError(t, b.Close())
	b = backend.Open(t, Options{})
	waitDepth(t, b, queue.Depth{})
	nothingFor(t, subscribe(t, b), visibility+time.Second)
}

func nackAtOnce(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	sent := newMessage("g", 1)
	publish(t, b, sent)
	in := subscribe(t, b)
	for want := 1; want <= 5; want++ {
		msg := receive(t, in)
		if n := queue.ReceiveOf(msg).Receives; n != want || !msg.Equals(sent) {
			t.Fatalf("receive %d of %s, want receive %d of %s", n, msg.UUID, want, sent.UUID)
		}
		queue.HandBack(msg)
	}
}

func nackDelayed(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	publish(t, b, newMessage("g", 1), newMessage("h", 2))
	in := subscribe(t, b)
	first, second := receive(t, in), receive(t, in)
	// The delays are so different that a pause of the machine does not change the order.
	queue.ReceiveOf(first).RetryAfter(12 * time.Second)
	first.Nack()
	queue.ReceiveOf(second).RetryAfter(time.Second)
	second.Nack()
	for _, want := range []*message.Message{second, first} {
		got := receive(t, in)
		if got.UUID != want.UUID || queue.ReceiveOf(got).Receives != 2 {
			t.Errorf("receive %d of %s, want receive 2 of %s", queue.ReceiveOf(got).Receives, got.UUID, want.UUID)
		}
		got.Ack()
	}
	waitDepth(t, b, queue.Depth{})
}

func nackBacksOff(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	publish(t, b, newMessage("g", 1))
	in := subscribe(t, b)
	nacked := receive(t, in)
	nacked.Nack()
	waitDelayed(t, b) // a message must be delayed, and not redelivered at once
	again := receive(t, in)
	if again.UUID != nacked.UUID || queue.ReceiveOf(again).Receives != 2 {
		t.Errorf("receive %d of %s, want receive 2 of %s", queue.ReceiveOf(again).Receives, again.UUID, nacked.UUID)
	}
	again.Ack()
}

// waitDelayed waits until a nacked message is delayed. SQS counts such a message as in flight.
func waitDelayed(t *testing.T, b queue.Broker) {
	t.Helper()
	eventually(t, func() string {
		got, err := b.Depth(t.Context(), topic)
		if err != nil {
			return err.Error()
		}
		if got.Delayed+got.InFlight != 1 {
			return fmt.Sprintf("depth %+v, want one delayed", got)
		}
		return ""
	})
}

func crashedConsumer(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{Visibility: visibility})
	sent := newMessages("g", 4)
	publish(t, b, sent...)
	in := subscribe(t, b)
	receive(t, in).Ack()
	for range 3 {
		receive(t, in)
	}
	waitDepth(t, b, queue.Depth{InFlight: 3})
	nothingFor(t, in, 3*time.Second) // a backend may store the receive counts a little later
	backend.Crash(t, b)
	b = backend.Open(t, Options{})
	in = subscribe(t, b)
	for range 3 {
		msg := receive(t, in)
		n := queue.ReceiveOf(msg).Receives
		assert.GreaterOrEqualf(t, n, 2, "receive count %d after a crash", n)
		msg.Ack()
	}
}

func heldLong(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{Visibility: visibility})
	publish(t, b, newMessages("g", 12)...)
	in := subscribe(t, b)
	var held []*message.Message
	for range 12 {
		held = append(held, receive(t, in))
	}
	nothingFor(t, subscribe(t, b), 2*visibility+time.Second) // the broker has to extend the timeout several times
	for _, msg := range held {
		assert.NoErrorf(t, msg.Context().Err(), "the context of %s ended while it was held", msg.UUID)
		msg.Ack()
	}
	waitDepth(t, b, queue.Depth{})
}

func maxInFlight(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{MaxInFlight: 4})
	sent := newMessages("g", 12)
	publish(t, b, sent...)
	in := subscribe(t, b)
	var out []*message.Message
	for range 4 {
		out = append(out, receive(t, in))
	}
	nothingFor(t, in, 500*time.Millisecond)
	waitDepth(t, b, queue.Depth{Ready: 8, InFlight: 4})
	acked := map[string]bool{}
	for _, msg := range out {
		acked[msg.UUID] = true
		msg.Ack()
	}
	rest := slices.DeleteFunc(sent, func(msg *message.Message) bool { return acked[msg.UUID] })
	receiveAll(t, in, rest)
	waitDepth(t, b, queue.Depth{})
}

func handsBack(t *testing.T, backend Backend) {
	t.Helper()
	// The visibility timeout is longer than Patience, so a message that arrives was handed back.
	b := backend.Open(t, Options{Visibility: 10 * Patience})
	sent := newMessages("g", 25)
	publish(t, b, sent...)
	first, cancel := subscribeUntil(t, b)
	defer cancel()
	var held []*message.Message
	for range 5 {
		held = append(held, receive(t, first))
	}
	endSubscription(first, cancel)
	for _, msg := range held {
		select {
		case <-msg.Context().Done():
		case <-time.After(Patience):
			t.Fatal("the context of a message outlived its subscription")
		}
		msg.Ack() // the ack is too late, because another consumer may have the message
	}
	receiveAll(t, subscribe(t, b), sent)
	waitDepth(t, b, queue.Depth{})
}

func messageContext(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	publish(t, b, newMessages("g", 2)...)
	in := subscribe(t, b)
	acked, nacked := receive(t, in), receive(t, in)
	acked.Ack()
	nacked.Nack()
	for _, msg := range []*message.Message{acked, nacked} {
		select {
		case <-msg.Context().Done():
		case <-time.After(Patience):
			t.Fatal("the context did not end with the answer")
		}
	}
}

func competing(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{MaxInFlight: 20})
	const publishers, each, subscribers = 8, 40, 4
	var publishing, receiving sync.WaitGroup
	var sent []*message.Message
	for p := range publishers {
		msgs := newMessages(fmt.Sprint("g", p), each)
		sent = append(sent, msgs...)
		publishing.Go(func() {
			for _, msg := range msgs {
				if err := b.Publish(topic, msg); err != nil {
					t.Errorf("publish: %v", err)
				}
			}
		})
	}
	got := make(chan *message.Message)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range subscribers {
		in, err := b.Subscribe(ctx, topic)
		require.NoError(t, err)
		receiving.Go(func() {
			for msg := range in {
				select {
				case got <- msg:
				case <-ctx.Done():
				}
			}
		})
	}
	receiveAll(t, got, sent)
	publishing.Wait()
	waitDepth(t, b, queue.Depth{})
	cancel()
	receiving.Wait()
}

func closed(t *testing.T, backend Backend) {
	t.Helper()
	b := backend.Open(t, Options{})
	in := subscribe(t, b)
	for range 2 {
		require.NoError(t, b.Close())
	}
	_, open := <-in
	assert.False(t, open, "a message came after close")
	ctx := t.Context()
	_, subscribeErr := b.Subscribe(ctx, topic)
	_, listErr := b.ListDead(ctx, topic, 1)
	_, _, redriveErr := b.Redrive(ctx, topic, nil, nil)
	_, dropErr := b.DropDead(ctx, topic, nil)
	for call, err := range map[string]error{
		"publish":     b.Publish(topic, newMessage("g", 1)),
		"subscribe":   subscribeErr,
		"dead letter": b.DeadLetter(ctx, topic, newMessage("g", 1), "why"),
		"list":        listErr,
		"redrive":     redriveErr,
		"drop":        dropErr,
	} {
		assert.ErrorIs(t, err, queue.ErrClosed, call)
	}
}

func fair(t *testing.T, backend Backend) {
	t.Helper()
	if !backend.Fair {
		return // the service of the backend is fair
	}
	b := backend.Open(t, Options{MaxInFlight: 1})
	publish(t, b, newMessages("celebrity", 10_000)...)
	in := subscribe(t, b)
	receive(t, in).Ack()
	small := []*message.Message{newMessage("ordinary", 1), newMessage("another", 2)}
	publish(t, b, small...)
	// The broker may already have received one message of the large group. Each round delivers
	// one more message of this group.
	position := map[string]int{}
	for i := range 6 {
		msg := receive(t, in)
		position[msg.UUID] = i + 1
		msg.Ack()
	}
	for _, msg := range small {
		if position[msg.UUID] == 0 {
			t.Errorf("the message of group %s is not among the next 6", msg.Metadata.Get(queue.MetaGroup))
		}
	}
}
