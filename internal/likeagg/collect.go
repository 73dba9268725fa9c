package likeagg

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/id"
	"fanfare/internal/invariants"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// collector is the state of one Run. It takes messages into windows and starts them.
type collector struct {
	cfg  Config
	pool *pool
	// wake gets a value when there is room for messages again.
	wake chan struct{}

	mu sync.Mutex
	// held counts the unanswered messages.
	held int
	// posts has the posts with a window that collects or runs.
	posts map[string]*postWindows
	// opened has the windows, ordered by the end of their time.
	opened []*window
	// idle is closed after the stop, when all messages are answered.
	idle     chan struct{}
	stopping bool
	// inc is the incarnation of the next window. It is nil before the first window and after a lost window.
	inc *incarnation
	// alarmed is the time of the last alarm about a large ledger.
	alarmed time.Time

	ends   ends
	leaves leaves
}

// postWindows has the windows of one post: one window may run while the next window collects.
type postWindows struct {
	running *window
	// next starts when it is closed and no other window of the post runs.
	next *window
}

// action is a user's newest action in a window. The action settles all messages of that user, because older
// actions no longer have an effect.
type action struct {
	user, version string
	// kind is the reaction, "" for none. stored is a hint that a like of the user is stored.
	kind     string
	stored   bool
	messages []*message.Message
	// receives is the highest receive count of the messages.
	receives int
	// judged is the time of the last read that proved that the action was made in the user's current life.
	judged time.Time

	// old is the stored like that the action found, and that another flush is to count. next is
	// the like to write. old and next are nil for none. stamped is the like as stored, nil if nothing
	// had to be written. err is the reason why the action was not applied.
	old, next, stamped *schema.Like
	err                error
	// left means that the messages count as left for later, because no request for them
	// had an effect.
	left bool
}

func newCollector(cfg Config) *collector {
	return &collector{
		cfg: cfg, pool: newPool(cfg.PutConcurrency), wake: make(chan struct{}, 1), posts: make(map[string]*postWindows),
		idle: make(chan struct{}),
	}
}

// collect takes messages until ctx is cancelled or in is closed, and closes each window when its time ends.
func (c *collector) collect(ctx, working context.Context, in <-chan *message.Message) {
	timer := time.NewTimer(c.cfg.Window)
	defer timer.Stop()
	var armed time.Time
	for ctx.Err() == nil {
		due, full := c.closeDue(working)
		if !due.Equal(armed) && !due.IsZero() {
			timer.Reset(time.Until(due))
			armed = due
		}
		from := in
		if full {
			from = nil
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
			armed = time.Time{}
		case msg, more := <-from:
			if !more {
				return
			}
			c.take(working, msg)
		}
	}
}

// closeDue closes the windows whose time has ended, or all windows if there is no room for more
// messages. due is the end of the next window's time, zero for none. full reports that there is
// no room.
func (c *collector) closeDue(working context.Context) (due time.Time, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	full = c.held >= c.cfg.MaxMessages
	for len(c.opened) > 0 {
		w := c.opened[0]
		if !w.closed { // a full window was closed before its time
			if due := w.openedAt.Add(c.cfg.Window); !full && due.After(now) {
				return due, full
			}
			w.closed = true
			c.start(working, w.post)
		}
		c.opened = c.opened[1:]
	}
	return time.Time{}, full
}

// take puts a message into its post's window. It settles a message that cannot be decoded.
func (c *collector) take(working context.Context, msg *message.Message) {
	if c.cfg.Taken != nil {
		c.cfg.Taken(msg.UUID)
	}
	like, kind, err := c.decode(msg)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held++
	invariants.Check(c.held <= c.cfg.MaxMessages, "I9: %d messages are held, %d may be", c.held, c.cfg.MaxMessages)
	if err != nil {
		c.pool.enqueue(nil, 1, func(int) { c.settle(working, []*message.Message{msg}, err) }, nil)
		return
	}
	p := c.posts[like.PostID]
	if p == nil {
		p = &postWindows{}
		c.posts[like.PostID] = p
	}
	if p.next == nil {
		p.next = &window{cfg: &c.cfg, collector: c, post: like.PostID, openedAt: time.Now(), byUser: make(map[string]*action)}
		c.opened = append(c.opened, p.next)
	}
	w := p.next
	w.add(like, kind, msg)
	if w.messages >= max(1, c.cfg.MaxMessages/2) {
		w.closed = true
		c.start(working, w.post)
	}
}

// add puts a message into a window that collects.
func (w *window) add(like *messages.Like, kind string, msg *message.Message) {
	w.messages++
	a := w.byUser[like.UserID]
	if a == nil {
		a = &action{user: like.UserID}
		w.byUser[a.user] = a
		w.actions = append(w.actions, a)
	}
	if like.EventID > a.version {
		a.version, a.kind = like.EventID, kind
	}
	a.stored = a.stored || like.Stored
	a.messages = append(a.messages, msg)
	a.receives = max(a.receives, queue.ReceiveOf(msg).Receives)
}

// decode returns the like that msg carries, and its kind of reaction. A retry helps only if the
// error depends on the time.
func (c *collector) decode(msg *message.Message) (like *messages.Like, kind string, err error) {
	event, err := queue.Event(msg)
	if err != nil {
		return nil, "", err
	}
	if err := c.cfg.checkAge(event.Head().EventID); err != nil {
		return nil, "", err
	}
	like, kind, ok := messages.ActionOf(event)
	if !ok {
		return nil, "", messages.Permanent(messages.ReasonWrongTopic, "%s on %s", messages.KindOf(event), queue.TopicLikes)
	}
	receive := queue.ReceiveOf(msg)
	if posted, err := id.Time(like.PostID); err == nil {
		receive.Due(posted) // a like waits for its post
	}
	return like, kind, c.cfg.checkKind(kind, like.EventID, receive.Receives)
}

// stop closes all windows. The channel is closed when all messages are answered.
func (c *collector) stop(working context.Context) (idle <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for _, w := range c.opened {
		w.closed = true
		c.start(working, w.post)
	}
	if c.held == 0 {
		close(c.idle)
	}
	return c.idle
}

// start runs the post's next window if that window is closed and no other window of the
// post runs. The caller holds mu.
func (c *collector) start(working context.Context, post string) {
	p := c.posts[post]
	if p == nil || p.next == nil || !p.next.closed || p.running != nil {
		return
	}
	w := p.next
	c.stamp(working, w)
	p.running, p.next = w, nil
	c.pool.enqueue(&w.gate, 1, func(int) { w.begin(working) }, nil)
}

// ended starts the next window of w's post. All messages of w are answered.
func (c *collector) ended(working context.Context, w *window, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left(working, w, lost)
	p := c.posts[w.post]
	invariants.Check(p != nil && p.running == w, "I3: two windows of post %s ran at the same time", w.post)
	p.running = nil
	if p.next == nil {
		delete(c.posts, w.post)
		return
	}
	c.start(working, w.post)
}

// answered subtracts n from the unanswered messages.
func (c *collector) answered(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= n
	invariants.Check(c.held >= 0, "I6: more messages were answered than taken")
	if c.stopping && c.held == 0 {
		close(c.idle)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// settle answers messages by the rules of queue.Handler.
func (c *collector) settle(ctx context.Context, msgs []*message.Message, err error) {
	defer c.answered(len(msgs))
	answerer := queue.Answerer{Topic: queue.TopicLikes, Dead: c.cfg.Broker, Observe: c.cfg.Answered, Log: c.cfg.Log}
	for _, msg := range msgs {
		answerer.Answer(ctx, msg, err, ctx.Err() != nil)
	}
}
