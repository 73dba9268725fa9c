package transfer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
	"fanfare/messages"
)

const (
	// likesHeld bounds the likes that are not counted yet.
	likesHeld = 20_000
	// likesAgain bounds those of them that wait for another try.
	likesAgain = 1000
	// likeTries is how often a like is tried.
	likeTries = 10
	// firstReceive makes an aggregator read a like before it writes one: a run that was
	// killed may have written it.
	firstReceive = 2
)

// likeQueue gives likes to an aggregator, in memory: the likes that it has not answered when
// the process dies are in the files.
type likeQueue struct {
	out chan *message.Message
	// wake gets a value when a like was answered.
	wake    chan struct{}
	counted func()

	// sending is held while out is sent on, or closed.
	sending sync.Mutex
	closed  bool

	mu sync.Mutex
	// sent has the likes that are not counted, by the message's id.
	sent  map[string]*sentLike
	again []*sentLike
	fail  error
}

type sentLike struct {
	id       string
	payload  []byte
	receives int
	// due is the time of the next try.
	due time.Time
}

func newLikeQueue(counted func()) *likeQueue {
	return &likeQueue{out: make(chan *message.Message), wake: make(chan struct{}, 1), counted: counted, sent: map[string]*sentLike{}}
}

// Subscribe implements message.Subscriber, for one subscription. The aggregator reads until
// the channel is closed.
func (q *likeQueue) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, func() {
		q.sending.Lock()
		defer q.sending.Unlock()
		close(q.out)
		q.closed = true
	})
	return q.out, nil
}

// Close implements message.Subscriber.
func (*likeQueue) Close() error { return nil }

// DeadLetter ends the import: all likes of checked files can be counted.
func (q *likeQueue) DeadLetter(_ context.Context, _ string, _ *message.Message, reason string) error {
	q.failed(errors.New(reason))
	return nil
}

// The rest of queue.DeadLetters is for operators of a queue.
var errNoQueue = errors.New("an import has no dead letters")

// ListDead implements queue.DeadLetters.
func (*likeQueue) ListDead(context.Context, string, int) ([]queue.DeadLetter, error) {
	return nil, errNoQueue
}

// Redrive implements queue.DeadLetters.
func (*likeQueue) Redrive(context.Context, string, []string, func(queue.DeadLetter) error) (sent, refused int, err error) {
	return 0, 0, errNoQueue
}

// DropDead implements queue.DeadLetters.
func (*likeQueue) DropDead(context.Context, string, []string) (int, error) { return 0, errNoQueue }

func (q *likeQueue) failed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fail == nil {
		q.fail = err
	}
}

// answered takes the end of one receive.
func (q *likeQueue) answered(a queue.Answered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch like := q.sent[a.ID]; {
	case like == nil:
	case a.Result == queue.ResultDone:
		delete(q.sent, a.ID)
		q.counted()
	case like.receives >= likeTries:
		if q.fail == nil {
			q.fail = fmt.Errorf("a like failed %d times: the log has the reason", likeTries)
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

// add gives the aggregator a like.
func (q *likeQueue) add(ctx context.Context, number int, e *messages.Liked) error {
	payload, err := messages.Encode(e)
	if err != nil {
		return err
	}
	like := &sentLike{id: strconv.Itoa(number), payload: payload, receives: firstReceive}
	q.mu.Lock()
	q.sent[like.id] = like
	q.mu.Unlock()
	if err := q.settle(ctx, likesAgain); err != nil {
		return err
	}
	return q.send(ctx, like)
}

func (q *likeQueue) send(ctx context.Context, like *sentLike) error {
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

// settle gives likes to the aggregator again, until fewer than most of them wait for that.
// With 0 it waits until all likes are counted.
func (q *likeQueue) settle(ctx context.Context, most int) error {
	for {
		q.mu.Lock()
		fail, waiting, open := q.fail, len(q.again), len(q.sent)
		var next *sentLike
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

func (q *likeQueue) wait(ctx context.Context, rest time.Duration) error {
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

// likes counts the likes of the files, by an aggregator of its own.
func (im *importer) likes(ctx context.Context) error {
	ph := im.phase(kindLike)
	q := newLikeQueue(func() { ph.add(1) })
	aggregator := likeagg.New(likeagg.Config{
		Store: im.store, Broker: q, Now: im.cfg.Now, Clock: im.cfg.Clock, Window: im.cfg.LikeWindow, MaxMessages: likesHeld,
		PutConcurrency: im.cfg.AtOnce, FenceAfter: firstReceive, AnyAge: true, IndexLikes: im.cfg.LikesByUser,
		Grace: time.Minute, Log: im.cfg.Log, Answered: q.answered,
	})
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() {
		defer stop()
		ended <- aggregator.Run(running)
	})
	number := 0
	err := im.eachRecord(running, kindLike, func(at place, r *record) error {
		post := im.index.postID(r.PostID)
		version, err := r.version(post)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		number++
		head := messages.Header{EventID: version, Time: r.Time}
		return q.add(running, number, &messages.Liked{Like: messages.Like{Header: head, PostID: post, UserID: r.UserID}})
	})
	if err == nil {
		err = q.settle(running, 0)
	}
	stop()
	run.Wait()
	ph.finish()
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}
