// Package queuetest is the one suite that every queue.Broker passes. Each backend's
// tests call Run, and RunWatermill for Watermill's own conformance suite. What it
// tests is the contract in package queue, not how a backend keeps it.
package queuetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
)

// Patience is how long the suite waits for what must happen.
const Patience = 2 * time.Minute

// visibility is the shortest that the suite asks for. A broker extends it when two
// thirds are left, and must get that done before the end, on a machine with more to do.
const visibility = 9 * time.Second

// Options are what a test asks of the broker it opens. Zero fields leave the choice
// to the backend.
type Options struct {
	// MaxInFlight is the bound of each subscription.
	MaxInFlight int
	// Visibility is how long a message stays out whose consumer vanished.
	Visibility time.Duration
}

// Backend is one storage, empty and used by one test alone.
type Backend struct {
	// Open opens a broker on the storage and closes it when the test ends. It is
	// called again after a Close or Crash.
	Open func(t *testing.T, o Options) queue.Broker
	// Crash ends a broker as kill -9 would: nothing is handed back or written.
	Crash func(t *testing.T, b queue.Broker)
	// Fair says that the backend itself is fair by group key, not the service
	// behind it.
	Fair bool
}

// Run runs the suite. newBackend is called once for each test.
func Run(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Backend)
	}{
		{"a published message is received as it was sent", receivedAsSent},
		{"a published message survives close and reopen", survivesReopen},
		{"a published message survives a crash", survivesCrash},
		{"a publish of many messages delivers all", manyAtOnce},
		{"the largest message goes through", largest},
		{"text of any kind survives", textSurvives},
		{"what cannot be carried is refused before anything is sent", refused},
		{"an ack removes", ackRemoves},
		{"a nack counts receives and comes back at once when asked to", nackAtOnce},
		{"a nack comes back after the delay", nackDelayed},
		{"a nack without a delay backs off", nackBacksOff},
		{"a message whose consumer crashed comes back", crashedConsumer},
		{"a held message is not delivered to another", heldLong},
		{"no more than MaxInFlight are out", maxInFlight},
		{"the end of a subscription hands back what is unanswered", handsBack},
		{"the context of a message ends with its answer", messageContext},
		{"a dead letter keeps message and reason", deadLetterKept},
		{"redrive sends all, some or what is not refused", redrive},
		{"drop removes dead letters for good", drop},
		{"depth counts by state", depth},
		{"competing subscribers lose nothing", competing},
		{"after close all calls say so", closed},
		{"a consumer sorts out good, bad and later", consumer},
		{"a large group does not delay a small one", fair},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newBackend(t))
		})
	}
}

const topic = queue.TopicPosts

// message with a payload that says which it is.
func newMessage(group string, i int) *message.Message {
	msg := message.NewMessage(watermill.NewULID(), fmt.Appendf(nil, `{"n":%d}`, i))
	if group != "" {
		msg.Metadata.Set(queue.MetaGroup, group)
	}
	return msg
}

func newMessages(group string, n int) []*message.Message {
	msgs := make([]*message.Message, n)
	for i := range msgs {
		msgs[i] = newMessage(group, i)
	}
	return msgs
}

func publish(t *testing.T, b queue.Broker, msgs ...*message.Message) {
	t.Helper()
	if err := b.Publish(topic, msgs...); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func subscribe(t *testing.T, b queue.Broker) <-chan *message.Message {
	t.Helper()
	in, _ := subscribeUntil(t, b)
	return in
}

func subscribeUntil(t *testing.T, b queue.Broker) (<-chan *message.Message, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, err := b.Subscribe(ctx, topic)
	if err != nil {
		cancel()
		t.Fatalf("subscribe: %v", err)
	}
	return in, cancel
}

// endSubscription returns when a subscription takes no more messages.
func endSubscription(in <-chan *message.Message, cancel context.CancelFunc) {
	cancel()
	for msg := range in {
		queue.ReceiveOf(msg).RetryAfter(0)
		msg.Nack()
	}
}

// receive waits for the next message.
func receive(t *testing.T, in <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, open := <-in:
		if !open {
			t.Fatal("the subscription ended")
		}
		return msg
	case <-time.After(Patience):
		t.Fatal("no message came")
	}
	return nil
}

// receiveAll acks messages until each of want came at least once.
func receiveAll(t *testing.T, in <-chan *message.Message, want []*message.Message) {
	t.Helper()
	missing := map[string]bool{}
	for _, msg := range want {
		missing[msg.UUID] = true
	}
	for len(missing) > 0 {
		msg := receive(t, in)
		delete(missing, msg.UUID)
		msg.Ack()
	}
}

// nothingFor fails if a message comes within d.
func nothingFor(t *testing.T, in <-chan *message.Message, d time.Duration) {
	t.Helper()
	select {
	case msg, open := <-in:
		if open {
			t.Fatalf("message %s came (receive %d), none was to", msg.UUID, queue.ReceiveOf(msg).Receives)
		}
		t.Fatal("the subscription ended")
	case <-time.After(d):
	}
}

// eventually waits until check returns "", which says what is wrong.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	deadline := time.After(Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for problem := check(); problem != ""; problem = check() {
		select {
		case <-deadline:
			t.Fatal(problem)
		case <-tick.C:
		}
	}
}

func waitDepth(t *testing.T, b queue.Broker, want queue.Depth) {
	t.Helper()
	eventually(t, func() string {
		got, err := b.Depth(t.Context(), topic)
		if err != nil {
			return err.Error()
		}
		if got != want {
			return fmt.Sprintf("depth %+v, want %+v", got, want)
		}
		return ""
	})
}

func listDead(t *testing.T, b queue.Broker) []queue.DeadLetter {
	t.Helper()
	letters, err := b.ListDead(t.Context(), topic, 100)
	if err != nil {
		t.Fatalf("list dead letters: %v", err)
	}
	return letters
}

// waitDead waits until exactly the dead letters of want are listed.
func waitDead(t *testing.T, b queue.Broker, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, func() string {
		var got []string
		for _, letter := range listDead(t, b) {
			got = append(got, letter.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("dead letters %v, want %v", got, want)
		}
		return ""
	})
}
