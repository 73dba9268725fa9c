// Package queuetest is the one suite that every queue.Broker has to pass. The tests of each
// backend call Run, and RunWatermill for Watermill's own conformance suite. The suite tests the
// contract of package queue, and must never test how a backend implements the contract. The
// product must never import the package.
package queuetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
)

// Patience is the time for which the suite waits for an event before it fails.
const Patience = 2 * time.Minute

// visibility is the shortest visibility timeout in the suite. A broker extends the timeout when
// two thirds of it are left, and has to finish the extension in time even on a busy machine.
const visibility = 9 * time.Second

// Options are the settings of a broker that a test opens. For a zero field the backend chooses the value.
type Options struct {
	// MaxInFlight bounds the unanswered messages of each subscription.
	MaxInFlight int
	// Visibility is the time after which the message of a consumer that disappeared is redelivered.
	Visibility time.Duration
}

// Backend is one storage for one test. At first it is empty.
type Backend struct {
	// Open opens a broker on the storage, and closes it at the end of the test. A test may call
	// Open again after a Close or Crash.
	Open func(t *testing.T, o Options) queue.Broker
	// Crash ends a broker as kill -9 would: the broker returns no message to the queue and writes nothing.
	Crash func(t *testing.T, b queue.Broker)
	// Fair means that the backend itself is fair by group key. If Fair is false, the service
	// that the backend uses is fair.
	Fair bool
}

// Run runs the suite in real time, for a backend that uses a service of another process. newBackend is called once
// for each test.
func Run(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for _, test := range contract() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newBackend(t))
		})
	}
}

// RunVirtual runs the suite in virtual time. Each test calls newBackend in its own bubble, so the whole backend has to
// be part of this process.
func RunVirtual(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for _, test := range contract() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test.run(t, newBackend(t))
			})
		})
	}
}

// contractTest is a test of the suite.
type contractTest struct {
	name string
	run  func(*testing.T, Backend)
}

// contract returns all tests of the suite.
func contract() []contractTest {
	return []contractTest{
		{"a published message is received as it was sent", receivedAsSent},
		{"a published message survives close and reopen", survivesReopen},
		{"an event is received as it was published", eventReceived},
		{"a published message survives a crash", survivesCrash},
		{"a publish of many messages delivers all", manyAtOnce},
		{"the largest message goes through", largest},
		{"text of any kind survives", textSurvives},
		{"a message that cannot be carried is refused before anything is sent", refused},
		{"an ack removes", ackRemoves},
		{"a nack counts receives and comes back at once when asked to", nackAtOnce},
		{"a nack comes back after the delay", nackDelayed},
		{"a nack without a delay backs off", nackBacksOff},
		{"a receive that is left for long does not count", leftForLong},
		{"a message that waits for long is not in flight, and stays as it was", waitsForLong},
		{"a message whose consumer crashed comes back", crashedConsumer},
		{"a held message is not delivered to another", heldLong},
		{"no more than MaxInFlight messages are unanswered", maxInFlight},
		{"the end of a subscription hands back the unanswered messages", handsBack},
		{"the context of a message ends with its answer", messageContext},
		{"a dead letter keeps message and reason", deadLetterKept},
		{"redrive sends all, some, or those not refused", redrive},
		{"a message is due at the same time at each receive and after a redrive", dueAtEachReceive},
		{"drop removes dead letters for good", drop},
		{"depth counts by state", depth},
		{"competing subscribers lose nothing", competing},
		{"after close all calls say so", closed},
		{"a consumer handles, postpones and buries messages", consumer},
		{"a large group does not delay a small one", fair},
	}
}

const topic = queue.TopicPosts

// newMessage returns a message with i in its payload.
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
	require.NoError(t, b.Publish(topic, msgs...))
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

// endSubscription ends a subscription, and hands back the messages that the subscription still delivers.
func endSubscription(in <-chan *message.Message, cancel context.CancelFunc) {
	cancel()
	for msg := range in {
		queue.HandBack(msg)
	}
}

// receive waits for the next message.
func receive(t *testing.T, in <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, open := <-in:
		require.True(t, open, "the subscription ended")
		return msg
	case <-time.After(Patience):
		t.Fatal("no message came")
	}
	return nil
}

// receiveAll acks messages until each message of want was received at least once.
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

// nothingFor fails if a message arrives within d.
func nothingFor(t *testing.T, in <-chan *message.Message, d time.Duration) {
	t.Helper()
	select {
	case msg, open := <-in:
		if open {
			t.Fatalf("message %s came (receive %d), want none", msg.UUID, queue.ReceiveOf(msg).Receives)
		}
		t.Fatal("the subscription ended")
	case <-time.After(d):
	}
}

// eventually waits until check returns "", which means that there is no problem.
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
	require.NoError(t, err)
	return letters
}

// waitDead waits until the list of dead letters is exactly want.
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
