package likeagg

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// run is the state of one Run.
type run struct {
	cfg  Config
	pool *pool
	// wake tells the collector that there is room again.
	wake chan struct{}

	mu sync.Mutex
	// held counts the messages in hand.
	held int
	// posts are those with an open or a running window.
	posts map[string]*post
	// open are the windows in the order in which they close by time.
	open []opening
	// idle is closed when nothing is in hand after the stop.
	idle     chan struct{}
	stopping bool
	// inc is the incarnation of the next window, "" before the first and after
	// one that ended with an unflushed window; seq is its last flush.
	inc    string
	incDay int64
	seq    int64
}

// post is a post with messages in hand. Its open window collects while a former one
// may still run; it starts when it is closed and the former one ended.
type post struct {
	id      string
	running bool
	// The open window: actions in order of arrival, one a user.
	actions []*action
	byUser  map[string]*action
	count   int
	opened  time.Time
	closed  bool
}

// opening is a window to close in time. One that closed by count stays in the list,
// and is not p's open window any more when its turn comes.
type opening struct {
	post *post
	at   time.Time
}

// action is a user's newest action in a window, with all messages that it settles:
// what the older ones asked for is no longer wanted.
type action struct {
	user, version string
	liked         bool
	messages      []*message.Message
	// receives is the highest receive count of the messages.
	receives int

	// stamped is the like as stored, nil if nothing had to be written; err says
	// why the action was not applied.
	stamped *schema.Like
	err     error
}

func newRun(cfg Config) *run {
	return &run{
		cfg: cfg, pool: newPool(), wake: make(chan struct{}, 1),
		posts: make(map[string]*post), idle: make(chan struct{}),
	}
}

// collect takes messages until ctx is cancelled or in is closed, and closes windows
// in time.
func (r *run) collect(ctx, working context.Context, in <-chan *message.Message) {
	timer := time.NewTimer(r.cfg.Window)
	defer timer.Stop()
	var armed time.Time
	for ctx.Err() == nil {
		due, full := r.closeDue(working)
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
		case <-r.wake:
		case <-timer.C:
			armed = time.Time{}
		case msg, more := <-from:
			if !more {
				return
			}
			r.take(working, msg)
		}
	}
}

// closeDue closes the windows whose time has come, or all of them when no more
// messages may be taken. It returns when the next one is due, zero for none, and
// whether there is no more room.
func (r *run) closeDue(working context.Context) (due time.Time, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	full = r.held >= r.cfg.MaxMessages
	for len(r.open) > 0 {
		o := r.open[0]
		if stale := o.post.closed || o.post.count == 0 || !o.post.opened.Equal(o.at); !stale {
			if due := o.at.Add(r.cfg.Window); !full && due.After(now) {
				return due, full
			}
			o.post.closed = true
			r.start(working, o.post)
		}
		r.open = r.open[1:]
	}
	return time.Time{}, full
}

// take puts a message into its post's window, or to the dead letters.
func (r *run) take(working context.Context, msg *message.Message) {
	like, liked, err := decode(msg, r.cfg.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held++
	if err != nil {
		r.pool.run(1, func(int) { r.settle(working, []*message.Message{msg}, err) }, nil)
		return
	}
	p := r.posts[like.PostID]
	if p == nil {
		p = &post{id: like.PostID}
		r.posts[p.id] = p
	}
	if p.count == 0 {
		p.opened, p.byUser = time.Now(), make(map[string]*action)
		r.open = append(r.open, opening{p, p.opened})
	}
	p.count++
	a := p.byUser[like.UserID]
	if a == nil {
		a = &action{user: like.UserID}
		p.byUser[a.user] = a
		p.actions = append(p.actions, a)
	}
	if like.EventID > a.version {
		a.version, a.liked = like.EventID, liked
	}
	a.messages = append(a.messages, msg)
	a.receives = max(a.receives, queue.ReceiveOf(msg).Receives)
	if p.count >= max(1, r.cfg.MaxMessages/2) {
		p.closed = true
		r.start(working, p)
	}
}

// decode returns the like that msg carries. Every error is permanent.
func decode(msg *message.Message, now time.Time) (like *messages.Like, liked bool, err error) {
	event, err := messages.Decode(msg.Payload)
	if err != nil {
		return nil, false, err
	}
	if err := messages.CheckAge(event, now); err != nil {
		return nil, false, err
	}
	switch e := event.(type) {
	case *messages.Liked:
		return &e.Like, true, nil
	case *messages.Unliked:
		return &e.Like, false, nil
	}
	return nil, false, &messages.PermanentError{Reason: fmt.Sprintf("a %s in the queue of likes", event.Kind())}
}

// stop closes all windows. The channel is closed when nothing is in hand.
func (r *run) stop(working context.Context) (idle <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
	for _, o := range r.open {
		o.post.closed = true
		r.start(working, o.post)
	}
	r.open = nil
	if r.held == 0 {
		close(r.idle)
	}
	return r.idle
}

// start runs p's window if it is closed and no former one runs. The caller holds mu.
func (r *run) start(working context.Context, p *post) {
	if !p.closed || p.count == 0 || p.running {
		return
	}
	w := &window{
		run: r, post: p, actions: p.actions, count: p.count, opened: p.opened, my: r.stamp(),
	}
	p.running = true
	p.actions, p.byUser, p.count, p.closed = nil, nil, 0, false
	r.pool.run(1, func(int) { w.begin(working) }, nil)
}

// ended is told when p's window has ended and its messages were answered.
func (r *run) ended(working context.Context, p *post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.running = false
	if p.count == 0 {
		delete(r.posts, p.id)
		return
	}
	r.start(working, p)
}

// answered is told that n messages left the hand.
func (r *run) answered(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
	if r.stopping && r.held == 0 {
		close(r.idle)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
