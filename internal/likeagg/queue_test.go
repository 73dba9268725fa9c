package likeagg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
)

// broker is the transport of an aggregator.
type broker interface {
	message.Subscriber
	queue.DeadLetters
}

// fakeQueue delivers each message until it is acked.
type fakeQueue struct {
	queue.DeadLetters // only DeadLetter is called
	// cut ends the subscriptions when cut is closed.
	cut chan struct{}

	mu        sync.Mutex
	messages  []*queued
	changed   chan struct{}
	published int
	dead      []string
	// refuse is the number of dead letters that the queue refuses to store.
	refuse int
	// held is the number of unanswered messages. mostHeld is its maximum so far.
	held, mostHeld int
}

type queued struct {
	id       string
	payload  []byte
	visible  time.Time
	receives int
}

func newFakeQueue() *fakeQueue {
	return &fakeQueue{cut: make(chan struct{}), changed: make(chan struct{})}
}

func (q *fakeQueue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *fakeQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

func (q *fakeQueue) publish(payload []byte) {
	q.change(func() {
		q.published++
		q.messages = append(q.messages, &queued{fmt.Sprint(q.published), payload, time.Now(), 0})
	})
}

// hidden returns the number of messages that wait for their redelivery.
func (q *fakeQueue) hidden() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if wait := time.Until(m.visible); wait > 0 && wait < time.Hour {
			n++
		}
	}
	return n
}

// receive returns a visible message, or the time until a message may become visible.
func (q *fakeQueue) receive() (got *queued, receives int, changed <-chan struct{}, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next = time.Hour
	for _, m := range q.messages {
		wait := time.Until(m.visible)
		if wait <= 0 {
			m.receives++
			m.visible = time.Now().Add(30 * 24 * time.Hour) // the message is held until its answer
			q.held++
			q.mostHeld = max(q.mostHeld, q.held)
			return m, m.receives, nil, 0
		}
		next = min(next, wait)
	}
	return nil, 0, q.changed, next
}

func (q *fakeQueue) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if topic != queue.TopicLikes {
		return nil, fmt.Errorf("no topic %s", topic)
	}
	out := make(chan *message.Message)
	go q.deliver(ctx, out)
	return out, nil
}

func (q *fakeQueue) deliver(ctx context.Context, out chan<- *message.Message) {
	defer close(out)
	var answers sync.WaitGroup
	defer answers.Wait()
	for ctx.Err() == nil {
		pass(time.Millisecond)
		m, receives, changed, next := q.receive()
		if m == nil {
			select {
			case <-changed:
			case <-time.After(next):
			case <-q.cut:
				return
			case <-ctx.Done():
			}
			continue
		}
		msg, receive := message.NewMessage(m.id, m.payload), queue.NewReceive(receives)
		msg.SetContext(queue.WithReceive(context.Background(), receive))
		select {
		case out <- msg:
		case <-ctx.Done():
			q.change(func() { q.held--; m.visible = time.Now() })
			return
		}
		answers.Go(func() {
			select {
			case <-msg.Acked():
				q.change(func() {
					q.held--
					q.messages = slices.DeleteFunc(q.messages, func(o *queued) bool { return o == m })
				})
			case <-msg.Nacked():
				q.change(func() { q.held--; m.visible, m.receives = time.Now().Add(receive.Delay()), receive.Behind() })
			}
		})
	}
}

func (q *fakeQueue) Close() error { return nil }

func (q *fakeQueue) DeadLetter(_ context.Context, _ string, msg *message.Message, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse > 0 {
		q.refuse--
		return errors.New("planned")
	}
	q.dead = append(q.dead, msg.UUID+": "+reason)
	return nil
}
