// Package sqs is the queue on Amazon SQS: a transport that batches, behind
// Watermill's Publisher and Subscriber, with watermill-aws's marshaler as the wire
// format.
//
// Everything that SQS takes in tens is sent in tens: sends, deletes, changes of
// visibility, each joined over all callers (batcher.go). Received messages are out
// many at a time, up to MaxInFlight a subscription (I9); their visibility is
// extended while they are held. Fairness by group key is the service's, through
// MessageGroupId (I8).
//
// A received batch is never left to its visibility timeout: polls are not
// cancelled, what they bring after the stop is handed back at once.
//
// Nothing that AWS does keeps a stop waiting for good: what a subscription has out
// when its drain is over is left to its visibility timeout, and requests that are
// under way when that of Close is over are cut.
//
// Every publish and answer is a request or part of one; nothing is kept in memory
// between a Publish and its return (I5).
package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"fanfare/internal/queue"
)

// Defaults of Options.
const (
	DefaultMaxInFlight = 1000
	DefaultVisibility  = time.Minute
	DefaultPollers     = 8
	DefaultPollWait    = 5 * time.Second
	DefaultRequests    = 16
)

// drainTime is how long answers may take after the last poll of a subscription that
// ends, and requests after the last subscription of a Broker that closes.
const drainTime = 4 * time.Second

// deadSuffix ends the name of a dead-letter queue.
const deadSuffix = "-dlq"

var (
	errClosed = fmt.Errorf("sqs: %w", queue.ErrClosed)
	errCut    = fmt.Errorf("sqs: a request was cut at the stop, its outcome is unknown: %w", queue.ErrClosed)
)

// Options are the settings of a Broker. Zero fields take the default.
type Options struct {
	// Prefix begins the names of the queues: prefix-topic and prefix-topic-dlq.
	Prefix string
	// Visibility is how long a message stays out whose consumer vanished, in whole
	// seconds. It is extended while a consumer holds the message.
	Visibility time.Duration
	// Pollers is how many receives of a subscription may run at the same time.
	// Only one does while the queue has little.
	Pollers int
	// PollWait is how long a receive waits for messages, in whole seconds, 20 at
	// most. The stop of a subscription takes up to that long, and four seconds
	// more when AWS does not answer.
	PollWait time.Duration
	// Requests is how many sends, deletes and changes of visibility of a queue may
	// run at the same time, each.
	Requests int
	// MaxInFlight bounds, by topic, the unanswered messages of each subscription.
	MaxInFlight map[string]int
	// Grace is how long a subscription that ends waits for the answers to what is
	// out, before it hands that back. Consumers that stop in two phases, as
	// queue.Consumer does, need none.
	Grace time.Duration
	// Now is the clock of dead letters, time.Now if nil.
	Now func() time.Time
	// Log receives what goes wrong in the background. Nil: nothing is logged.
	Log *zap.Logger
}

// Broker is a queue.Broker on SQS.
type Broker struct {
	client      *sqs.Client
	prefix      string
	visibility  time.Duration
	pollers     int
	pollWait    time.Duration
	requests    int
	maxInFlight map[string]int
	grace       time.Duration
	now         func() time.Time
	log         *zap.Logger

	mu     sync.Mutex
	closed bool
	lanes  map[string]*lane // by name of the queue

	stopping chan struct{}
	// life ends when Close cuts the requests that are under way, by cut.
	life context.Context //nolint:containedctx // requests outlive the calls that made them
	cut  context.CancelCauseFunc
	// subscriptions and calls are counted, so that Close outlasts them.
	subscriptions, calls sync.WaitGroup
	// redriving: one walk through dead letters at a time, or they hide letters
	// from each other.
	redriving sync.Mutex
}

var _ queue.Broker = (*Broker)(nil)

// New returns a Broker. It makes no request; Ping does. The caller closes it.
func New(client *sqs.Client, o Options) *Broker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	life, cut := context.WithCancelCause(context.Background())
	return &Broker{
		life: life, cut: cut,
		client: client, prefix: o.Prefix,
		visibility: max(defaultTo(o.Visibility, DefaultVisibility).Round(time.Second), time.Second),
		pollers:    defaultTo(o.Pollers, DefaultPollers),
		pollWait:   min(max(defaultTo(o.PollWait, DefaultPollWait).Round(time.Second), time.Second), 20*time.Second),
		requests:   defaultTo(o.Requests, DefaultRequests), maxInFlight: o.MaxInFlight, grace: o.Grace,
		now: o.Now, log: o.Log, lanes: map[string]*lane{}, stopping: make(chan struct{}),
	}
}

func defaultTo[T int | time.Duration](value, fallback T) T {
	if value <= 0 {
		return fallback
	}
	return value
}

func (b *Broker) queueName(topic string) string { return b.prefix + "-" + topic }

// begin counts one of running, until the returned func, unless the Broker is closed.
func (b *Broker) begin(running *sync.WaitGroup) (end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	running.Add(1)
	return running.Done, nil
}

// within returns ctx ending also after timeout and when Close cuts the requests.
func (b *Broker) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	unhook := context.AfterFunc(b.life, cancel)
	return ctx, func() { unhook(); cancel() }
}

// lane returns the batchers of a queue, asking SQS for its URL once.
func (b *Broker) lane(ctx context.Context, name string) (*lane, error) {
	b.mu.Lock()
	l, ok := b.lanes[name]
	b.mu.Unlock()
	if ok {
		return l, nil
	}
	asking, cancel := b.within(ctx, requestTimeout)
	defer cancel()
	out, err := b.client.GetQueueUrl(asking, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return nil, classify("find queue "+name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, ok := b.lanes[name]; ok { // another was faster
		return l, nil
	}
	l = b.newLane(aws.ToString(out.QueueUrl))
	b.lanes[name] = l
	return l, nil
}

func (b *Broker) topicLane(ctx context.Context, topic, suffix string) (*lane, error) {
	if err := queue.CheckTopic(topic); err != nil {
		return nil, err
	}
	return b.lane(ctx, b.queueName(topic)+suffix)
}

// Publish implements message.Publisher. The context of the first message bounds the
// wait; requests that are under way go on.
func (b *Broker) Publish(topic string, msgs ...*message.Message) error {
	end, err := b.begin(&b.calls)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	defer end()
	ctx := context.Background()
	if len(msgs) > 0 {
		ctx = msgs[0].Context()
	}
	if err := queue.Check(msgs...); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	l, err := b.topicLane(ctx, topic, "")
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	if err := l.sendAll(ctx, msgs); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// sendAll returns when all messages were sent, or the first error is known.
func (l *lane) sendAll(ctx context.Context, msgs []*message.Message) error {
	entries := make([]types.SendMessageBatchRequestEntry, len(msgs))
	for i, msg := range msgs {
		entry, err := marshal(msg)
		if err != nil {
			return fmt.Errorf("message %q: %w", msg.UUID, err)
		}
		entries[i] = entry
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, len(msgs))
	l.send.add(func(err error) { done <- err }, func(i int) int { return queue.Size(msgs[i]) }, entries...)
	var first error
	for range msgs {
		select {
		case err := <-done:
			first = errors.Join(first, sameOnce(first, err))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return first
}

// sameOnce leaves out an error that was told already: that of a batch comes once
// for each of its messages.
func sameOnce(have, err error) error {
	if have != nil && err != nil && have.Error() == err.Error() {
		return nil
	}
	return err
}

func marshal(msg *message.Message) (types.SendMessageBatchRequestEntry, error) {
	m, err := wsqs.DefaultMarshalerUnmarshaler{}.Marshal(msg)
	if err != nil {
		return types.SendMessageBatchRequestEntry{}, err
	}
	entry := types.SendMessageBatchRequestEntry{MessageBody: m.Body, MessageAttributes: m.MessageAttributes}
	if group := msg.Metadata.Get(queue.MetaGroup); group != "" {
		entry.MessageGroupId = aws.String(groupID(group))
	}
	return entry, nil
}

func unmarshal(m *types.Message) (*message.Message, error) {
	if a, ok := m.MessageAttributes[wsqs.UUIDAttribute]; ok && a.StringValue == nil {
		delete(m.MessageAttributes, wsqs.UUIDAttribute) // another producer's, and not a string
	}
	return wsqs.DefaultMarshalerUnmarshaler{}.Unmarshal(m)
}

// groupID returns a group key as SQS takes it, hashed if it has other characters or
// is too long.
func groupID(group string) string {
	const allowed = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	ok := len(group) <= 128
	for i := 0; ok && i < len(group); i++ {
		c := group[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(allowed, c) >= 0
	}
	if ok {
		return group
	}
	sum := sha256.Sum256([]byte(group))
	return hex.EncodeToString(sum[:])
}

// Close ends the subscriptions, hands back what they have out and waits for the
// requests that are under way; those that last longer than drainTime after the last
// subscription it cuts, and says so: their messages come again. Calls from then on
// fail with queue.ErrClosed.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stopping)
	}
	b.mu.Unlock()
	cut := time.AfterFunc(b.grace+b.pollWait+drainTime, func() { b.cut(errCut) })
	b.subscriptions.Wait()
	if cut.Stop() {
		cut.Reset(drainTime)
	}
	b.calls.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lanes {
		l.wait()
	}
	if !cut.Stop() {
		return fmt.Errorf("close: %w", errCut)
	}
	return nil
}
