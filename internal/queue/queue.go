// Package queue is the transport port. Its seam is Watermill's Publisher and
// Subscriber; around them it names the topics, says what a backend adds (group
// keys, receive counts, delays, dead letters, depth) and holds the one loop that
// consumes (consume.go). It knows no event's meaning and no table.
//
// # What every backend keeps
//
//   - Publish returns nil only when all its messages are durable (I5). After an
//     error any of them may have been published.
//   - At least once, in no order. A message that was neither acked nor nacked is
//     delivered again after its visibility timeout; while its consumer holds it,
//     the backend extends the timeout.
//   - Ack removes a message, in the background and soon: one that was acked may
//     come again, if the removal failed.
//   - Nack gives it back for a delay: Receive.RetryAfter's, else Backoff of its
//     receive count.
//   - Messages with the same GroupKey wait behind each other, not behind those of
//     other groups (I8). It orders nothing.
//   - At most MaxInFlight messages of a subscription are out unanswered (I9).
//   - Close stops receiving, waits for what is out within the grace, hands the
//     rest back with delay 0, then closes the channel.
package queue

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// The topics. A backend adds its own prefix to their names.
const (
	// TopicPosts carries PostCreated and Followed.
	TopicPosts = "posts"
	// TopicChunks carries FanoutPlan and FanoutChunk, apart so that no ordinary
	// post waits behind a celebrity's chunks (I8).
	TopicChunks = "chunks"
	// TopicLikes carries Liked and Unliked.
	TopicLikes = "likes"
)

// Topics returns all topics.
func Topics() []string { return []string{TopicPosts, TopicChunks, TopicLikes} }

// Metadata keys that backends know.
const (
	// MetaGroup is the group key of a message.
	MetaGroup = "group"
	// MetaReason is, on a dead letter, why it is one.
	MetaReason = "reason"
	// MetaSource is, on a dead letter, the topic it came from.
	MetaSource = "source"
	// MetaFailedAt is, on a dead letter, when it became one (RFC 3339).
	MetaFailedAt = "failed_at"
	// MetaReceives is, on a dead letter, how often it had been received.
	MetaReceives = "receives"
)

// Limits.
const (
	// MaxMessageBytes is the largest payload and metadata together: SQS's limit of
	// 1 MiB, less room for what a dead letter adds.
	MaxMessageBytes = 1<<20 - 4096
	// MaxMetadata is the largest number of metadata entries: SQS takes ten
	// attributes, and one is Watermill's message id.
	MaxMetadata = 9
)

// ErrTooLarge is wrapped by Publish for a message over MaxMessageBytes or with more
// than MaxMetadata entries. Nothing of that call was published.
var ErrTooLarge = errors.New("message too large")

// ErrClosed is wrapped by calls on a closed Publisher or Subscriber.
var ErrClosed = errors.New("queue is closed")

// Broker is what a process needs of a backend.
type Broker interface {
	message.Publisher
	message.Subscriber
	DeadLetters
	// Depth counts the messages of a topic, approximately on SQS.
	Depth(ctx context.Context, topic string) (Depth, error)
}

// Depth counts messages.
type Depth struct {
	// Ready may be received now, Delayed later, InFlight are out unanswered.
	Ready, Delayed, InFlight int64
	// Dead is the number of dead letters.
	Dead int64
}

// DeadLetters puts away what can never be processed and gets it back (I6).
type DeadLetters interface {
	// DeadLetter stores a copy of msg, received from topic, durably with its
	// reason. The caller acks msg afterwards, and nacks it on error.
	DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error

	// ListDead returns up to limit dead letters of topic, oldest first where the
	// backend keeps an order. It removes nothing.
	ListDead(ctx context.Context, topic string, limit int) ([]DeadLetter, error)

	// Redrive publishes dead letters again and removes them: those whose ID is in
	// ids, or all if ids is empty. refuse (if not nil) may keep one where it is,
	// with the reason. It returns how many were sent and how many refused.
	Redrive(ctx context.Context, topic string, ids []string, refuse func(DeadLetter) error) (sent, refused int, err error)

	// DropDead removes dead letters as Redrive selects them, for good.
	DropDead(ctx context.Context, topic string, ids []string) (dropped int, err error)
}

// DeadLetter is one message in a dead-letter queue.
type DeadLetter struct {
	// ID is the Watermill UUID of the message.
	ID       string
	Topic    string
	Payload  []byte
	Metadata message.Metadata
	Reason   string
	FailedAt time.Time
	Receives int
}

// Receive is one receive of a message, as the backend knows it. It travels in the
// message's context; ReceiveOf returns it.
type Receive struct {
	// Receives counts the times the message was received, this one included.
	// Messages that were handed back count too.
	Receives int
	// retryAfter is what a Nack asks for; below 0: Backoff(Receives).
	retryAfter time.Duration
}

// NewReceive is for backends.
func NewReceive(receives int) *Receive { return &Receive{Receives: receives, retryAfter: -1} }

// RetryAfter sets the delay that the coming Nack asks for, at most 12 hours.
func (d *Receive) RetryAfter(delay time.Duration) { d.retryAfter = min(max(delay, 0), 12*time.Hour) }

// Delay is for backends: how long a nacked message stays invisible.
func (d *Receive) Delay() time.Duration {
	if d.retryAfter >= 0 {
		return d.retryAfter
	}
	return Backoff(d.Receives)
}

type receiveKey struct{}

// WithReceive is for backends: it returns ctx with d.
func WithReceive(ctx context.Context, d *Receive) context.Context {
	return context.WithValue(ctx, receiveKey{}, d)
}

// ReceiveOf returns what the backend knows of this receive of msg. For a message
// from elsewhere it is a first receive whose RetryAfter has no effect.
func ReceiveOf(msg *message.Message) *Receive {
	if d, ok := msg.Context().Value(receiveKey{}).(*Receive); ok {
		return d
	}
	return NewReceive(1)
}

// Backoff is the delay after a failed attempt: doubling from 1 second, 5 minutes
// at most.
func Backoff(receives int) time.Duration {
	const first, most = time.Second, 5 * time.Minute
	if receives < 1 {
		receives = 1
	}
	if receives > 10 {
		return most
	}
	return min(first<<(receives-1), most)
}
