package sqs_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
)

// The SDK's HTTP client keeps idle connections, and cannot close them. Idle connections to
// LocalStack may outlive the tests. If a test ends with messages in progress, the multiplier of
// Watermill's test kit continues to wait for a reader that has left.
func TestMain(m *testing.M) {
	besideOthers()
	const multiplier = "github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe"
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction(multiplier+".func2"),
		goleak.IgnoreAnyFunction(multiplier+".func3"))
}

// besideOthers lets more tests run at once if there is an emulator, because they mostly wait for it. A -parallel of the
// command line stays.
func besideOthers() {
	flag.Parse()
	cores := runtime.GOMAXPROCS(0)
	if os.Getenv("AWS_ENDPOINT_URL") == "" || flag.Lookup("test.parallel").Value.String() != strconv.Itoa(cores) {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(4*cores)); err != nil {
		panic(err)
	}
}

const (
	topic    = queue.TopicPosts
	mainName = "test-posts"
	deadName = "test-posts-dlq"
)

// These are the operations of SQS.
const (
	opSend    = "SendMessageBatch"
	opReceive = "ReceiveMessage"
	opDelete  = "DeleteMessageBatch"
	opChange  = "ChangeMessageVisibilityBatch"
)

// These values of the visibility timeout and the poll are easy to calculate with.
const (
	visibility = 30 * time.Second
	pollWait   = 5 * time.Second
)

// bubble is a test in virtual time with a broker on a fake SQS.
type bubble struct {
	*testing.T
	sqs    *sqstest.Server
	broker *sqs.Broker
	// logged has the broker's warnings and errors.
	logged *observer.ObservedLogs
	began  time.Time
	// poll is the wait of its brokers' polls.
	poll time.Duration
}

// inBubble runs test in virtual time, on an SQS with a latency.
func inBubble(t *testing.T, latency time.Duration, test func(t *bubble)) {
	t.Helper()
	polling(t, latency, pollWait, test)
}

// forDays runs test in virtual time with the longest polls of SQS, because a day has 17,280 polls of pollWait.
func forDays(t *testing.T, test func(t *bubble)) {
	t.Helper()
	polling(t, 0, 20*time.Second, test)
}

func polling(t *testing.T, latency, poll time.Duration, test func(t *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, sqs: sqstest.New(latency), began: time.Now(), poll: poll}
		b.broker = b.open()
		test(b)
	})
}

// open returns another broker on the same SQS.
func (t *bubble) open() *sqs.Broker {
	core, logged := observer.New(zap.WarnLevel)
	t.logged = logged
	b := sqs.New(sqstest.Client(t.sqs), sqs.Options{Prefix: "test", Visibility: visibility, PollWait: t.poll, Log: zap.New(core)})
	closeAfter(t.T, b)
	return b
}

func closeAfter(t *testing.T, b *sqs.Broker) {
	t.Helper()
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
}

func msgs(n int) []*message.Message {
	out := make([]*message.Message, n)
	for i := range out {
		out[i] = message.NewMessage(fmt.Sprint("id-", i), []byte("x"))
	}
	return out
}

func (t *bubble) publish(msgs ...*message.Message) {
	t.Helper()
	require.NoError(t, t.broker.Publish(topic, msgs...))
}

// subscribe returns a subscription that ends with the test, or earlier when stop is called.
func (t *bubble) subscribe() (in <-chan *message.Message, stop context.CancelFunc) {
	t.Helper()
	return t.subscribeTo(t.broker)
}

func (t *bubble) subscribeTo(b *sqs.Broker) (in <-chan *message.Message, stop context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, err := b.Subscribe(ctx, topic)
	require.NoError(t, err)
	return in, cancel
}

// hold publishes n messages and receives them, but does not answer them.
func (t *bubble) hold(n int) (held []*message.Message, in <-chan *message.Message, stop context.CancelFunc) {
	t.Helper()
	t.publish(msgs(n)...)
	in, stop = t.subscribe()
	for range n {
		held = append(held, <-in)
	}
	return held, in, stop
}

// collect acks messages until it has received n different messages.
func (t *bubble) collect(in <-chan *message.Message, n int) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < n {
		select {
		case msg := <-in:
			seen[msg.UUID] = true
			msg.Ack()
		case <-time.After(time.Hour):
			t.Fatalf("%d of %d messages came within an hour", len(seen), n)
		}
	}
}

// pass waits in virtual time.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// wantLeft waits ten seconds, in which the broker deletes messages. Then it fails unless n messages
// are in the queue.
func (t *bubble) wantLeft(n int) {
	t.Helper()
	pass(10 * time.Second)
	assert.Equal(t, n, t.sqs.Len(mainName), "messages left")
}

// wantHeld fails unless all messages have been held since their first receive, and the contexts of their
// handlers have not ended.
func (t *bubble) wantHeld(held []*message.Message) {
	t.Helper()
	for _, msg := range held {
		if queue.ReceiveOf(msg).Receives != 1 || msg.Context().Err() != nil {
			t.Errorf("message %s was lost", msg.UUID)
		}
	}
}

// wantNoMore fails if the channel has a message.
func (t *bubble) wantNoMore(in <-chan *message.Message) {
	t.Helper()
	select {
	case msg := <-in:
		t.Errorf("message %s came, with receive count %d", msg.UUID, queue.ReceiveOf(msg).Receives)
	default:
	}
}

// wantRequests fails unless an operation had this number of requests.
func (t *bubble) wantRequests(op string, n int, why string) {
	t.Helper()
	got := t.sqs.Requests()[op]
	assert.Equalf(t, n, got, "%d requests %s, want %d: %s", got, op, n, why)
}

// failing returns a fault for entries of a batch. SQS may accept a later try of these entries.
func failing(ids ...string) sqstest.Fault {
	entries := map[string]sqstest.EntryFault{}
	for i, id := range ids {
		entries[id] = sqstest.EntryFault{Code: "InternalError"}
		if i%2 == 1 {
			entries[id] = sqstest.EntryFault{Code: "RequestThrottled", Sender: true}
		}
	}
	return sqstest.Fault{Entries: entries}
}

// omitting returns a fault that omits entry 3 from the reply. The entry has no effect.
func omitting() sqstest.Fault {
	return sqstest.Fault{Entries: map[string]sqstest.EntryFault{"3": {}}}
}
