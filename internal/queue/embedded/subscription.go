package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
)

// subscription is the delivery of one topic's messages to one channel. The channel has
// no buffer: a message that waits there would delay one of another group.
type subscription struct {
	b       *Broker
	t       *topic
	channel chan *message.Message
	max     int
	// inFlight is under the topic's mu.
	inFlight int
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
		abandon: make(chan struct{}),
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
		e, ok := s.next(ctx)
		if !ok {
			break
		}
		s.deliver(ctx, e)
	}
	grace := time.AfterFunc(s.b.grace, func() { close(s.abandon) })
	s.answers.Wait()
	grace.Stop()
}

// rouse wakes the subscriptions of t, so that they check whether to stop.
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

// next waits for a message and room for it. It returns false when the subscription ends.
func (s *subscription) next(ctx context.Context) (entry, bool) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for {
		if s.stopped(ctx) {
			return entry{}, false
		}
		if s.inFlight < s.max {
			e, ok, err := s.t.take(s.b.db.DB)
			if err != nil {
				s.b.log.Error("queue cannot be read", zap.String("topic", s.t.name), zap.Error(err))
			}
			if ok {
				s.inFlight++
				poke(s.b.lazy)
				return e, true
			}
		}
		s.t.wake.Wait()
	}
}

// deliver sends a message to the channel and starts a goroutine that waits for the
// answer.
func (s *subscription) deliver(ctx context.Context, e entry) {
	msg, err := e.value.decode()
	if err != nil {
		s.b.log.Error("message cannot be read and becomes a dead letter", zap.String("topic", s.t.name), zap.Error(err))
		s.answer(change{topic: s.t, from: ready, at: e.at, to: dead, value: e.value}, false)
		return
	}
	receive := queue.NewReceive(e.value.receives() + 1)
	// The message's context outlives the subscription's by the grace.
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
		s.handBack(e, e.value.receives()) // no consumer has seen it
	case <-s.b.stopping:
		cancel()
		s.handBack(e, e.value.receives())
	}
}

// await waits for the answer to a message.
func (s *subscription) await(msg *message.Message, e entry, receive *queue.Receive) {
	select {
	case <-msg.Acked():
		s.answer(change{topic: s.t, from: ready, at: e.at, to: nowhere}, false)
	case <-msg.Nacked():
		s.nack(e, receive)
	case <-s.abandon:
		select {
		case <-msg.Acked(): // the answer came at the same moment
			s.answer(change{topic: s.t, from: ready, at: e.at, to: nowhere}, false)
		case <-msg.Nacked():
			s.nack(e, receive)
		default:
			s.handBack(e, receive.Receives)
		}
	}
}

func (s *subscription) nack(e entry, receive *queue.Receive) {
	delay := receive.Delay()
	if delay == 0 {
		s.handBack(e, receive.Receives)
		return
	}
	s.answer(change{
		topic: s.t, from: ready, at: e.at, to: delayed, due: uint64(s.b.now().Add(delay).UnixNano()),
		value: e.value.withReceives(receive.Receives),
	}, true)
}

func (s *subscription) handBack(e entry, receives int) {
	s.answer(change{topic: s.t, from: ready, at: e.at, to: ready, value: e.value.withReceives(receives)}, true)
}

// answer submits the change of an answered message and frees its room.
func (s *subscription) answer(c change, urgent bool) {
	if err := s.b.submit(request{changes: []change{c}}, false, urgent); err != nil {
		s.b.log.Error("answer not written", zap.String("topic", s.t.name), zap.Error(err))
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.inFlight == s.max {
		s.t.wake.Broadcast()
	}
	s.inFlight--
}
