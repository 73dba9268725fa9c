package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// subscription delivers the messages of one topic to one channel. The channel has no buffer,
// because a message that waits in the buffer would delay a message of another group.
type subscription struct {
	b       *Broker
	t       *topic
	channel chan *message.Message
	max     int
	// The topic's mu guards the fields up to alarmed. batch is the number of messages since the end
	// of the last rest. rested is the time at which that rest ended. alarmed means that a timer will
	// wake the subscription.
	inFlight, batch int
	rested          time.Time
	alarmed         bool
	outage          *queue.Outage
	// abandon is closed when the grace of a stop is over.
	abandon chan struct{}
	answers sync.WaitGroup
}

// Subscribe implements message.Subscriber. Subscriptions of one topic compete for its
// messages. The channel is closed after ctx ends or the Broker is closed.
func (b *Broker) Subscribe(ctx context.Context, name string) (<-chan *message.Message, error) {
	t, err := b.topic(name)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", name, err)
	}
	s := &subscription{
		b: b, t: t, channel: make(chan *message.Message), max: b.maxInFlight[name],
		abandon: make(chan struct{}), outage: queue.NewOutage(),
	}
	if s.max <= 0 {
		s.max = DefaultMaxInFlight
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("subscribe to %s: %w", name, errClosed)
	}
	b.subscriptions.Go(func() { s.run(ctx) })
	return s.channel, nil
}

func (s *subscription) run(ctx context.Context) {
	defer close(s.channel)
	defer context.AfterFunc(ctx, s.t.rouse)()
	for {
		batch := s.next(ctx)
		if len(batch) == 0 {
			break
		}
		if s.b.suspects.careful(s.b.now()) {
			s.b.noteOut(ctx)
		}
		for _, e := range batch {
			s.deliver(ctx, e)
		}
	}
	grace := time.AfterFunc(s.b.grace, func() { close(s.abandon) })
	s.answers.Wait()
	grace.Stop()
}

// rouse wakes the subscriptions of t, so that they check whether they may take a message or have to stop.
func (t *topic) rouse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake.Broadcast()
}

func (s *subscription) stopped(ctx context.Context) bool {
	select {
	case <-s.b.stopping:
		return true
	default:
		return ctx.Err() != nil
	}
}

// readRetry is the time until a failed read is retried.
const readRetry = time.Second

// next waits until there is a message and room for it, and returns the message. Shortly after a
// crash it returns several messages, because each batch costs a sync. It returns no message
// when the subscription ends.
func (s *subscription) next(ctx context.Context) (batch []entry) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	most := 1
	if s.b.suspects.careful(s.b.now()) {
		most = carefulBatch
	}
	for !s.stopped(ctx) {
		for len(batch) < most && s.inFlight < s.max && s.mayTake() {
			e, ok, err := s.t.take(s.b.db, s.b.suspects.admit)
			if err != nil {
				s.b.log.Error("queue cannot be read", zap.String("topic", s.t.name), zap.Error(err))
				time.AfterFunc(readRetry, s.t.rouse)
			}
			if !ok {
				break
			}
			s.inFlight++
			s.batch++
			batch = append(batch, e)
		}
		if len(batch) > 0 {
			poke(s.b.lazy)
			return batch
		}
		s.t.wake.Wait()
	}
	return nil
}

// mayTake reports whether the subscription may take another message. During an outage it may
// take queue.RestBatch messages after each rest. The caller holds the topic's mu.
func (s *subscription) mayTake() bool {
	rest := s.outage.Rest()
	if rest == 0 {
		s.batch, s.rested = queue.RestBatch, time.Now() // an outage begins with a rest
		return true
	}
	if s.batch < queue.RestBatch {
		return true
	}
	left := rest - time.Since(s.rested)
	if left <= 0 {
		s.batch, s.rested = 0, time.Now()
		return true
	}
	if !s.alarmed {
		s.alarmed = true
		time.AfterFunc(min(left, queue.RestLook), func() {
			s.t.mu.Lock()
			defer s.t.mu.Unlock()
			s.alarmed = false
			s.t.wake.Broadcast()
		})
	}
	return false
}

// deliver sends a message to the channel, and starts a goroutine that waits for the answer.
func (s *subscription) deliver(ctx context.Context, e entry) {
	msg, err := e.value.decode()
	if err != nil {
		s.b.log.Error("message cannot be read and becomes a dead letter", zap.String("topic", s.t.name), zap.Error(err))
		s.answer(e, change{to: dead, value: e.value}, false)
		return
	}
	if n := e.value.crashes(); n >= maxCrashes {
		s.b.log.Error("the process died too often while this message was out: it becomes a dead letter",
			zap.String("topic", s.t.name), zap.String("message_id", msg.UUID), zap.Int("crashes", n))
		msg.SetContext(queue.WithReceive(ctx, queue.NewReceive(e.value.receives())))
		letter := queue.NewDeadLetter(s.t.name, msg, messages.ReasonCrashed.Because("%d times while it worked on this message", n), s.b.now())
		s.answer(e, change{to: dead, value: newRecord(letter.Message(), letter.Receives)}, true)
		return
	}
	receive := queue.NewReceive(e.value.receives() + 1)
	receive.Original = e.original
	// The message's context lives longer than the subscription's context, by the grace.
	msgCtx, cancel := context.WithCancel(queue.WithReceive(context.WithoutCancel(ctx), receive))
	msg.SetContext(msgCtx)
	select {
	case s.channel <- msg:
		s.answers.Go(func() {
			defer cancel()
			s.await(msg, e, receive)
		})
	case <-ctx.Done():
		cancel()
		s.handBack(e, e.value.receives()) // no consumer has seen the message
	case <-s.b.stopping:
		cancel()
		s.handBack(e, e.value.receives())
	}
}

// await waits for the answer to a message.
func (s *subscription) await(msg *message.Message, e entry, receive *queue.Receive) {
	select {
	case <-msg.Acked():
		s.ack(msg, e)
	case <-msg.Nacked():
		s.nack(msg, e, receive)
	case <-s.abandon:
		select {
		case <-msg.Acked(): // the answer was given at the same moment
			s.ack(msg, e)
		case <-msg.Nacked():
			s.nack(msg, e, receive)
		default:
			s.handBack(e, receive.Receives)
		}
	}
}

func (s *subscription) ack(msg *message.Message, e entry) {
	s.outage.Answered(msg, true)
	s.answer(e, change{to: nowhere}, false)
}

func (s *subscription) nack(msg *message.Message, e entry, receive *queue.Receive) {
	s.outage.Answered(msg, false)
	delay := receive.Delay()
	if delay == 0 {
		s.handBack(e, receive.Receives)
		return
	}
	s.answer(e, change{
		to: delayed, due: uint64(s.b.now().Add(delay).UnixNano()), value: e.value.withReceives(receive.Behind()),
	}, true)
}

func (s *subscription) handBack(e entry, receives int) {
	s.answer(e, change{to: ready, value: e.value.withReceives(receives)}, true)
}

// answer submits the change of an answered message, and frees the message's room.
func (s *subscription) answer(e entry, c change, urgent bool) {
	c.topic, c.from, c.at = s.t, ready, e.at
	r := request{changes: []change{c}}
	suspect := suspicious(e.value)
	if suspect {
		r.done = make(chan error, 1)
	}
	if err := s.b.submit(r, false, urgent || suspect); err != nil {
		s.b.log.Error("answer not written", zap.String("topic", s.t.name), zap.Error(err))
	}
	if suspect {
		s.b.acquit(r.done)
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.inFlight == s.max {
		s.t.wake.Broadcast()
	}
	s.inFlight--
}
