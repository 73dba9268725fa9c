// Package likeagg counts likes exactly (I3) at one write a like and one a post and
// window. It reads Liked and Unliked, stores each user's latest action, and adds
// what a window of actions changed to the post's count in one UpdateItem.
//
// # How
//
// Messages are held unanswered in windows, one a post, which close by time or by
// count. A window stamps each like that it writes with the flush that is to count
// it, a Flush: an incarnation of this aggregator and a number. The count item keeps
// a ledger of the flushes that happened. So whoever meets a like knows from its
// stamp and the ledger whether its state was counted; a fence in the ledger turns
// "not yet" into "never", atomically with the flush. The whole protocol is in
// docs/LIKES.md; here it is window.go (a window's life), like.go (one like) and
// ledger.go (stamps, fates, pruning).
//
// # What it must never do
//
//   - Flush while the outcome of one of the window's writes is unknown.
//   - Run two windows of one post at the same time: the ledger keeps the highest
//     number only, so a later flush would hide that an earlier one never happened.
//   - Go on with an incarnation that stamped something and did not flush it.
//   - Answer a message before the flush that counts it is known to have happened.
//   - Send anything for a window that slept into another age.
//   - Go on counting after a panic of its own: what it holds in memory might be wrong
//     by then. Such a panic ends the process, which costs nothing but time: whoever
//     receives the messages again counts them once. A panic of the table is a failure
//     of unknown outcome like others, and ends at most the window.
//
// It keeps I3 (likes exact), I5 (a message is acked when its effect is durable), I6
// (what can never be applied becomes a dead letter with its reason) and I9: at most
// MaxMessages are in hand and PutConcurrency requests are out.
package likeagg

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/internal/table"
)

// Config is what an Aggregator needs. Store and Broker are required, the rest has
// defaults.
type Config struct {
	Store  table.Store
	Broker interface {
		message.Subscriber
		queue.DeadLetters
	}
	// Now is the clock of ages, incarnations and as-of times; time.Now if nil.
	// Windows are timed by package time.
	Now func() time.Time
	// Window is how long a post's window collects, from its first message; 1 s
	// if 0. Longer is cheaper and later.
	Window time.Duration
	// MaxMessages is how many messages may be in hand; 20,000 if 0. When that
	// many are, all windows close; half of it closes one post's window. The
	// broker should let as many out.
	MaxMessages int
	// PutConcurrency is how many requests may be out; 256 if 0.
	PutConcurrency int
	// FenceAfter is the receive count from which on a message that meets an
	// unflushed like fences its aggregator instead of waiting for it; 4 if 0.
	FenceAfter int
	// IndexLikes puts likes into the index of a user's likes, at one write unit
	// more a like.
	IndexLikes bool
	// Random decides incarnations' names and jitter; crypto/rand if nil. It is
	// called by one goroutine at a time.
	Random func() uint64
	// Grace is how long windows may go on after the stop before their messages
	// are handed back.
	Grace time.Duration
	Log   *zap.Logger
	// Observe hears of each window that ended, if it is not nil. It is called on
	// several goroutines and must be quick.
	Observe func(Outcome)
}

// Outcome says what became of one window.
type Outcome struct {
	// Messages were in it; Applied users' actions were stored and counted.
	Messages, Applied int
	// Flushed tells whether it wrote the count.
	Flushed bool
	// Lost tells whether it ended without the flush that it owed: fenced by
	// another aggregator, asleep for too long, or stopped.
	Lost bool
	// Fences is how many incarnations of others it fenced.
	Fences int
	// Lag is the time from its first message to its end.
	Lag time.Duration
}

// Aggregator counts likes.
type Aggregator struct{ cfg Config }

// New returns an aggregator. Run starts it.
func New(cfg Config) *Aggregator {
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
	return &Aggregator{cfg}
}

func cryptoRandom() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return binary.LittleEndian.Uint64(b[:])
}

// Run aggregates until ctx ends, then stops in two phases as queue.Session does: it
// closes all windows and waits for them, Grace at most. It returns when everything it
// started has ended. Its error is nil after a stop.
func (a *Aggregator) Run(ctx context.Context) error {
	session := queue.Session{Subscriber: a.cfg.Broker, Topic: queue.TopicLikes, Grace: a.cfg.Grace}
	return session.Run(ctx, func(working context.Context, in <-chan *message.Message) {
		r := newRun(a.cfg)
		var workers sync.WaitGroup
		for range a.cfg.PutConcurrency {
			workers.Go(r.pool.work)
		}
		r.collect(ctx, working, in)
		<-r.stop(working) // once working ends, so does every request, and with it every window
		r.pool.stop()
		workers.Wait()
	})
}
