package sqs

import (
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
)

// await waits for the consumer's answer to a message, and then until SQS has the answer.
func (s *subscription) await(msg *message.Message, h *held) {
	select {
	case <-msg.Acked():
		s.acked(msg, h)
	case <-msg.Nacked():
		s.nacked(msg, h)
	case <-s.abandon:
		select {
		case <-msg.Acked(): // the answer was given at the same moment
			s.acked(msg, h)
		case <-msg.Nacked():
			s.nacked(msg, h)
		default:
			s.handBack(h, 0)
		}
	}
}

func (s *subscription) acked(msg *message.Message, h *held) {
	s.outage.Answered(msg, true)
	s.ack(h)
}

func (s *subscription) nacked(msg *message.Message, h *held) {
	s.outage.Answered(msg, false)
	receive := queue.ReceiveOf(msg)
	s.putOff(h, receive.Behind(), receive.Delay())
}

// ack deletes the message. It ends the message's context first, because the handler is done even if SQS is slow.
func (s *subscription) ack(h *held) {
	h.cancel()
	s.mu.Lock()
	h.answered = true
	s.mu.Unlock()
	s.answered(h, func(done func(error)) {
		s.queue.remove.add(func(err error) { s.b.copies.ended(err); done(err) }, small, h.receipt)
	}, "delete")
}

// handBack makes the message visible after delay. First it waits for the end of a running
// extension: if the extension took effect later, it would hide the message from all consumers.
func (s *subscription) handBack(h *held, delay time.Duration) {
	h.cancel()
	s.mu.Lock()
	h.answered = true
	for h.extending && s.life.Err() == nil {
		s.wake.Wait()
	}
	extending := h.extending
	s.mu.Unlock()
	if extending {
		return
	}
	change := visibility{h.receipt, seconds(min(delay, maxDelay))}
	s.answered(h, func(done func(error)) { s.queue.visibility.add(done, small, change) }, "hand back")
}

// answered sends an answer, waits for its outcome and frees the message's room. If the answer
// fails, or the drain ends before the outcome, the message is redelivered after its visibility
// timeout.
func (s *subscription) answered(h *held, send func(func(error)), what string) {
	done := make(chan error, 1)
	send(func(err error) { done <- err })
	var err error
	select {
	case err = <-done:
	case <-s.life.Done():
		return
	}
	if failed, ok := errors.AsType[*entryError](err); ok && failed.lasting() {
		// The receipt has expired: another consumer has received the message.
		s.b.opt.Log.Debug("answer came too late", zap.String("topic", s.topic), zap.String("answer", what), zap.Error(err))
	} else if err != nil {
		s.b.opt.Log.Warn("answer failed, the message is redelivered", zap.String("topic", s.topic), zap.String("answer", what), zap.Error(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.out, h)
	s.wake.Broadcast()
}
