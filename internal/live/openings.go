package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"fanfare/internal/backoff"
)

// opening is an opening of a stream in the line for units. The first of the line has its units, and begins when the
// budget has paid for them.
type opening struct {
	b *budget
	// last orders the line: it is the time until which the user's earlier reads are paid for, so a user who
	// opens streams all the time comes behind other users.
	last time.Time
	// turn is closed when the opening is the first. due is the time at which it begins.
	turn chan struct{}
	due  time.Time
	// left ends the part in the line, once.
	left sync.Once
}

// join takes a place in the line for an opening. It fails if the wait would be too long.
func (b *budget) join(last time.Time) (*opening, error) {
	o := &opening{b: b, last: last, turn: make(chan struct{})}
	if b.rate == 0 {
		close(o.turn)
		return o, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := len(b.line)
	for at > 1 && b.line[at-1].last.After(last) { // the first has its units already
		at--
	}
	wait := time.Until(b.paid) + b.time(float64(at)*unitsOfOpening)
	if wait > mostOpeningWait {
		return nil, &BusyError{wait}
	}
	if b.line = slices.Insert(b.line, at, o); at == 0 {
		b.first()
	}
	return o, nil
}

// first gives the first opening of the line its units. The caller holds mu.
func (b *budget) first() {
	if len(b.line) > 0 {
		b.line[0].due = time.Now().Add(b.reserve(unitsOfOpening))
		close(b.line[0].turn)
	}
}

// wait waits until the opening may begin. Later openings of other users may go first.
func (o *opening) wait(ctx context.Context) error {
	defer o.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, mostOpeningWait, &BusyError{mostOpeningWait})
	defer cancel()
	select {
	case <-o.turn:
		return backoff.Wait(ctx, time.Until(o.due))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the turn to the next opening.
func (o *opening) leave() {
	o.left.Do(func() {
		o.b.mu.Lock()
		defer o.b.mu.Unlock()
		at := slices.Index(o.b.line, o)
		if at < 0 { // there is no limit
			return
		}
		if o.b.line = slices.Delete(o.b.line, at, at+1); at == 0 {
			o.b.first()
		}
	})
}

// end returns the units that the opening took in advance, because its reads have counted theirs.
func (o *opening) end() {
	o.leave()
	if !o.due.IsZero() {
		o.b.use(-unitsOfOpening)
	}
}
