package notify

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/invariants"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
)

// collector is the state of one Run. It takes messages into windows and gives the windows to workers.
type collector struct {
	cfg   Config
	pairs pairs
	// wake gets a value when there is room for messages again, or when a window is put
	// back to wait.
	wake chan struct{}
	// ready has the windows whose time has ended. The channel has room for all windows.
	ready chan *window

	mu sync.Mutex
	// held counts the unanswered messages.
	held int
	// open has the windows that collect. due has the same windows, ordered by their ends.
	open map[subject]*window
	due  []*window
	// slow has the window lengths of users whose writes the table refused recently. waiting has the number
	// of each user's messages in windows that collect again.
	slow    map[string]time.Duration
	waiting map[string]int
	// idle is closed after the stop, when all messages are answered.
	idle     chan struct{}
	stopping bool
}

// window has the messages about one notification from a span of time.
type window struct {
	about   subject
	actions []*action
	// began is the time of the first message. ends is the time at which the window ends.
	began, ends time.Time
	// refused counts the actions whose earlier write the table refused.
	refused int
}

func newCollector(cfg Config) *collector {
	return &collector{
		cfg: cfg, pairs: pairs{most: cfg.Mentions}, wake: make(chan struct{}, 1), ready: make(chan *window, cfg.MaxMessages),
		open: map[subject]*window{}, slow: map[string]time.Duration{}, waiting: map[string]int{}, idle: make(chan struct{}),
	}
}

// collect takes messages until ctx is cancelled or in is closed, and ends each window when its time is over.
func (c *collector) collect(ctx context.Context, in <-chan *message.Message) {
	timer := time.NewTimer(c.cfg.Window)
	defer timer.Stop()
	for ctx.Err() == nil {
		next, full := c.endDue()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		from := in
		if full {
			from = nil
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
		case msg, more := <-from:
			if !more {
				return
			}
			c.take(msg)
		}
	}
}

// endDue ends the windows whose time is over, or all windows if there is no room for more messages.
// next is the end of the next window, zero for none. full reports that there is no room.
func (c *collector) endDue() (next time.Time, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	full = c.held >= c.cfg.MaxMessages
	for len(c.due) > 0 {
		w := c.due[0]
		if w.ends.After(now) && !full {
			return w.ends, full
		}
		c.end(w)
	}
	return time.Time{}, full
}

// end gives a window that collects to the workers. The caller holds mu.
func (c *collector) end(w *window) {
	c.due = slices.DeleteFunc(c.due, func(other *window) bool { return other == w })
	delete(c.open, w.about)
	c.ready <- w
}

// take puts a message into the window of its notification, or lets a worker answer the message.
func (c *collector) take(msg *message.Message) {
	if c.cfg.Taken != nil {
		c.cfg.Taken(msg.UUID)
	}
	about, a, err := c.cfg.decode(msg)
	c.add(1)
	if err != nil || about.user == "" {
		// A worker answers the message, because the call that makes a dead letter may hang.
		c.ready <- &window{actions: []*action{{msg: msg, err: err}}}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.join(about, time.Now(), a)
}

// join adds actions to the window of their notification and returns the window. If there is no such window,
// join opens one. The caller holds mu.
func (c *collector) join(about subject, began time.Time, actions ...*action) *window {
	w := c.open[about]
	if w == nil {
		w = &window{about: about, began: began, ends: time.Now().Add(max(c.cfg.Window, c.slow[about.user]))}
		c.open[about] = w
		at, _ := slices.BinarySearchFunc(c.due, w, func(a, b *window) int {
			if a.ends.After(b.ends) {
				return 1
			}
			return -1
		})
		c.due = slices.Insert(c.due, at, w)
	}
	w.actions = append(w.actions, actions...)
	if len(w.actions) >= fullWindow {
		c.end(w)
	}
	return w
}

// work writes windows until none are left.
func (c *collector) work(ctx context.Context) {
	for w := range c.ready {
		if w.about.user == "" {
			c.answer(ctx, w.actions[0].msg, w.actions[0].err)
			continue
		}
		var result Result
		err := panics.Catch(func() (err error) {
			result, err = (&writer{&c.cfg, w, &c.pairs}).write(ctx)
			return err
		})
		if caught, ok := errors.AsType[*panics.Error](err); ok {
			c.cfg.Log.Error("a window of notices panicked", zap.Any("panic", caught.Value), zap.String("stack", caught.Stack))
		}
		if c.again(ctx, w, err) {
			continue
		}
		if err != nil {
			result = ResultAgain
		}
		for _, a := range w.actions {
			if a.err == nil {
				a.err = err
			} else {
				result = ResultAgain
			}
			c.answer(ctx, a.msg, a.err)
		}
		c.cfg.Observe(Outcome{w.about.kind, result, len(w.actions), time.Since(w.began)})
	}
}

// again reports whether a window whose write the table refused collects again, for twice as long: the
// partition of the user has no capacity, and a longer window writes less. Without this rule the messages would
// stay in the queue, and would be redelivered again and again.
func (c *collector) again(ctx context.Context, w *window, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	user := w.about.user
	c.wait(user, -w.refused)
	short, ok := errors.AsType[interface {
		error
		Throttled() bool
	}](err)
	if !ok || !short.Throttled() {
		if err == nil {
			c.quicken(user)
		}
		return false
	}
	if len(c.slow) < c.cfg.MaxMessages {
		c.slow[user] = min(2*max(c.cfg.Window, c.slow[user]), longestWindow)
	}
	collecting := 0
	if next := c.open[w.about]; next != nil {
		collecting = len(next.actions)
	}
	if c.stopping || ctx.Err() != nil || max(collecting, c.waiting[user])+len(w.actions) >= fullWindow {
		return false
	}
	for _, a := range w.actions {
		a.err, a.done = nil, false
	}
	c.join(w.about, w.began, w.actions...).refused += len(w.actions)
	c.wait(user, len(w.actions))
	c.signal()
	return true
}

// wait changes the number of a user's messages in windows that collect again. The caller
// holds mu.
func (c *collector) wait(user string, n int) {
	if c.waiting[user] += n; c.waiting[user] == 0 {
		delete(c.waiting, user)
	}
}

// quicken halves the length of a user's windows, because the table accepted a write. The caller holds mu.
func (c *collector) quicken(user string) {
	if c.slow[user] /= 2; c.slow[user] <= c.cfg.Window {
		delete(c.slow, user)
	}
}

// answer answers a message by the rules of queue.Handler.
func (c *collector) answer(ctx context.Context, msg *message.Message, err error) {
	defer c.add(-1)
	queue.Answerer{Topic: queue.TopicNotices, Dead: c.cfg.Broker, Observe: c.cfg.Answered, Log: c.cfg.Log}.
		Answer(ctx, msg, err, ctx.Err() != nil)
}

// add changes the number of held messages.
func (c *collector) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += n
	c.cfg.Held(n)
	invariants.Check(c.held >= 0 && c.held <= c.cfg.MaxMessages, "I9: %d messages are held, %d may be", c.held, c.cfg.MaxMessages)
	if c.stopping && c.held == 0 {
		close(c.idle)
	}
	if n < 0 {
		c.signal()
	}
}

func (c *collector) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stop ends all windows. The channel is closed when all messages are answered.
func (c *collector) stop() (idle <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for len(c.due) > 0 {
		c.end(c.due[0])
	}
	if c.held == 0 {
		close(c.idle)
	}
	return c.idle
}
