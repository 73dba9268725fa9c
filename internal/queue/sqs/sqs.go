// Package sqs is the queue on Amazon SQS: a transport that batches, with Watermill's
// Publisher and Subscriber. The wire format is the format of watermill-aws's marshaler.
//
// SQS takes up to ten sends, deletes or changes of visibility in a request. So requests of each
// kind are joined over all callers (batcher.go). A subscription holds many messages at a time,
// up to MaxInFlight (I9), and extends their visibility timeout while it holds them. SQS itself
// is fair by group key, through MessageGroupId (I8). A message that waits for a long time is
// not held (wait.go).
//
// The package must never
//
//   - keep a message in memory only: Publish returns when SQS has the message (I5);
//   - leave a received batch to its visibility timeout at a stop: polls are not cancelled,
//     and messages that arrive after the stop are handed back at once;
//   - wait for AWS without end at a stop. When the drain of a subscription is over, it
//     leaves its messages to their visibility timeout. When the drain of Close is over, it
//     cuts the running requests.
package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
)

// These are the defaults of Options.
const (
	DefaultMaxInFlight = 1000
	DefaultVisibility  = time.Minute
	DefaultPollers     = 8
	DefaultPollWait    = 5 * time.Second
	DefaultRequests    = 16
	DefaultDrain       = 4 * time.Second
)

// DeadSuffix is the end of the name of a dead-letter queue.
const DeadSuffix = "-dlq"

var (
	errClosed = fmt.Errorf("sqs: %w", queue.ErrClosed)
	errCut    = fmt.Errorf("sqs: a request was cut at the stop, its outcome is unknown: %w", queue.ErrClosed)
)

// Options are the settings of a Broker. A zero field takes its default.
type Options struct {
	// Prefix is the beginning of the names of the queues: prefix-topic and prefix-topic-dlq.
	Prefix string
	// Visibility is the visibility timeout, in whole seconds. After this time, the message of a
	// consumer that disappeared is redelivered. While a consumer holds a message, the
	// subscription extends the timeout of the message.
	Visibility time.Duration
	// Pollers is the maximum number of receives of a subscription that run at the same time.
	// While the queue has few messages, only one receive runs.
	Pollers int
	// PollWait is the time for which a receive waits for messages, in whole seconds, at most
	// 20. The stop of a subscription takes up to PollWait, and Drain more if AWS does not
	// answer.
	PollWait time.Duration
	// Drain is the maximum time for which an ending subscription waits for answers after its
	// last poll, and for which Close waits for requests after the end of the last subscription.
	Drain time.Duration
	// Requests is the maximum number of sends that run at the same time for each queue. Deletes
	// have the same limit, and so do changes of visibility.
	Requests int
	// MaxInFlight bounds, by topic, the unanswered messages of each subscription.
	MaxInFlight map[string]int
	// Grace is the time for which an ending subscription waits for the answers of its consumer.
	// Then it hands the messages back. Consumers that use queue.Session have answered by then,
	// and need no grace here.
	Grace time.Duration
	// Now is the clock of dead letters and of waiting messages; time.Now if nil.
	Now func() time.Time
	// Doubt returns an error while the clock is too uncertain to decide that a message is not
	// due. nil means that there is never a doubt.
	Doubt func() error
	// Log receives the errors of background work. If it is nil, nothing is logged.
	Log *zap.Logger
}

// Broker is a queue.Broker on SQS.
type Broker struct {
	client requests
	opt    Options
	place  string // the region or endpoint of the queues, for errors

	mu     sync.Mutex
	closed bool
	queues map[string]*remoteQueue // by name

	// stopping is closed when Close begins.
	stopping chan struct{}
	// life ends when Close calls cut. The running requests end with life.
	life context.Context //nolint:containedctx // requests outlive the calls that made them
	cut  context.CancelCauseFunc
	// Close waits for the subscriptions and calls.
	subscriptions, calls sync.WaitGroup
	refusals             awsclient.Refusals
	copies               breaker

	// walking is held during a walk through dead letters, because two walks at the same time
	// would hide letters from each other.
	walking sync.Mutex
}

var _ queue.Broker = (*Broker)(nil)

// New returns a Broker. It makes no request, but Ping does. The caller has to close the Broker.
func New(client *sqs.Client, o Options) *Broker {
	o.Visibility = max(defaultTo(o.Visibility, DefaultVisibility).Round(time.Second), time.Second)
	o.Pollers = defaultTo(o.Pollers, DefaultPollers)
	o.PollWait = min(max(defaultTo(o.PollWait, DefaultPollWait).Round(time.Second), time.Second), 20*time.Second)
	o.Requests = defaultTo(o.Requests, DefaultRequests)
	o.Drain = defaultTo(o.Drain, DefaultDrain)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Doubt == nil {
		o.Doubt = func() error { return nil }
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	life, cut := context.WithCancelCause(context.Background())
	return &Broker{
		client: requestsOf(client), opt: o, place: awsclient.Place(client.Options().Region, client.Options().BaseEndpoint), queues: map[string]*remoteQueue{}, stopping: make(chan struct{}), life: life, cut: cut,
	}
}

func defaultTo[T int | time.Duration](value, fallback T) T {
	if value <= 0 {
		return fallback
	}
	return value
}

func (b *Broker) queueName(topic string) string { return b.opt.Prefix + "-" + topic }

// begin adds one to running; the caller calls end to subtract it again. begin fails if the Broker is closed.
func (b *Broker) begin(running *sync.WaitGroup) (end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	running.Add(1)
	return running.Done, nil
}

// within returns a context that also ends after timeout, or when Close cuts the requests.
func (b *Broker) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	unhook := context.AfterFunc(b.life, cancel)
	return ctx, func() { unhook(); cancel() }
}

// find returns the queue with a name. The first call for a name asks SQS for the URL.
func (b *Broker) find(ctx context.Context, name string) (*remoteQueue, error) {
	b.mu.Lock()
	q, ok := b.queues[name]
	b.mu.Unlock()
	if ok {
		return q, nil
	}
	asking, cancel := b.within(ctx, requestTimeout)
	defer cancel()
	out, err := b.client.GetQueueUrl(asking, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return nil, b.classify("find queue "+name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if q, ok := b.queues[name]; ok { // another call has found the queue
		return q, nil
	}
	q = b.newQueue(aws.ToString(out.QueueUrl))
	b.queues[name] = q
	return q, nil
}

// findTopic returns the queue of a topic, or its dead-letter queue if suffix is
// DeadSuffix.
func (b *Broker) findTopic(ctx context.Context, topic, suffix string) (*remoteQueue, error) {
	if err := queue.CheckTopic(topic); err != nil {
		return nil, err
	}
	return b.find(ctx, b.queueName(topic)+suffix)
}

// Publish implements message.Publisher. The context of the first message bounds the wait. When
// this context ends, running requests continue.
func (b *Broker) Publish(topic string, msgs ...*message.Message) error {
	return b.publish(topic, func(ctx context.Context) (*remoteQueue, error) { return b.findTopic(ctx, topic, "") }, msgs)
}

// Send publishes messages to the queue with this name, which may be outside Fanfare.
func (b *Broker) Send(name string, msgs ...*message.Message) error {
	return b.publish(name, func(ctx context.Context) (*remoteQueue, error) { return b.find(ctx, name) }, msgs)
}

// Find returns nil if SQS has a queue with this name. From then on Send can use the queue.
func (b *Broker) Find(ctx context.Context, name string) error {
	_, err := b.find(ctx, name)
	return err
}

func (b *Broker) publish(topic string, find func(context.Context) (*remoteQueue, error), msgs []*message.Message) error {
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
	q, err := find(ctx)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	if err := q.sendAll(ctx, msgs); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// sendAll returns when each message was sent or failed, or ctx has ended.
func (q *remoteQueue) sendAll(ctx context.Context, msgs []*message.Message) error {
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
	q.send.add(func(err error) { done <- err }, func(i int) int { return queue.Size(msgs[i]) }, entries...)
	var errs []error
	for range msgs {
		select {
		case err := <-done:
			// All messages of a failed batch may have the same error.
			if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func marshal(msg *message.Message) (types.SendMessageBatchRequestEntry, error) {
	m, err := wsqs.DefaultMarshalerUnmarshaler{}.Marshal(msg)
	if err != nil {
		return types.SendMessageBatchRequestEntry{}, err
	}
	entry := types.SendMessageBatchRequestEntry{MessageBody: m.Body, MessageAttributes: m.MessageAttributes}
	entry.MessageGroupId = groupOf(&types.Message{}, msg)
	return entry, nil
}

// groupOf returns the MessageGroupId of m, which a producer may have set. If m has no MessageGroupId,
// groupOf returns the id of msg's group key, nil for none.
func groupOf(m *types.Message, msg *message.Message) *string {
	if id := m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]; id != "" {
		return &id
	}
	if group := msg.Metadata.Get(queue.MetaGroup); group != "" {
		return aws.String(groupID(group))
	}
	return nil
}

// unmarshal returns the message without the attribute of copies, so that dead letters and
// redrives do not have it.
func unmarshal(m *types.Message) (*message.Message, error) {
	delete(m.MessageAttributes, queue.MetaWait)
	if a, ok := m.MessageAttributes[wsqs.UUIDAttribute]; ok && a.StringValue == nil {
		delete(m.MessageAttributes, wsqs.UUIDAttribute) // another producer set the attribute, and not as a string
	}
	return wsqs.DefaultMarshalerUnmarshaler{}.Unmarshal(m)
}

// groupID returns a group key as a MessageGroupId. It returns a hash if the key is too
// long, or has characters that SQS does not allow.
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

// Close ends the subscriptions, hands their messages back and waits for the running requests.
// If some requests last longer than Options.Drain after the end of the last subscription, Close
// cuts these requests and returns an error; their messages are redelivered. Later calls fail
// with queue.ErrClosed.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stopping)
	}
	b.mu.Unlock()
	cut := time.AfterFunc(b.opt.Grace+b.opt.PollWait+b.opt.Drain, func() { b.cut(errCut) })
	b.subscriptions.Wait()
	if cut.Stop() {
		cut.Reset(b.opt.Drain)
	}
	b.calls.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.queues {
		q.wait()
	}
	if !cut.Stop() {
		return fmt.Errorf("close: %w", errCut)
	}
	return nil
}
