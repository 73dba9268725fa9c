// Package notify keeps the notifications of users: who acted lately on their posts, who mentioned
// them, and who follows them (docs/decisions/0049). The package reads events that are sent in any
// case. A notification has the newest actions and no number: readers see a stored count, so this
// package counts nothing.
//
// # How
//
// A window collects the events about one notification for a moment. Then a worker reads the
// notification, its user's mark and its post, and merges the actions by their versions (merge.go).
// The worker writes the notification on the condition that nobody has written the notification since
// the read. Then the worker acks the events.
//
// # It must never
//
//   - Ack an event before its action is in the table.
//   - Write a notification on any other condition than the revision that it read, nor later than
//     longestStep after the read: the purge of a deleted post would miss the notification.
//   - Trust an event that a comment exists or is deleted, or that a follow ended: only the table shows that.
//   - Drop an action that was taken back before five newer actions push it out.
//   - Give an action another place than its first place, nor a place at or below the user's mark.
//
// The package keeps I13 (a notification is true), I14 (unread), I5 (an event is acked when its
// effect is durable), I6 and I9: it holds at most MaxMessages events and has at most Workers
// requests in flight.
package notify

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// MaxMessages is the default of Config.MaxMessages. SQS allows 120,000 messages of a queue in
// flight: with this default, twelve processes use half of them.
const MaxMessages = 5000

const (
	// fullWindow is the number of messages at which a window ends before its time. It is also the
	// maximum number of messages that the refused writes of a user may hold: further messages are
	// redelivered later, so that no other user waits.
	fullWindow = 500
	// longestWindow bounds the windows of a user whose writes the table refuses.
	longestWindow = time.Minute
	// longestStep is the maximum time from a read to the write that depends on it.
	longestStep = time.Minute
	// unlistedTTL is the time for which an unlisted notification stays: its actions have to refuse older
	// messages, which are up to messages.MaxAge old.
	unlistedTTL = messages.MaxAge + 3*24*time.Hour
)

// MinTTL is the minimum value of Config.TTL: the actions of a notification have to refuse older messages.
const MinTTL = unlistedTTL + 24*time.Hour

// Config holds the parts and settings of a Notifier. Store, Broker and IDs are required, all other
// fields have defaults.
type Config struct {
	Store  table.Store
	Broker interface {
		message.Subscriber
		queue.DeadLetters
	}
	IDs *id.Generator
	// Now is the clock of places, ages and expiries; time.Now if nil. Package time measures windows.
	Now func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age, or to give a
	// place.
	Clock *clock.Clock
	// Window is the time for which a notification collects events, from the first event on; 2 s if 0.
	Window time.Duration
	// TTL is the time for which a notification is kept after its last change; 90 days if 0.
	TTL time.Duration
	// MaxMessages bounds the unanswered messages.
	MaxMessages int
	// Workers bounds the number of windows that are written at the same time; 16 if 0.
	Workers int
	// Mentions is the maximum number of notifications of mentions by one user at one recipient in an hour, in this
	// process; 0 is no limit.
	Mentions int
	// Grace is the maximum time for which windows may run after the stop. Then their messages
	// are returned to the queue.
	Grace time.Duration
	Log   *zap.Logger
	// Observe, if not nil, is called with each window that ended. The calls may be concurrent, and
	// Observe must return quickly. Held is called with each change of the number of unanswered messages.
	Observe func(Outcome)
	Held    func(change int)
	// Events, if not nil, sends Notified for each action that has a place, before the messages are
	// acked. While Events fails, the messages are redelivered.
	Events func(ctx context.Context, events ...messages.Event) error
	// Taken, if not nil, is called with the id of each received message, and Answered with the
	// result of each receive. Taken and Answered have to obey the rules of Observe.
	Taken    func(id string)
	Answered func(queue.Answered)
}

// Result is how a window ended.
type Result string

// The results. ResultHidden means that the notification's post is gone. ResultAgain means that at
// least some of the events are redelivered.
const (
	ResultWritten   Result = "written"
	ResultUnchanged Result = "unchanged"
	ResultHidden    Result = "hidden"
	ResultAgain     Result = "again"
)

// Outcome describes one window that ended.
type Outcome struct {
	Kind     schema.NoticeKind
	Result   Result
	Messages int
	// Lag is the time from the window's first message to its end.
	Lag time.Duration
}

func (cfg Config) withDefaults() Config {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Window <= 0 {
		cfg.Window = 2 * time.Second
	}
	if cfg.TTL <= 0 {
		cfg.TTL = 90 * 24 * time.Hour
	}
	if cfg.MaxMessages <= 0 {
		cfg.MaxMessages = MaxMessages
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 16
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Outcome) {}
	}
	if cfg.Held == nil {
		cfg.Held = func(int) {}
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return cfg
}

// Notifier writes notifications.
type Notifier struct{ cfg Config }

// New returns a notifier. Run starts it.
func New(cfg Config) *Notifier {
	cfg = cfg.withDefaults()
	cfg.Store = table.HideExpired(cfg.Store, func() time.Time { return cfg.Clock.Expired(cfg.Now()) })
	return &Notifier{cfg}
}

// Run writes notifications until ctx ends. Then it stops in two phases as queue.Session does: it
// ends all windows, and waits for them for at most Grace. Run returns when all its goroutines have
// ended. Its error is nil after a stop.
func (n *Notifier) Run(ctx context.Context) error {
	session := queue.Session{Subscriber: n.cfg.Broker, Topic: queue.TopicNotices, Grace: n.cfg.Grace}
	return session.Run(ctx, func(working context.Context, in <-chan *message.Message) {
		c := newCollector(n.cfg)
		var workers sync.WaitGroup
		for range n.cfg.Workers {
			workers.Go(func() { c.work(working) })
		}
		c.collect(ctx, in)
		<-c.stop() // once working ends, all requests and all windows end
		close(c.ready)
		workers.Wait()
	})
}
