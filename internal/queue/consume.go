package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/panics"
	"fanfare/messages"
)

// MaxAttempts is how often a message may fail in a way that is neither known to be
// transient nor permanent before it becomes a dead letter with its error.
const MaxAttempts = 20

// Handler processes one event. Its error decides what becomes of the message:
//
//   - nil: done, it is removed.
//   - *messages.PermanentError: to the dead letters at once, with the reason.
//   - *Later: not now, on purpose; it comes again after the delay and never becomes
//     a dead letter for that.
//   - an error that Consumer.Transient knows, or a cancelled context: it comes
//     again with backoff.
//   - any other: it comes again with backoff, and becomes a dead letter with the
//     error when it was received more than MaxAttempts times.
type Handler func(ctx context.Context, e messages.Event) error

// Later leaves a message for later, on purpose.
type Later struct { //nolint:errname // it reads as what a handler asks for: return &queue.Later{…}
	After  time.Duration
	Reason string
}

func (l *Later) Error() string { return fmt.Sprintf("left for %s: %s", l.After, l.Reason) }

// Consumer reads the messages of one topic and gives each to a Handler.
type Consumer struct {
	Topic  string
	Broker interface {
		message.Subscriber
		DeadLetters
	}
	Handle Handler
	// Workers is how many messages are handled at the same time.
	Workers int
	// Transient tells errors that only time mends: throttling, network.
	Transient func(error) bool
	// Grace is how long handlers may go on after the stop before their context
	// is cancelled.
	Grace time.Duration
	// Now is the clock that ages are measured on.
	Now func() time.Time
	Log *zap.Logger
}

// Run consumes until ctx is cancelled, then stops in two phases: it takes no more
// messages and waits for the handlers, Grace at most; then it gives the rest back.
// It returns when everything it started has ended. Its error is nil after a stop.
func (c *Consumer) Run(ctx context.Context) error {
	subscription, unsubscribe := context.WithCancel(context.WithoutCancel(ctx))
	defer unsubscribe()
	in, err := c.Broker.Subscribe(subscription, c.Topic)
	if err != nil {
		return fmt.Errorf("consume %s: %w", c.Topic, err)
	}
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var workers sync.WaitGroup
	for range max(1, c.Workers) {
		workers.Go(func() { c.work(ctx, working, in) })
	}
	finished := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() { workers.Wait(); close(finished) })
	defer waiter.Wait()
	select {
	case <-finished: // the subscription ended by itself
	case <-ctx.Done():
		grace := time.NewTimer(c.Grace)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
			abandon()
			<-finished
		}
	}
	unsubscribe()
	for msg := range in { // what was received and not begun goes back at once
		handBack(msg)
	}
	if ctx.Err() == nil {
		return fmt.Errorf("consume %s: the subscription ended: %w", c.Topic, ErrClosed)
	}
	return nil
}

func (c *Consumer) work(taking, working context.Context, in <-chan *message.Message) {
	for {
		select {
		case <-taking.Done():
			return
		case msg, open := <-in:
			if !open {
				return
			}
			if taking.Err() != nil {
				handBack(msg)
				return
			}
			c.process(working, msg)
		}
	}
}

func (c *Consumer) process(working context.Context, msg *message.Message) {
	ctx, cancel := context.WithCancel(msg.Context())
	defer cancel()
	defer context.AfterFunc(working, cancel)()

	err := c.handle(ctx, msg)
	Answerer{Topic: c.Topic, Dead: c.Broker, Transient: c.transient, Log: c.Log}.Answer(ctx, msg, err, working.Err() != nil)
}

// Answerer answers messages by what their handler returned: the rules of Handler,
// for Consumer and for who reads a subscription itself.
type Answerer struct {
	Topic     string
	Dead      DeadLetters
	Transient func(error) bool
	Log       *zap.Logger
}

// Answer acks msg, puts it to the dead letters, or gives it back. stopping gives back
// at once whatever failed.
func (a Answerer) Answer(ctx context.Context, msg *message.Message, err error, stopping bool) {
	if err == nil {
		msg.Ack()
		return
	}
	delivery := ReceiveOf(msg)
	log := a.Log.With(zap.String("topic", a.Topic), zap.String("message_id", msg.UUID),
		zap.Int("receives", delivery.Receives), zap.Error(err))
	later, isLater := errors.AsType[*Later](err)
	_, isPermanent := errors.AsType[*messages.PermanentError](err)
	switch {
	case stopping:
		delivery.RetryAfter(0)
		log.Info("handed back at the stop")
	case isLater:
		delivery.RetryAfter(later.After)
		log.Debug("left for later")
	case isPermanent, delivery.Receives > MaxAttempts && !a.Transient(err):
		if dlErr := a.Dead.DeadLetter(ctx, a.Topic, msg, err.Error()); dlErr != nil {
			log.Error("dead letter not stored, the message comes again", zap.NamedError("dead_letter_error", dlErr))
			break
		}
		log.Warn("dead letter")
		msg.Ack()
		return
	default:
		log.Warn("failed, the message comes again", zap.Duration("after", delivery.Delay()))
	}
	msg.Nack()
}

// handle decodes msg and runs the handler. A panic there is a defect that costs one
// message its attempt, not the process its other work; one that the handler caught
// on another goroutine comes as its error.
func (c *Consumer) handle(ctx context.Context, msg *message.Message) error {
	err := panics.Catch(func() error {
		event, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		if err := messages.CheckAge(event, c.Now()); err != nil {
			return err
		}
		return c.Handle(ctx, event)
	})
	if p, ok := errors.AsType[*panics.Error](err); ok {
		c.Log.Error("handler panicked", zap.Any("panic", p.Value), zap.String("stack", p.Stack))
	}
	return err
}

func (c *Consumer) transient(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		(c.Transient != nil && c.Transient(err))
}

func handBack(msg *message.Message) {
	ReceiveOf(msg).RetryAfter(0)
	msg.Nack()
}

// Message wraps an encoded event for Publish, with the group key it is fair by.
// ctx bounds the publish.
func Message(ctx context.Context, e messages.Event) (*message.Message, error) {
	payload, err := messages.Encode(e)
	if err != nil {
		return nil, err
	}
	msg := message.NewMessageWithContext(ctx, e.Head().EventID, payload)
	msg.Metadata.Set(MetaGroup, e.Group())
	return msg, nil
}
