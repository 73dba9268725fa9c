// Package queue is the transport port: Watermill's Publisher and Subscriber, the topics, and
// the services that a backend adds (group keys, receive counts, delays, dead letters, depth).
// It also has the code that all consumers share: the subscription with its stop (session.go),
// the loop that handles events (consume.go), and the rule that decides which errors are
// transient (errors.go). The package must never know the meaning of an event, or a table.
//
// # Contract of every backend
//
//   - Publish returns nil only when all its messages are durable (I5). After an error
//     some of the messages may have been published.
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
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
	"fanfare/messages"
)

// These are the topics. A backend adds its own prefix to their names.
const (
	TopicPosts = "posts"
	// TopicBackfills has each follower as a group of its own. On the topic of posts, many users who
	// follow one author at the same time would therefore delay every post (I8).
	TopicBackfills = "backfills"
	// TopicChunks exists so that no ordinary post waits for the chunks of a very large author (I8).
	TopicChunks = "chunks"
	TopicLikes  = "likes"
	// TopicNotices has the recipient of the notification as its group key.
	TopicNotices = "notices"
)

// kinds has the kinds of message of each topic.
//
//nolint:gochecknoglobals // a constant in all but name
var kinds = map[string][]messages.Kind{
	TopicPosts:     {"PostCreated"},
	TopicBackfills: {"Followed", "Unfollowed", "PostDeleted", "UserForgotten", "ProfileChanged", "MarkWalk", "Seen", "Returned"},
	TopicChunks:    {"FanoutPlan", "FanoutChunk"},
	TopicLikes:     {"Liked", "Reacted", "Unliked", "Reposted"},
	TopicNotices:   {"LikeCounted", "Followed", "Unfollowed", "Commented", "Mentioned", "Reposted"},
}

// Kinds returns the kinds of message that a topic carries.
func Kinds(topic string) []messages.Kind { return slices.Clone(kinds[topic]) }

// Carries reports whether a topic carries the kind of an event.
func Carries(topic string, e messages.Event) bool {
	return slices.Contains(kinds[topic], messages.KindOf(e))
}

// Topics returns the names of all topics.
func Topics() []string {
	return []string{TopicPosts, TopicBackfills, TopicChunks, TopicLikes, TopicNotices}
}

// These are the metadata keys that backends know.
const (
	// MetaGroup is the group key of a message.
	MetaGroup = "group"
	// MetaReason is the reason of a dead letter.
	MetaReason = "reason"
	// MetaSource is the topic of the message that became a dead letter.
	MetaSource = "source"
	// MetaFailedAt is the time at which a message became a dead letter (RFC 3339).
	MetaFailedAt = "failed_at"
	// MetaReceives is the number of receives of a message before it became a dead
	// letter.
	MetaReceives = "receives"
	// MetaWait is only for the transport, whose notes about a waiting message it has. No
	// publisher may set it, and no consumer sees it.
	MetaWait = "fanfare_wait"
)

// These are the limits of a message.
const (
	// MaxMessageBytes bounds payload and metadata together. It is SQS's limit of 1 MiB minus
	// the room for the metadata that a dead letter adds.
	MaxMessageBytes = 1<<20 - 4096
	// MaxMetadata is the maximum number of metadata entries. SQS takes ten attributes, and
	// Watermill's message id uses one attribute.
	MaxMetadata = 9
)

// Broker is the interface of a backend for a process.
type Broker interface {
	message.Publisher
	message.Subscriber
	DeadLetters
	// Depth counts the messages of a topic. On SQS the counts are approximate.
	Depth(ctx context.Context, topic string) (Depth, error)
}

// Depth has the numbers of messages of a topic, by state.
type Depth struct {
	// Ready is the number of messages that may be received now. Delayed is the number of
	// messages that may be received later. InFlight is the number of messages that were
	// received and are unanswered.
	Ready, Delayed, InFlight int64
	// Dead is the number of dead letters.
	Dead int64
}

// DeadLetters stores messages that can never be processed, and redrives them (I6).
type DeadLetters interface {
	// DeadLetter stores a copy of msg, which was received from topic, durably with the reason.
	// Afterwards the caller acks msg. After an error the caller nacks msg.
	DeadLetter(ctx context.Context, topic string, msg *message.Message, reason string) error

	// ListDead returns up to limit dead letters of topic, the oldest first if the backend keeps
	// an order. It removes nothing.
	ListDead(ctx context.Context, topic string, limit int) ([]DeadLetter, error)

	// Redrive publishes dead letters again and removes them: the letters in ids, or all letters
	// if ids is empty. If refuse is not nil and returns an error for a letter, that letter
	// stays. Redrive returns the number of letters that it sent, and the number of letters that
	// were refused. A letter for which refuse returns ErrNotMeant counts as neither sent nor
	// refused, and ErrEnough ends the call.
	Redrive(ctx context.Context, topic string, ids []string, refuse func(DeadLetter) error) (sent, refused int, err error)

	// DropDead removes dead letters permanently. It selects the letters as Redrive does.
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
	// Receives is the number of receives of the message, including this one. A receive counts
	// even if the message was returned unprocessed, but not if the receive ended with a long
	// Later.
	Receives int
	// Original is the published event, if the backend kept it.
	Original Original
	// at is the time of the receive.
	at time.Time
	// due is the time from which the age of the message counts, zero if it is unknown.
	due time.Time
	// retryAfter is the delay after a Nack. A negative value stands for Backoff(Receives).
	retryAfter time.Duration
	// group is the group of the event, once it is known.
	group string
	// failed means that the Nack is for failed work. left means that the Nack is for a long Later.
	failed, left bool
}

// LongWait is the longest wait after which the receive of a message that was left for later still
// counts: on SQS, a receive with such a wait is counted by SQS itself.
const LongWait = 10 * time.Second

// NewReceive is for backends. It returns a receive with this receive count.
func NewReceive(receives int) *Receive {
	return &Receive{Receives: receives, at: time.Now(), retryAfter: -1}
}

// RetryAfter sets the delay for the next Nack, at most 12 hours.
func (r *Receive) RetryAfter(delay time.Duration) { r.retryAfter = min(max(delay, 0), 12*time.Hour) }

// Delay is for backends. It returns the time for which the message stays invisible after a Nack.
func (r *Receive) Delay() time.Duration {
	if r.retryAfter >= 0 {
		return r.retryAfter
	}
	return Backoff(r.Receives)
}

// Behind is for backends. It returns the number of the message's receives that count after a Nack.
func (r *Receive) Behind() int {
	if r.left {
		return r.Receives - 1
	}
	return r.Receives
}

// Due sets the time from which the age of the message counts to at, unless a later time was
// already set. Without a call, the age counts from the time of the event (Event). The age
// includes every wait that the event did not require: for a worker, for other work, and after a
// failure. A consumer whose event must not be handled before a certain time calls Due at each
// receive. No backend stores the time, so redeliveries, copies and dead letters cannot lose it.
func (r *Receive) Due(at time.Time) {
	if at.After(r.due) {
		r.due = at
	}
}

// Due calls Receive.Due for the message whose Handler has ctx.
func Due(ctx context.Context, at time.Time) {
	if r, ok := ctx.Value(receiveKey{}).(*Receive); ok {
		r.Due(at)
	}
}

type receiveKey struct{}

// WithReceive is for backends. It returns a context for a message that carries r.
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

// Backoff returns the delay after the given number of receives of a failing message: 1 second
// after the first receive, doubled for each later receive, and at most 5 minutes.
func Backoff(receives int) time.Duration {
	return backoff.Exponential{First: time.Second, Most: 5 * time.Minute}.Bound(receives)
}
