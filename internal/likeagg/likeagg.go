// Package likeagg counts likes exactly (I3). A like costs one write, and a window costs one
// write: m likes of a post in one window cost 1 + 1/m writes each, and one more write each for
// the index of a user's likes. The package reads Liked, Unliked and Reacted, stores each user's
// latest action, and adds the change of a whole window to the post's counts of all kinds in one
// UpdateItem.
//
// # How
//
// A window holds the messages of one post unanswered, and closes by time or by their
// number. It writes each like with a stamp. The stamp is the flush that is to count the
// like: an incarnation of this aggregator, and a number. The count item keeps a ledger of
// the flushes that happened. So the stamp and the ledger show whether the state of a
// stored like was counted. A fence in the ledger turns "not yet" into "never", atomically
// with the flush. docs/LIKES.md is the whole protocol, and testdata shows it in
// scenarios. The code is collect.go (messages into windows), window.go (the life of a
// window), like.go (one like), ledger.go (fences, pruning), incarnation.go (stamps, the
// notes of ends), attempt.go (a request until its outcome is known), leaves.go (likes
// that the table has no capacity for) and direct.go (actions without a queue).
//
// # It must never
//
//   - Flush while one of the window's writes has an unknown outcome, nor leave a like for later
//     while one of its tries may have taken effect.
//   - Run two windows of one post at the same time. The ledger keeps only the highest number,
//     so a later flush would hide that an earlier flush never happened.
//   - Continue an incarnation that stamped a like and did not flush it.
//   - Answer a message before the flush that counts it is known to have happened.
//   - Drop a ledger entry of an incarnation whose clean end is not noted, nor note the end
//     while a window of it may still be flushed.
//   - Continue after a panic of its own, because its memory might be wrong. Such a panic ends
//     the process. The end of the process costs only time: the messages are redelivered and
//     counted once. A panic of the table is a failure with an unknown outcome, and ends at most
//     the window.
//
// The package keeps I3 (likes exact), I5 (a message is acked when its effect is durable), I6 (a
// message that can never be applied becomes a dead letter with its reason) and I9: it holds at
// most MaxMessages messages and has at most PutConcurrency requests in flight.
package likeagg

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Config configures an Aggregator. Store and Broker are required, all other fields have
// defaults.
type Config struct {
	Store  table.Store
	Broker interface {
		message.Subscriber
		queue.DeadLetters
	}
	// Now is the clock of ages, incarnations and as-of times; time.Now if nil. Package time measures windows.
	Now func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age.
	Clock *clock.Clock
	// Window is the time for which a post's window collects, from its first message; 1 s
	// if 0. With a longer window, likes are cheaper and counted later.
	Window time.Duration
	// MaxMessages bounds the unanswered messages; 20,000 if 0. At that number all windows
	// close, and a single window closes at half of it. The broker should allow as many
	// messages in flight.
	MaxMessages int
	// PutConcurrency bounds the requests in flight; 256 if 0.
	PutConcurrency int
	// FenceAfter is a receive count; 4 if 0. From this count on, a message that finds an
	// unflushed like fences the aggregator of that like instead of waiting for the flush.
	FenceAfter int
	// AnyAge allows actions of any age. It is for imports, whose actions come from a
	// file. An action from a queue with an age above messages.MaxAge would undo a later
	// action that has expired.
	AnyAge bool
	// stay means that no like is left for later when the table has no capacity for it, because
	// the messages are in no queue.
	stay bool
	// Kinds are the reactions besides like that messages may have. A stored reaction of another kind
	// stays counted until it is taken back. AnyKind allows all kinds.
	Kinds   []string
	AnyKind bool
	// IndexLikes puts likes into the index of a user's likes, at one more write unit a
	// like.
	IndexLikes bool
	// Random decides incarnations' names and jitter; crypto/rand if nil. The aggregator makes
	// no concurrent calls of Random.
	Random func() uint64
	// Grace is the maximum time for which windows may run after the stop. Then their messages
	// are returned to the queue.
	Grace time.Duration
	Log   *zap.Logger
	// Observe, if not nil, is called with each window that ended. The calls may be concurrent,
	// and Observe must return quickly.
	Observe func(Outcome)
	// Events, if not nil, sends an event for each user whose latest action is counted, before
	// the messages are acked. While Events fails, the messages are redelivered.
	Events func(ctx context.Context, events ...messages.Event) error
	// Taken, if not nil, is called with the id of each received message, and Answered with the
	// result of each receive. Taken and Answered have to obey the rules of Observe.
	Taken    func(id string)
	Answered func(queue.Answered)
	// Tracer, if not nil, makes a span for each window with a traced like.
	Tracer oteltrace.Tracer
}

// Outcome is the result of one window.
type Outcome struct {
	// Messages is the number of messages in the window. Applied is the number of users whose
	// actions were stored and counted.
	Messages, Applied int
	// Flushed reports whether the window wrote the count.
	Flushed bool
	// Lost reports whether the window was lost, as after a crash: another aggregator fenced the
	// window, a message grew too old during the window's writes, or the window was stopped.
	Lost bool
	// Fences is the number of other incarnations that the window fenced.
	Fences int
	// Pruned is the number of ledger entries that were dropped. LedgerBytes is the size of
	// the count item before the prune.
	Pruned, LedgerBytes int
	// Lag is the time from the window's first message to its end.
	Lag time.Duration
}

// Aggregator counts likes.
type Aggregator struct{ cfg Config }

// New returns an aggregator. Run starts it.
func New(cfg Config) *Aggregator { return &Aggregator{cfg.withDefaults()} }

func (cfg Config) withDefaults() Config {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Window <= 0 {
		cfg.Window = time.Second
	}
	if cfg.MaxMessages <= 0 {
		cfg.MaxMessages = 20_000
	}
	if cfg.PutConcurrency <= 0 {
		cfg.PutConcurrency = 256
	}
	if cfg.FenceAfter <= 0 {
		cfg.FenceAfter = 4
	}
	if cfg.Random == nil {
		cfg.Random = cryptoRandom
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return cfg
}

// checkAge returns the reason why an action of this version must not be applied now, nil for none.
func (cfg *Config) checkAge(version string) error {
	if cfg.AnyAge {
		return nil
	}
	return cfg.Clock.CheckAge("event_id", version, cfg.Now())
}

// kindWait is the time for which a reaction waits for a process that knows its kind.
const kindWait = 24 * time.Hour

// checkKind returns the reason why a reaction of a kind must not be applied now, nil for none. The
// setting may reach this process later than the sender of the message, so the message waits before it
// is refused. The count of receives is not a reason to refuse: during an outage a message may use up
// its receives before a process with the kind gets the message.
func (cfg *Config) checkKind(kind, version string, receives int) error {
	if kind == "" || kind == schema.KindLike || kind == messages.KindRepost || cfg.AnyKind || slices.Contains(cfg.Kinds, kind) {
		return nil
	}
	at, err := id.Time(version)
	if err != nil {
		return fmt.Errorf("read the time of a reaction: %w", err) // unreachable: checkAge refused it
	}
	if receives > queue.MaxAttempts && cfg.Now().Sub(at) > kindWait && cfg.Clock.Doubt() == nil {
		return messages.Permanent(messages.ReasonRefused, "kind %q is not in FANFARE_REACTIONS", kind)
	}
	return &queue.Later{After: queue.Backoff(receives), Counts: true, Reason: "its kind of reaction is not in FANFARE_REACTIONS"}
}

func cryptoRandom() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: a failure ends the process
	return binary.LittleEndian.Uint64(b[:])
}

// Run aggregates until ctx ends. Then it stops in two phases as queue.Session does: it closes
// all windows, and waits for their end for at most Grace. Run returns when all its goroutines
// have ended. Its error is nil after a stop.
func (a *Aggregator) Run(ctx context.Context) error {
	session := queue.Session{Subscriber: a.cfg.Broker, Topic: queue.TopicLikes, Grace: a.cfg.Grace}
	return session.Run(ctx, func(working context.Context, in <-chan *message.Message) {
		c := newCollector(a.cfg)
		c.pool.start()
		c.collect(ctx, working, in)
		<-c.stop(working) // once working ends, all requests and all windows end
		c.mu.Lock()
		c.leave(working)
		c.mu.Unlock()
		c.pool.stop()
	})
}
