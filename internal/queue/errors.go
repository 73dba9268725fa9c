package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/messages"
)

// ErrInvalid is wrapped by Publish for a topic or a message that some backend cannot carry
// unchanged. A call that returns it has published nothing.
var ErrInvalid = errors.New("invalid message")

// ErrTooLarge is wrapped by Publish for a message over MaxMessageBytes or with more than
// MaxMetadata entries. A call that returns it has published nothing.
var ErrTooLarge = errors.New("message too large")

// ErrClosed is wrapped by calls on a closed Publisher or Subscriber.
var ErrClosed = errors.New("queue is closed")

// ErrNotMeant is an answer of the function refuse of Redrive: the letter stays, and does not count as refused.
var ErrNotMeant = errors.New("this dead letter is not meant")

// ErrEnough is an answer like ErrNotMeant, for this letter and all later letters.
var ErrEnough = errors.New("enough dead letters")

// UnsentError is the answer of a handler whose work is done, but whose event for other programs
// was not sent. The message is redelivered, since the work may be repeated. But it is
// redelivered at most MaxUnsent times: a long failure of the event queue must not fill the
// queues of the work.
type UnsentError struct {
	// Queue is the name of the queue of events.
	Queue string
	Err   error
}

func (e *UnsentError) Error() string {
	return messages.ReasonUnsent.Because("mend the queue %s, then redrive: %v", e.Queue, e.Err)
}

func (e *UnsentError) Unwrap() error { return e.Err }

// GoneError means that a reader of a log of events has missed events, because they were removed before the reader read them.
type GoneError struct {
	// Resume is the position behind the removed events.
	Resume string
	// Before is the time of the newest removed event.
	Before time.Time
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("events up to %s were removed before this reader read them: continue at the position %s", e.Before.UTC().Format(time.RFC3339), e.Resume)
}

// PositionError means that no reader of a log of events can have the given position.
type PositionError struct{ Detail string }

func (e *PositionError) Error() string { return "the position " + e.Detail }

// UnavailableError wraps a failure that a retry may repair: throttling, a lost connection, or a
// timeout. It is unknown whether the call took effect. The API answers 503 for such an error,
// and a worker backs off.
type UnavailableError struct {
	Op  string
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("queue: %s: unavailable, try again: %v", e.Op, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable marks the error for Transient.
func (*UnavailableError) Unavailable() {}

// Transient reports whether time alone can repair err: a backend is unavailable, the queue was
// closed at the stop of the process, or a context ended. Each backend knows its transient
// failures, and returns them as an error with the method Unavailable: the UnavailableError of
// this package or of package table.
func Transient(err error) bool {
	_, unavailable := errors.AsType[interface {
		error
		Unavailable()
	}](err)
	return unavailable || errors.Is(err, ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
