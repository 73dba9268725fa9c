// Package queue is the transport port: Watermill's Publisher and Subscriber, the topics,
// and the services that a backend adds (group keys, receive counts, delays, dead letters,
// depth). It also has the code that all consumers share: the subscription with its stop
// (session.go), the loop that handles events (consume.go), and the rule which errors are
// transient (errors.go). It must never know the meaning of an event, or a table.
//
// # Contract of every backend
//
//   - Publish returns nil only when all its messages are durable (I5). After an error
//     some of them may have been published.
//   - Each message is delivered at least once. There is no order. A message without an
//     answer is redelivered after its visibility timeout. While a consumer holds the
//     message, the backend extends the timeout.
//   - Ack removes a message soon, in the background. If the removal fails, the acked
//     message may be redelivered.
//   - Nack returns a message to the queue after a delay: the delay set by
//     Receive.RetryAfter, else Backoff of its receive count.
//   - A message waits for messages with the same group key, and not for messages of other
//     groups (I8). The group key orders nothing.
//   - A backend in the process of the publisher may deliver the published event with its
//     message, so that nothing is decoded. Neither side changes the event.
//   - At most MaxInFlight messages of a subscription are unanswered (I9). While the messages of
//     most groups fail, the subscription receives few messages (Outage).
//   - Close stops receiving, waits for unanswered messages as long as the grace, returns
//     the remaining messages to the queue with delay 0, then closes the channel.
//   - A dead letter is stored with its reason for 14 days, unless an operator redrives or
//     drops it earlier (I6).
package queue

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
)

// The topics. A backend adds its own prefix to their names.
const (
	// TopicPosts carries PostCreated.
	TopicPosts = "posts"
	// TopicBackfills carries Followed, Unfollowed, PostDeleted, UserForgotten, ProfileChanged,
	// MarkWalk, Seen and Returned. Each follower is a group of its own, so on the topic of posts
	// a crowd that follows one author would delay every post (I8).
	TopicBackfills = "backfills"
	// TopicChunks carries FanoutPlan and FanoutChunk. Chunks have their own topic so that
	// no ordinary post waits for the chunks of a celebrity (I8).
	TopicChunks = "chunks"
	// TopicLikes carries Liked and Unliked.
	TopicLikes = "likes"
	// TopicNotices carries LikeCounted, Followed, Commented and Mentioned. Its group key is the
	// recipient of the notification.
	TopicNotices = "notices"
)

// Topics returns the names of all topics.
func Topics() []string {
	return []string{TopicPosts, TopicBackfills, TopicChunks, TopicLikes, TopicNotices}
}

// Metadata keys that backends know.
const (
	// MetaGroup is the group key of a message.
	MetaGroup = "group"
	// MetaReason is the reason of a dead letter.
	MetaReason = "reason"
	// MetaSource is the topic from which a dead letter came.
	MetaSource = "source"
	// MetaFailedAt is the time at which a message became a dead letter (RFC 3339).
	MetaFailedAt = "failed_at"
	// MetaReceives is the number of receives of a message before it became a dead
	// letter.
	MetaReceives = "receives"
	// MetaWait is only for the transport, which keeps its notes about a waiting message in it. No
	// publisher may set it, and no consumer sees it.
	MetaWait = "fanfare_wait"
)

// Limits.
const (
	// MaxMessageBytes bounds payload and metadata together. It is SQS's limit of
	// 1 MiB, less room for the metadata that a dead letter adds.
	MaxMessageBytes = 1<<20 - 4096
	// MaxMetadata is the largest number of metadata entries. SQS takes ten attributes,
	// and Watermill's message id uses one.
	MaxMetadata = 9
)

// Broker is a backend as a process uses it.
type Broker interface {
	message.Publisher
	message.Subscriber
	DeadLetters
	// Depth counts the messages of a topic. On SQS the counts are approximate.
	Depth(ctx context.Context, topic string) (Depth, error)
}

// Depth has the numbers of messages of a topic, by state.
type Depth struct {
	// Ready messages may be received now, Delayed messages later. InFlight messages were
	// received and are unanswered.
	Ready, Delayed, InFlight int64
	// Dead is the number of dead letters.
	Dead int64
}

// DeadLetters stores messages that can never be processed, and redrives them (I6).
type DeadLetters interface {
	// DeadLetter stores a copy of msg, received from topic, durably with the reason. The
	// caller acks msg afterwards, or nacks msg on an error.
	DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error

	// ListDead returns up to limit dead letters of topic. The oldest comes first if
	// the backend keeps an order. It removes nothing.
	ListDead(ctx context.Context, topic string, limit int) ([]DeadLetter, error)

	// Redrive publishes dead letters again and removes them: the letters in ids, or all
	// letters if ids is empty. If refuse is not nil and returns an error for a letter,
	// that letter stays. Redrive returns how many letters it sent and how many were
	// refused. A letter with ErrNotMeant counts as neither, and ErrEnough ends the call.
	Redrive(ctx context.Context, topic string, ids []string, refuse func(DeadLetter) error) (sent, refused int, err error)

	// DropDead removes dead letters for good. It selects them as Redrive does.
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

// Receive is one receive of a message. The context of the message carries it; ReceiveOf
// returns it.
type Receive struct {
	// Receives is how often the message was received, including this time. A receive counts
	// even if the message was returned unprocessed, but not if it ended with a long Later.
	Receives int
	// Original is the published event, if the backend has more than its payload.
	Original Original
	// at is the time of the receive.
	at time.Time
	// due is the time from which the age of the message counts, zero if it is unknown.
	due time.Time
	// retryAfter is the delay after a Nack. A negative value stands for
	// Backoff(Receives).
	retryAfter time.Duration
	// group is the group of the event, once it is known.
	group string
	// failed means that the Nack is for failed work, left that it is for a long Later.
	failed, left bool
}

// LongWait is the longest wait after which a receive that was left for later counts: SQS counts a
// receive with a shorter wait.
const LongWait = 10 * time.Second

// NewReceive is for backends. It returns the receive with the given number.
func NewReceive(receives int) *Receive {
	return &Receive{Receives: receives, at: time.Now(), retryAfter: -1}
}

// RetryAfter sets the delay for the next Nack, 12 hours at most.
func (r *Receive) RetryAfter(delay time.Duration) { r.retryAfter = min(max(delay, 0), 12*time.Hour) }

// Delay is for backends. It returns how long the message stays invisible after a Nack.
func (r *Receive) Delay() time.Duration {
	if r.retryAfter >= 0 {
		return r.retryAfter
	}
	return Backoff(r.Receives)
}

// Behind is for backends. It returns how many receives of the message count after a Nack.
func (r *Receive) Behind() int {
	if r.left {
		return r.Receives - 1
	}
	return r.Receives
}

// Due counts the age of the message from at, unless a later time is set already. Without a
// call, the age counts from the time of the event (Event). The age includes every wait that the
// event did not request: for a worker, for other work, and after a failure. A consumer whose
// event must not be done before a certain time calls Due at each receive. No backend stores the
// time, so redeliveries, copies and dead letters cannot lose it.
func (r *Receive) Due(at time.Time) {
	if at.After(r.due) {
		r.due = at
	}
}

// Due is Receive.Due for the message whose Handler has ctx.
func Due(ctx context.Context, at time.Time) {
	if r, ok := ctx.Value(receiveKey{}).(*Receive); ok {
		r.Due(at)
	}
}

type receiveKey struct{}

// WithReceive is for backends. It returns a context of a message that carries r.
func WithReceive(ctx context.Context, r *Receive) context.Context {
	return context.WithValue(ctx, receiveKey{}, r)
}

// ReceiveOf returns the receive that delivered msg. If msg did not come from a backend,
// it returns a first receive whose RetryAfter has no effect.
func ReceiveOf(msg *message.Message) *Receive {
	if r, ok := msg.Context().Value(receiveKey{}).(*Receive); ok {
		return r
	}
	return NewReceive(1)
}

// Backoff returns the delay after the given number of receives of a failing message: 1
// second after the first, doubled for each later one, and 5 minutes at most.
func Backoff(receives int) time.Duration {
	return backoff.Exponential{First: time.Second, Most: 5 * time.Minute}.Bound(receives)
}
