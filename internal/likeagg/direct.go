package likeagg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

const (
	// directAgain bounds the actions of Direct that wait for a retry.
	directAgain = 1000
	// directTries is the maximum number of tries of an action of Direct.
	directTries = 10
	// directReceive is the receive count of an action of Direct. With this count an aggregator reads
	// a like before it writes the like, because an earlier run may have written it. The aggregator
	// also fences an unflushed like at once, because no message of that like is in a queue.
	directReceive = 2
	// directGrace is the minimum time for the note of the end of Direct's incarnation.
	directGrace = 5 * time.Second
)

// UserAction is the input of Direct: a reaction of some kind, or the end of a reaction. The User of a repost is
// messages.Reposter.
type UserAction struct {
	Post, User string
	// Kind is the reaction, "" for none.
	Kind string
	// Version is the id of the action's event.
	Version string
}

func (a UserAction) event() (messages.Event, error) {
	at, err := id.Time(a.Version)
	head := messages.Header{EventID: a.Version, Time: at}
	if repost, ok := messages.RepostBy(a.User); ok {
		return &messages.Reposted{Header: head, PostID: a.Post, RepostID: repost, Deleted: a.Kind == ""}, err
	}
	return messages.Action(messages.Like{Header: head, PostID: a.Post, UserID: a.User}, a.Kind), err
}

// Direct runs an aggregator for actions without a queue: likes from an import's files, and actions that no
// other aggregator will ever count. The function give has to call add with each action. Direct returns once
// all actions are counted. After each action Direct calls counted, if counted is not nil. It sets Broker,
// FenceAfter, AnyAge, AnyKind and Answered of cfg.
func Direct(ctx context.Context, cfg Config, counted func(), give func(ctx context.Context, add func(UserAction) error) error) error {
	q := newDirectQueue(counted)
	cfg.Grace = max(cfg.Grace, directGrace)
	cfg.Broker, cfg.Answered, cfg.FenceAfter, cfg.AnyAge, cfg.AnyKind, cfg.stay = q, q.answered, directReceive, true, true, true
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() {
		defer stop()
		ended <- New(cfg).Run(running)
	})
	err := give(running, func(a UserAction) error { return q.add(running, a) })
	if err == nil {
		err = q.settle(running, 0)
	}
	stop()
	run.Wait()
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}

// directQueue gives actions to an aggregator, in memory. If the process dies, the actions are
// lost, so the caller has to find the actions again.
type directQueue struct {
	out chan *message.Message
	// wake gets a value when an action was answered.
	wake    chan struct{}
	counted func()

	// sending is held while a message is sent on out, and while out is closed.
	sending sync.Mutex
	closed  bool

	mu sync.Mutex
	// sent has the uncounted actions, by the id of the message.
	sent  map[string]*sentAction
	again []*sentAction
	given int
	fail  error
}

type sentAction struct {
	id       string
	payload  []byte
	receives int
	// due is the time of the next try.
	due time.Time
}

func newDirectQueue(counted func()) *directQueue {
	return &directQueue{out: make(chan *message.Message), wake: make(chan struct{}, 1), counted: counted, sent: map[string]*sentAction{}}
}

// Subscribe implements message.Subscriber, for one subscription. The aggregator reads until
// the channel is closed.
func (q *directQueue) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, func() {
		q.sending.Lock()
		defer q.sending.Unlock()
		close(q.out)
		q.closed = true
	})
	return q.out, nil
}

// Close implements message.Subscriber.
func (*directQueue) Close() error { return nil }

// DeadLetter fails the call: an action that cannot be counted has no other place.
func (q *directQueue) DeadLetter(_ context.Context, _ string, _ *message.Message, reason string) error {
	q.failed(errors.New(reason))
	return nil
}

// errNoQueue is the error of the methods of queue.DeadLetters that operators of a queue call.
var errNoQueue = errors.New("actions that no queue holds have no dead letters")

// ListDead implements queue.DeadLetters.
func (*directQueue) ListDead(context.Context, string, int) ([]queue.DeadLetter, error) {
	return nil, errNoQueue
}

// Redrive implements queue.DeadLetters.
func (*directQueue) Redrive(context.Context, string, []string, func(queue.DeadLetter) error) (sent, refused int, err error) {
	return 0, 0, errNoQueue
}

// DropDead implements queue.DeadLetters.
func (*directQueue) DropDead(context.Context, string, []string) (int, error) { return 0, errNoQueue }

func (q *directQueue) failed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fail == nil {
		q.fail = err
	}
}

// answered handles the answer to a message: it counts or drops the action, or lets the action wait.
func (q *directQueue) answered(a queue.Answered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch like := q.sent[a.ID]; {
	case like == nil:
	case a.Result == queue.ResultDone:
		delete(q.sent, a.ID)
		if q.counted != nil {
			q.counted()
		}
	case like.receives >= directTries:
		if q.fail == nil {
			q.fail = fmt.Errorf("a like failed %d times: the log has the reason", directTries)
		}
	default:
		like.due = time.Now().Add(backoff.Exponential{First: 100 * time.Millisecond, Most: time.Minute}.Bound(like.receives))
		q.again = append(q.again, like)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add gives the aggregator an action.
func (q *directQueue) add(ctx context.Context, a UserAction) error {
	e, err := a.event()
	if err != nil {
		return err
	}
	payload, err := messages.Encode(e)
	if err != nil {
		return err
	}
	q.mu.Lock()
	q.given++
	like := &sentAction{id: strconv.Itoa(q.given), payload: payload, receives: directReceive}
	q.sent[like.id] = like
	q.mu.Unlock()
	if err := q.settle(ctx, directAgain); err != nil {
		return err
	}
	return q.send(ctx, like)
}

func (q *directQueue) send(ctx context.Context, like *sentAction) error {
	msg := message.NewMessageWithContext(queue.WithReceive(ctx, queue.NewReceive(like.receives)), like.id, like.payload)
	like.receives++
	q.sending.Lock()
	defer q.sending.Unlock()
	if q.closed {
		return queue.ErrClosed
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case q.out <- msg:
		return nil
	}
}

// settle gives failed likes to the aggregator again, until fewer than most likes wait. If most
// is 0, settle waits until all likes are counted.
func (q *directQueue) settle(ctx context.Context, most int) error {
	for {
		q.mu.Lock()
		fail, waiting, open := q.fail, len(q.again), len(q.sent)
		var next *sentAction
		if waiting > 0 {
			next = q.again[0]
		}
		now := time.Now()
		if next != nil && !next.due.After(now) {
			q.again = q.again[1:]
		}
		q.mu.Unlock()
		switch {
		case fail != nil:
			return fail
		case next != nil && !next.due.After(now):
			if err := q.send(ctx, next); err != nil {
				return err
			}
		case most > 0 && waiting < most, open == 0:
			return nil
		default:
			rest := time.Minute
			if next != nil {
				rest = next.due.Sub(now)
			}
			if err := q.wait(ctx, rest); err != nil {
				return err
			}
		}
	}
}

func (q *directQueue) wait(ctx context.Context, rest time.Duration) error {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.wake:
	case <-timer.C:
	}
	return nil
}
