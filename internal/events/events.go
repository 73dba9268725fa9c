// Package events sends the events of applied work to a queue that the operator names or to a log in the data directory,
// so that push, search and other services can be built outside Fanfare, and to the topic of notices. It reads the log for
// such services (Reader). The package must never decide which work has an event, delay that work for longer than SendTime,
// read a queue, or show a reader an event out of the order of the log.
//
// The order is: the effect, then the event, then the ack of the work's message
// (docs/decisions/0033-events-out.md). A crash in between repeats the event with the same id,
// and never loses the event (I6). While the queue fails, only one send at a time tries the
// queue. All other sends fail at once: their messages are redelivered, and become dead letters
// in the end.
package events

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// SendTime is the maximum time of a send.
const SendTime = 5 * time.Second

// pause is the time between two tries of a failing queue.
const pause = time.Second

// Sender sends events to one queue. Several goroutines may use a Sender.
type Sender struct {
	publish func(name string, msgs ...*message.Message) error
	name    string
	group   func(messages.Event) string
	log     *zap.Logger

	mu sync.Mutex
	// failed is the last failure, nil while the queue works. failedAt is the time of that failure.
	failed   error
	failedAt time.Time
	// trying means that one send is trying the failing queue.
	trying bool
}

// New returns a sender to the queue with this name, with the group keys of group. publish returns
// nil only when all messages are durable. The context of the first message bounds the time of
// publish.
func New(publish func(name string, msgs ...*message.Message) error, name string, group func(messages.Event) string, log *zap.Logger) *Sender {
	return &Sender{publish: publish, name: name, group: group, log: log}
}

// Send returns nil when the queue has all events. Its error is a *queue.UnsentError.
func (s *Sender) Send(ctx context.Context, events ...messages.Event) error {
	if len(events) == 0 {
		return nil
	}
	if err := s.begin(); err != nil {
		return &queue.UnsentError{Queue: s.name, Err: err}
	}
	err := s.send(ctx, events)
	s.end(ctx, err)
	if err != nil {
		return &queue.UnsentError{Queue: s.name, Err: err}
	}
	return nil
}

// begin returns the last failure, unless the queue works or another try is due.
func (s *Sender) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		return nil
	}
	if s.trying || time.Since(s.failedAt) < pause {
		return s.failed
	}
	s.trying = true
	return nil
}

func (s *Sender) send(ctx context.Context, events []messages.Event) error {
	ctx, cancel := context.WithTimeout(ctx, SendTime)
	defer cancel()
	msgs := make([]*message.Message, 0, len(events))
	for _, e := range events {
		msg, err := queue.Message(ctx, e)
		if err != nil {
			return err
		}
		msg.Metadata.Set(queue.MetaGroup, s.group(e))
		msgs = append(msgs, msg)
	}
	return s.publish(s.name, msgs...)
}

// end records the outcome of a send. If the caller cancelled the send, the outcome proves nothing about the
// queue. If the caller's time ended before the send, the send has failed, because the queue may hang.
func (s *Sender) end(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = false
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) || errors.Is(err, queue.ErrInvalid) || errors.Is(err, queue.ErrTooLarge) {
		return
	}
	if err != nil && s.failed == nil {
		s.log.Warn("events are not sent: their work is done, and its messages come again", zap.String("queue", s.name), zap.Error(err))
	}
	if err == nil && s.failed != nil {
		s.log.Info("events are sent again", zap.String("queue", s.name))
	}
	s.failed, s.failedAt = err, time.Now()
}

// Failing returns the last failure, nil while the queue works.
func (s *Sender) Failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
