package likeagg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/clock"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/messages"
)

// maxUnexplained bounds the consecutive failures of one request that neither the outcome of the
// request nor time explains. After these failures the window is lost.
const maxUnexplained = 5

// lostError ends a window as a crash would: the window sends no further request and acks
// no message, and its incarnation is not used again.
type lostError struct {
	reason string
	err    error
}

func (e *lostError) Error() string {
	if e.err == nil {
		return "window lost: " + e.reason
	}
	return fmt.Sprintf("window lost: %s: %v", e.reason, e.err)
}

func (e *lostError) Unwrap() error { return e.err }

// attempt sends one request until its outcome is known. Its error is nil, a refusal, which wrote nothing, or a
// lostError. a is the action that the request is for, or nil if the request is for the whole window. Before
// each try, attempt checks the age of the messages, because the items that refuse a too old message may have
// expired.
func (w *window) attempt(ctx context.Context, a *action, send func() error) error {
	w.unresolved.Add(1)
	sent := false
	leave := func() bool { return a != nil && w.leave(a) }
	err := w.collector.repeat(ctx, &w.gate, leave, func() error {
		if a != nil {
			err := w.cfg.checkAge(a.version)
			// The first check found the message not early. If a later check finds the message
			// early, the clock was set back.
			if _, early := errors.AsType[*messages.EarlyError](err); err != nil && !early {
				if !sent {
					return err
				}
				return &lostError{"its message grew too old", nil}
			}
		}
		sent = true
		return send()
	})
	if _, lost := errors.AsType[*lostError](err); !lost {
		w.unresolved.Add(-1)
	}
	return err
}

// leave reports whether the messages of an action may be left for later, and counts them.
func (w *window) leave(a *action) bool {
	a.left = !w.cfg.stay && w.collector.leaves.take(len(a.messages))
	return a.left
}

// repeat sends a request until its outcome is known. If the answer of a try is missing, the try may
// still take effect. From then on only success and the request's own condition show how the request
// ended, and any other refusal counts as one more failure. If the first leaveAfter tries had no
// effect, and leave allows it, the request ends with a queue.Later: no try of the request wrote
// anything or will write anything.
func (c *collector) repeat(ctx context.Context, g *gate, leave func() bool, send func() error) error {
	delay := backoff.Exponential{First: 50 * time.Millisecond, Most: 5 * time.Second}
	unexplained, doubtful := 0, false
	for failures := 1; ; failures++ {
		if ctx.Err() != nil {
			return &lostError{"stopped", ctx.Err()}
		}
		err := panics.Catch(send) // a panic of the table leaves the outcome unknown, too
		if err == nil || decides(err, doubtful) {
			return err
		}
		doubtful = doubtful || !undone(err)
		if !doubtful && failures >= leaveAfter && leave() {
			return &queue.Later{After: leaveFor, Reason: "the table has no capacity for this like"}
		}
		if queue.Transient(err) {
			unexplained = 0
		} else if unexplained++; unexplained >= maxUnexplained {
			return &lostError{"the table fails in an unknown way", err}
		}
		c.pool.wait(ctx, delay.Jittered(failures, c.random()), g)
	}
}

// decides reports whether err is the outcome of a request. doubtful means that an earlier
// try of the request may have taken effect.
func decides(err error, doubtful bool) bool {
	if _, ok := errors.AsType[*lostError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*table.ConditionError](err); ok {
		return true
	}
	return !doubtful && refused(err)
}

// refused reports whether err means that a try wrote nothing for a reason other than the
// condition of the request.
func refused(err error) bool {
	if _, ok := errors.AsType[*table.InvalidError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*clock.DoubtError](err); ok {
		return true
	}
	_, ok := errors.AsType[*messages.PermanentError](err)
	return ok
}

// undone reports whether a try had no effect and will have none. After a panic, a lost connection
// or a late answer, the effect of a try is unknown.
func undone(err error) bool {
	away, ok := errors.AsType[*table.UnavailableError](err)
	return ok && away.Undone
}

// random returns a number in [0, 1).
func (c *collector) random() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.cfg.Random()>>11) / (1 << 53)
}
