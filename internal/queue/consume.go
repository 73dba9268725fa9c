package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/invariants"
	"fanfare/internal/panics"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// MaxAttempts is the maximum number of failures of a message with errors that are neither
// transient nor permanent. After more failures, the message becomes a dead letter with the last
// error.
const MaxAttempts = 20

// MaxUnsent is the maximum number of redeliveries of a message whose work is done, but whose
// event cannot be sent. The redeliveries take about half a minute. Then the message becomes a
// dead letter with the error.
const MaxUnsent = 5

// Handler processes one event. Its error decides the message's next step:
//
//   - nil: the message is removed.
//   - *messages.PermanentError: the message becomes a dead letter at once, with the reason.
//   - *Later: the message is redelivered after the delay. It never becomes a dead letter
//     because of this error.
//   - *messages.EarlyError: the message is redelivered with backoff, at the latest when it is
//     due. It never becomes a dead letter because of this error.
//   - *clock.DoubtError: the message is redelivered with backoff. It never becomes a dead
//     letter because of this error.
//   - an *UnsentError: the message is redelivered with backoff. After more than MaxUnsent
//     receives it becomes a dead letter with the error, and a redrive sends the event.
//   - an error for which Transient is true: the message is redelivered with backoff.
//   - any other error: the message is redelivered with backoff. After more than MaxAttempts
//     receives it becomes a dead letter with the error.
type Handler func(ctx context.Context, e messages.Event) error

// Later is the answer of a Handler that postpones a message on purpose.
type Later struct { //nolint:errname // a handler asks for it in words: return &queue.Later{…}
	// After is the delay. A negative delay stands for Backoff's delay, which grows with the receives.
	// A receive with a delay above LongWait does not count, unless Counts is set: a message that
	// waits for hours then still has all its attempts.
	After  time.Duration
	Counts bool
	Reason string
}

func (l *Later) Error() string { return "left for later: " + l.Reason }

// Consumer reads the messages of one topic and gives each message to a Handler.
type Consumer struct {
	Topic  string
	Broker interface {
		message.Subscriber
		DeadLetters
	}
	Handle Handler
	// Workers is the number of messages that are handled at the same time.
	Workers int
	// Grace is the time for which handlers may continue after the stop. Then their context is cancelled.
	Grace time.Duration
	// Now is the clock that decides whether an event is too old. While Clock, if not nil,
	// reports a doubt, nothing is decided by age.
	Now   func() time.Time
	Clock *clock.Clock
	// Taken, if not nil, is called with the id of each message whose work begins. Observe is
	// the Observe of Answerer.
	Taken   func(id string)
	Observe func(Answered)
	Log     *zap.Logger
	// Tracer, if not nil, makes a span for each event, in the trace that the event's message carries.
	Tracer oteltrace.Tracer
}

// Run consumes until ctx ends, and then stops as Session does. It returns when all its goroutines have ended.
func (c *Consumer) Run(ctx context.Context) error {
	session := Session{Subscriber: c.Broker, Topic: c.Topic, Grace: c.Grace}
	return session.Run(ctx, func(working context.Context, in <-chan *message.Message) {
		var workers sync.WaitGroup
		for range max(1, c.Workers) {
			workers.Go(func() { c.work(ctx, working, in) })
		}
		workers.Wait()
	})
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
				HandBack(msg)
				return
			}
			c.process(working, msg)
		}
	}
}

func (c *Consumer) process(working context.Context, msg *message.Message) {
	ctx, cancel := context.WithCancel(trace.Extract(msg.Context(), msg.Metadata))
	defer cancel()
	defer context.AfterFunc(working, cancel)()

	if c.Taken != nil {
		c.Taken(msg.UUID)
	}
	err := c.handle(ctx, msg)
	Answerer{Topic: c.Topic, Dead: c.Broker, Observe: c.Observe, Log: c.Log}.Answer(ctx, msg, err, working.Err() != nil)
}

// Answerer answers messages according to the errors of their handler, as Handler describes.
// Consumer uses Answerer, and so do consumers that read a subscription themselves.
type Answerer struct {
	Topic string
	Dead  DeadLetters
	// Observe, if not nil, is called with each answer, and must return quickly.
	Observe func(Answered)
	Log     *zap.Logger
}

// Result is the kind of an answer.
type Result string

// The results. ResultAgain means that the message failed and is redelivered. ResultLater means that
// the message was left for later or is not due yet, which is not a failure. A dead letter was
// refused by its handler (ResultRefused), or failed MaxAttempts times (ResultAttempts).
const (
	ResultDone       Result = "done"
	ResultAgain      Result = "again"
	ResultLater      Result = "later"
	ResultHandedBack Result = "handed_back"
	ResultRefused    Result = "refused"
	ResultAttempts   Result = "attempts"
)

// Answered describes one receive of a message that was answered.
type Answered struct {
	Topic string
	// ID is the message's id.
	ID     string
	Result Result
	// Took is the time since the receive.
	Took time.Duration
	// Due is the time from which the age of the message counts, zero if it is unknown.
	Due time.Time
	// After is the delay of a message that is redelivered.
	After time.Duration
}

// Answer acks msg, makes msg a dead letter, or nacks msg. If stopping is true, it returns a
// failed message to the queue, whatever the error is.
func (a Answerer) Answer(ctx context.Context, msg *message.Message, err error, stopping bool) {
	result := ResultDone
	if err == nil {
		msg.Ack()
	} else {
		result = a.answerFailed(ctx, msg, err, stopping)
	}
	if a.Observe != nil {
		receive := ReceiveOf(msg)
		a.Observe(Answered{a.Topic, msg.UUID, result, time.Since(receive.at), receive.due, receive.Delay()})
	}
}

func (a Answerer) answerFailed(ctx context.Context, msg *message.Message, err error, stopping bool) Result {
	receive := ReceiveOf(msg)
	log := a.Log.With(zap.String("topic", a.Topic), zap.String("message_id", msg.UUID),
		zap.Int("receives", receive.Receives), zap.Error(err), trace.ID(trace.Extract(ctx, msg.Metadata)))
	later, isLater := errors.AsType[*Later](err)
	early, isEarly := errors.AsType[*messages.EarlyError](err)
	_, isDoubt := errors.AsType[*clock.DoubtError](err)
	permanent, isPermanent := errors.AsType[*messages.PermanentError](err)
	_, isUnsent := errors.AsType[*UnsentError](err)
	result := ResultAgain
	switch {
	case stopping:
		result = ResultHandedBack
		receive.RetryAfter(0)
		log.Info("handed back at the stop")
	case isLater:
		result = ResultLater
		if later.After >= 0 {
			receive.RetryAfter(later.After)
			receive.left = later.After > LongWait && !later.Counts
		}
		log.Debug("left for later")
	case isEarly: // another consumer's clock may be right
		result = ResultLater
		receive.RetryAfter(min(early.Wait, receive.Delay()))
		log.Warn("from ahead of the clock, the message is redelivered: set the clocks of the processes right")
	case isDoubt: // the log reports a doubt once
		log.Debug("left until the clock is right")
	case isPermanent, isUnsent && receive.Receives > MaxUnsent, receive.Receives > MaxAttempts && !Transient(err):
		reason := err.Error()
		if isPermanent {
			invariants.Check(slices.Contains(messages.Reasons(), permanent.Reason), "I6: %q is no reason of package messages", permanent.Reason)
		} else if !isUnsent {
			reason = messages.ReasonAttempts.Because("%v", err)
		}
		if dlErr := a.Dead.DeadLetter(ctx, a.Topic, msg, reason); dlErr != nil {
			receive.failed = true
			log.Error("dead letter not stored, the message is redelivered", zap.NamedError("dead_letter_error", dlErr))
			break
		}
		log.Warn("dead letter")
		msg.Ack()
		if isPermanent {
			return ResultRefused
		}
		return ResultAttempts
	default:
		receive.failed = !isUnsent
		log.Warn("failed, the message is redelivered", zap.Duration("after", receive.Delay()))
	}
	msg.Nack()
	return result
}

// handle decodes msg and runs the handler. A panic of the handler costs one attempt of one
// message, and does not end the process. If the handler itself recovers a panic of another
// goroutine, that panic is the handler's error.
func (c *Consumer) handle(ctx context.Context, msg *message.Message) error {
	err := panics.Catch(func() error {
		event, err := Event(msg)
		if err != nil {
			return err
		}
		if err := c.Clock.CheckAge("event_id", event.Head().EventID, c.Now()); err != nil {
			return err
		}
		defer checkOriginal(msg)
		if c.Tracer != nil {
			return c.traced(ctx, msg, event)
		}
		return c.Handle(ctx, event)
	})
	if p, ok := errors.AsType[*panics.Error](err); ok {
		c.Log.Error("handler panicked", zap.Any("panic", p.Value), zap.String("stack", p.Stack), trace.ID(ctx))
	}
	return err
}
