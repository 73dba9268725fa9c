package likeagg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/queue"
)

// fakeQueue delivers at least once, in any order.
type fakeQueue struct {
	mu      sync.Mutex
	msgs    []*stored
	changed chan struct{}
	sent    int
	dead    []string
	// refuse makes dead letters fail, this many times.
	refuse int
	// held counts the messages that are out, most is the highest that it was.
	held, most int
}

type stored struct {
	id       string
	payload  []byte
	visible  time.Time
	receives int
}

const visibility = 20 * time.Second

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
	return len(q.msgs)
}

func (q *fakeQueue) publish(payload []byte, after time.Duration) {
	q.change(func() {
		q.sent++
		q.msgs = append(q.msgs, &stored{fmt.Sprint(q.sent), payload, time.Now().Add(after), 0})
	})
}

func (q *fakeQueue) hold(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held += n
	q.most = max(q.most, q.held)
}

func (q *fakeQueue) mostHeld() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.most
}

// receive takes a visible message, or says when to look again.
func (q *fakeQueue) receive(dice *rand.Rand, duplicate bool) (got *stored, receives int, changed <-chan struct{}, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	next = time.Hour
	var ready []*stored
	for _, m := range q.msgs {
		if !m.visible.After(now) {
			ready = append(ready, m)
		} else {
			next = min(next, m.visible.Sub(now))
		}
	}
	if len(ready) == 0 {
		return nil, 0, q.changed, next
	}
	m := ready[dice.IntN(len(ready))]
	m.receives++
	if !duplicate {
		m.visible = now.Add(visibility)
	} else {
		m.visible = now.Add(time.Duration(1 + dice.Int64N(int64(3*time.Second))))
	}
	return m, m.receives, nil, 0
}

// connection is a process's connection to the queue.
type connection struct {
	p *proc
	// broken is closed when the connection is cut.
	broken chan struct{}
}

func (c *connection) cut() { close(c.broken) }

func (c *connection) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if topic != queue.TopicLikes {
		return nil, fmt.Errorf("no topic %s", topic)
	}
	out := make(chan *message.Message)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-c.broken:
		case <-ctx.Done():
		}
	}()
	go c.deliver(ctx, out)
	return out, nil
}

func (c *connection) deliver(ctx context.Context, out chan<- *message.Message) {
	defer close(out)
	p, q := c.p, c.p.w.queue
	dice := p.w.dice("deliver " + p.name)
	var answers sync.WaitGroup
	defer answers.Wait()
	for ctx.Err() == nil {
		way := 30 * time.Millisecond
		if !p.w.faulty {
			way = 2 * time.Millisecond
		}
		p.wait(time.Duration(1 + dice.Int64N(int64(way))))
		if p.gate() != nil && p.isDead() {
			<-ctx.Done()
			return
		}
		duplicate := dice.Float64() < 0.03 && !p.w.quiet()
		if duplicate {
			p.w.fire("duplicate")
		}
		m, receives, changed, next := q.receive(dice, duplicate)
		if m == nil {
			select {
			case <-changed:
			case <-time.After(next):
			case <-p.dead:
			case <-ctx.Done():
			}
			continue
		}
		msg := message.NewMessage(m.id, m.payload)
		delivery := queue.NewReceive(receives)
		msg.SetContext(queue.WithReceive(context.Background(), delivery))
		select {
		case out <- msg:
		case <-ctx.Done():
			q.change(func() { m.visible = time.Now() })
			return
		}
		loseAck := dice.Float64() < 0.03 && !p.w.quiet()
		q.hold(1)
		answers.Go(func() {
			defer q.hold(-1)
			select {
			case <-msg.Acked():
				if loseAck || p.isDead() {
					p.w.fire("lost ack")
					return
				}
				q.change(func() { q.msgs = slices.DeleteFunc(q.msgs, func(o *stored) bool { return o == m }) })
			case <-msg.Nacked():
				if !p.isDead() {
					q.change(func() { m.visible = time.Now().Add(delivery.Delay()) })
				}
			}
		})
	}
}

func (c *connection) Close() error { return nil }

func (c *connection) DeadLetter(_ context.Context, _ string, msg *message.Message, reason string) error {
	if err := c.p.gate(); err != nil {
		return err
	}
	q := c.p.w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse > 0 {
		q.refuse--
		return errors.New("planned")
	}
	q.dead = append(q.dead, msg.UUID+": "+reason)
	return nil
}

func (c *connection) ListDead(context.Context, string, int) ([]queue.DeadLetter, error) {
	return nil, errors.ErrUnsupported
}

func (c *connection) Redrive(context.Context, string, []string, func(queue.DeadLetter) error) (int, int, error) {
	return 0, 0, errors.ErrUnsupported
}

func (c *connection) DropDead(context.Context, string, []string) (int, error) {
	return 0, errors.ErrUnsupported
}
