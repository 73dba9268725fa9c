package likeagg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/messages"
)

// maxUnexplained bounds the failures in a row of one request that neither its outcome
// nor time explains. After them its window is lost.
const maxUnexplained = 5

// lostError ends a window as a crash would: the window sends nothing more and acks
// nothing, and its incarnation is not used again.
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

// attempt sends one request until its outcome is known. Its error is nil, a refusal,
// which wrote nothing, or a lostError. version is the event id of the message that
// the request is for, "" if it is for the whole window.
func (w *window) attempt(ctx context.Context, version string, send func() error) error {
	delay := backoff.Exponential{First: 50 * time.Millisecond, Most: 5 * time.Second}
	unexplained := 0
	w.unresolved.Add(1)
	for failures := 1; ; failures++ {
		if err := w.checkAge(ctx, version); err != nil {
			return err
		}
		err := panics.Catch(send) // a panic of the table leaves the outcome unknown, too
		if err == nil || refused(err) {
			w.unresolved.Add(-1)
			return err
		}
		if queue.Transient(err) {
			unexplained = 0
		} else if unexplained++; unexplained >= maxUnexplained {
			return &lostError{"the table fails in an unknown way", err}
		}
		_ = backoff.Wait(ctx, delay.Jittered(failures, w.collector.random())) // checkAge reports ctx's end
	}
}

// checkAge fails if the window has outlived its incarnation or the request's message.
// A stamp that old could have been pruned from the ledger and read as counted, and
// the items that refuse such an old message could have expired.
func (w *window) checkAge(ctx context.Context, version string) error {
	now := w.cfg.Now()
	switch {
	case ctx.Err() != nil:
		return &lostError{"stopped", ctx.Err()}
	case olderThan(w.stamp.Inc, 1, now):
		return &lostError{"its incarnation began before yesterday", nil}
	case version != "" && messages.CheckIDAge("event_id", version, now) != nil:
		return &lostError{"its message grew too old", nil}
	}
	return nil
}

// refused reports whether err says that nothing was written.
func refused(err error) bool {
	if _, ok := errors.AsType[*table.ConditionError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*table.CancelledError](err); ok {
		return true
	}
	_, ok := errors.AsType[*table.InvalidError](err)
	return ok
}

// random returns a number in [0, 1).
func (c *collector) random() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.cfg.Random()>>11) / (1 << 53)
}
