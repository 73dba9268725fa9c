// Package clock decides whether the clock of a process is good enough to decide that a record is too
// old. Package clock uses the time of AWS's replies, and compares the wall clock with the monotonic
// clock. Package clock corrects no clock, and must never stop work that needs no age
// (docs/decisions/0019).
package clock

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"fanfare/internal/id"
	"fanfare/messages"
)

const (
	// Margin is the largest offset of a clock without doubt, because two clocks normally differ by up to
	// Margin.
	Margin = messages.MaxAhead
	// settled is the time for which a clock has to run without a step until it is trusted, if no other
	// source shows the time.
	settled = time.Hour
	// maxTook is the duration of the longest exchange whose time is trusted. In a longer exchange, the
	// reply may have waited in this process.
	maxTook = time.Minute
)

// DoubtError means that the clock of this process must not decide that a message is too old or too
// early. Time ends the doubt, or another process with a better clock receives the message.
type DoubtError struct {
	// Offset is the time by which the clock seems to be ahead.
	Offset time.Duration
	Reason string
}

func (e *DoubtError) Error() string {
	return "the clock of this process is in doubt: " + e.Reason
}

// Clock watches one clock. A nil Clock has no doubt.
type Clock struct {
	now   func() time.Time
	start time.Time

	mu sync.Mutex
	// right is the gap between wall time and monotonic time at which the wall clock is right.
	right time.Duration
	// told means that AWS has sent the time. Until then, jump is the gap after the last step, and since is
	// the time of the last step, or of the start.
	told  bool
	jump  time.Duration
	since time.Duration
}

// New returns a Clock that watches now.
func New(now func() time.Time) *Clock {
	c := &Clock{now: now, start: time.Now()}
	c.right, _ = c.gap()
	c.jump = c.right
	return c
}

// gap returns the time by which the wall clock has advanced further than the monotonic clock since the
// start, and the time by which the monotonic clock has advanced.
func (c *Clock) gap() (gap, gone time.Duration) {
	gone = time.Since(c.start)
	return c.now().Round(0).Sub(c.start.Round(0)) - gone, gone // Round removes the monotonic time
}

// Observe records the time in a reply of AWS, and the duration of the exchange.
func (c *Clock) Observe(server time.Time, took time.Duration) {
	if c == nil || took > maxTook {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	gap, _ := c.gap()
	c.right, c.told = gap-c.now().Round(0).Sub(server), true
}

// offset returns the time by which the clock is ahead. fresh reports that the process has just begun,
// or that its clock has just stepped, and that AWS has not sent the time since then.
func (c *Clock) offset() (ahead time.Duration, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gap, gone := c.gap()
	if c.told {
		return gap - c.right, false
	}
	if (gap - c.jump).Abs() > Margin {
		c.since = gone
	}
	c.jump = gap // a clock that is only slewed stays right
	fresh = gone-c.since < settled
	if !fresh || (gap-c.right).Abs() <= Margin {
		c.right = gap
	}
	return gap - c.right, fresh
}

// Offset returns the time by which the clock seems to be ahead.
func (c *Clock) Offset() time.Duration {
	ahead, _ := c.offset()
	return ahead
}

// Told reports whether AWS has sent the time.
func (c *Clock) Told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// Doubt returns a *DoubtError while the clock must not decide that a record is too old, and nil
// otherwise. A caller reads its clock first, so that Doubt sees every step before that read.
func (c *Clock) Doubt() error {
	if c == nil {
		return nil
	}
	if ahead, _ := c.offset(); ahead.Abs() > Margin {
		return doubt(ahead)
	}
	return nil
}

func doubt(ahead time.Duration) *DoubtError {
	if ahead < 0 {
		return &DoubtError{ahead, fmt.Sprintf("it seems to be %s behind: set it right", -ahead.Round(time.Second))}
	}
	return &DoubtError{ahead, fmt.Sprintf("it seems to be %s ahead: set it right", ahead.Round(time.Second))}
}

// Expired returns the time by which records have expired, if the clock shows now. While the clock is
// in doubt, no record has expired, because a record that seems expired may still decide.
func (c *Clock) Expired(now time.Time) time.Time {
	if c.Doubt() != nil {
		return time.Time{}
	}
	return now
}

// CheckAge checks an id as messages.CheckIDAge does, by the clock, which shows now. CheckAge returns a
// *DoubtError if a clock in doubt would refuse the id permanently, or if the right clock would refuse
// the id.
//
// An id from the future is itself a sign that this clock is slow. So if AWS sends no time, a clock
// refuses no such id within an hour of its start or of a step.
func (c *Clock) CheckAge(field, ulid string, now time.Time) error {
	err := messages.CheckIDAge(field, ulid, now)
	if c == nil {
		return err
	}
	ahead, fresh := c.offset()
	inDoubt := ahead.Abs() > Margin
	if inDoubt && (permanent(err) || permanent(messages.CheckIDAge(field, ulid, now.Add(-ahead)))) {
		return doubt(ahead)
	}
	if !fresh || !permanent(err) {
		return err
	}
	if at, invalid := id.Time(ulid); invalid == nil && at.After(now) {
		return &DoubtError{ahead, fmt.Sprintf("it has shown the time for less than %s, and an event is of %s", settled, at.Format(time.RFC3339))}
	}
	return err
}

func permanent(err error) bool {
	_, ok := errors.AsType[*messages.PermanentError](err)
	return ok
}
