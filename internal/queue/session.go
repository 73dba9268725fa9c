package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
)

// Session is one subscription with a stop in two phases.
type Session struct {
	Subscriber message.Subscriber
	Topic      string
	// Grace is the time for which work may continue after the stop before it is cancelled.
	Grace time.Duration
}

// Run subscribes and calls work once. When ctx ends, work must take no more messages, finish
// the messages that it holds, and return. After Grace the context of work ends. When work has
// returned, Run ends the subscription, and hands back to the queue the messages that work did
// not take. The error of Run is nil after a stop.
func (s Session) Run(ctx context.Context, work func(working context.Context, in <-chan *message.Message)) error {
	// The contexts of the subscription and of work do not end with ctx, because an ended
	// subscription would take back the messages that work still holds.
	subscription, unsubscribe := context.WithCancel(context.WithoutCancel(ctx))
	defer unsubscribe()
	in, err := s.Subscriber.Subscribe(subscription, s.Topic)
	if err != nil {
		return fmt.Errorf("consume %s: %w", s.Topic, err)
	}
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	var grace sync.WaitGroup
	defer grace.Wait()
	defer abandon()
	grace.Go(func() {
		defer abandon()
		select {
		case <-ctx.Done():
			_ = backoff.Wait(working, s.Grace) // the wait ends early when work has returned
		case <-working.Done():
		}
	})
	work(working, in)
	unsubscribe()
	for msg := range in {
		HandBack(msg)
	}
	if ctx.Err() == nil {
		return fmt.Errorf("consume %s: the subscription ended: %w", s.Topic, ErrClosed)
	}
	return nil
}

// HandBack nacks a message that was received but not processed, so that the message is redelivered at once.
func HandBack(msg *message.Message) {
	ReceiveOf(msg).RetryAfter(0)
	msg.Nack()
}
