package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/page"
	"fanfare/internal/queue"
)

// MaxWaiting bounds the reads of a Reader that wait for events (I9).
const MaxWaiting = 256

// Log is a log of events in one order, which never gets an event before an event that it has shown.
type Log interface {
	// ReadLog calls yield for the events behind the position after, the oldest event first; "" is the position
	// before the oldest kept event. If yield returns false, yield has not taken the event, and ReadLog ends. next is
	// the position up to which yield has taken the events. The error is a *queue.GoneError if events behind
	// after were removed, and a *queue.PositionError if no reader can have the position after.
	ReadLog(after string, yield func(position string, payload []byte) bool) (next string, err error)
	// LogGrew returns a channel that is closed when the log gets further events.
	LogGrew() <-chan struct{}
}

// Event is an event of a log. Payload is its JSON, as in a queue.
type Event struct {
	Position string
	Payload  json.RawMessage
}

// Page is a part of a log. Next is the position of the last event, or of the reader if there is no event.
type Page struct {
	Events []Event
	Next   string
}

// Reader reads a log for other programs. Several goroutines may use a Reader.
type Reader struct {
	log Log
	off string
	// waiting has an element for each waiting read. stopped is closed when no read may wait any more.
	waiting chan struct{}
	stopped chan struct{}
}

// NewReader returns a reader of a log. If log is nil, each read fails with a fault of kind EventsOff and the detail off.
func NewReader(log Log, off string) *Reader {
	return &Reader{log: log, off: off, waiting: make(chan struct{}, MaxWaiting), stopped: make(chan struct{})}
}

// Run waits until ctx ends. From then on no read waits.
func (r *Reader) Run(ctx context.Context) error {
	defer close(r.stopped)
	<-ctx.Done()
	return nil
}

// Page returns at most limit events behind the position after, whose payloads have page.MaxBytes together or are one event. "" is the
// position before the oldest kept event. If there is no event, Page waits for one, at most for wait, until ctx ends or until the
// Reader stops. The error is a *fault.Error: EventsGone if the reader missed events, Invalid for a bad position,
// EventsOff or Unavailable.
func (r *Reader) Page(ctx context.Context, after string, limit int, wait time.Duration) (Page, error) {
	if r.log == nil {
		return Page{}, &fault.Error{Kind: fault.EventsOff, Detail: r.off}
	}
	for late := time.After(wait); ; {
		grew := r.log.LogGrew() // before the read, so that no event comes between the read and the wait
		read, err := r.read(after, limit)
		if err != nil || len(read.Events) > 0 || wait <= 0 {
			return read, err
		}
		more, err := r.await(ctx, grew, late)
		if err != nil || !more {
			return read, err
		}
	}
}

// pageOfAll is the limit of a page of All. Page waits again after waitOfAll.
const (
	pageOfAll = 100
	waitOfAll = time.Minute
)

// ErrStopped is the error of All after the stop of the Reader.
var ErrStopped = errors.New("the process that keeps the events has stopped")

// All yields the events behind the position after, as Page does, and waits for further events. The loop ends with an error: the
// error of ctx, ErrStopped, or an error of Page.
func (r *Reader) All(ctx context.Context, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			read, err := r.Page(ctx, after, pageOfAll, waitOfAll)
			if len(read.Events) == 0 && ctx.Err() == nil && r.hasStopped() { // the log may be closed by now
				err = ErrStopped
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range read.Events {
				if !yield(e, nil) {
					return
				}
			}
			after = read.Next
		}
	}
}

func (r *Reader) hasStopped() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// await waits for grew, and reports whether it was closed.
func (r *Reader) await(ctx context.Context, grew <-chan struct{}, late <-chan time.Time) (more bool, err error) {
	select {
	case r.waiting <- struct{}{}:
		defer func() { <-r.waiting }()
	default:
		return false, &fault.Error{Kind: fault.Unavailable, Detail: fmt.Sprintf("%d readers wait for events already: read without a wait", MaxWaiting), RetryAfter: fault.RetryAfter}
	}
	select {
	case <-grew:
		return true, nil
	case <-late:
	case <-r.stopped:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}

// read returns the events that the log has.
func (r *Reader) read(after string, limit int) (Page, error) {
	var read Page
	size := 0
	next, err := r.log.ReadLog(after, func(position string, payload []byte) bool {
		size += len(payload)
		if len(read.Events) == limit || size > page.MaxBytes && len(read.Events) > 0 {
			return false
		}
		read.Events = append(read.Events, Event{position, payload})
		return true
	})
	read.Next = next
	gone, missed := errors.AsType[*queue.GoneError](err)
	bad, refused := errors.AsType[*queue.PositionError](err)
	switch {
	case missed:
		return Page{}, &fault.Error{Kind: fault.EventsGone, Detail: gone.Error()}
	case refused:
		return Page{}, &fault.Error{Kind: fault.Invalid, Fields: []fault.FieldError{{Field: "after", Detail: bad.Detail}}}
	case err != nil:
		return Page{}, fault.Wrap("log of events", err)
	}
	return read, nil
}
