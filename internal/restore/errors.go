package restore

import (
	"fmt"
	"time"
)

// EarlyError means that no base ends before the target.
type EarlyError struct {
	// Earliest is the end of the oldest base of the chain, zero if the chain has no base.
	Earliest time.Time
}

func (e *EarlyError) Error() string {
	if e.Earliest.IsZero() {
		return "the archive has no base, so nothing can be restored from it"
	}
	return "the archive has no base before this time: choose " + show(e.Earliest) + " or later"
}

// LateError means that the target is after the archive's last segment.
type LateError struct{ Last time.Time }

func (e *LateError) Error() string {
	return "the archive ends at " + show(e.Last) + ": choose this time or an earlier one, or the newest state"
}

// GapError means that the archive lacks a part of the stream before the target.
type GapError struct {
	// The archive has the stream before From and after To.
	From, To time.Time
	// Next is the time from which on a restore is possible again, zero if there is no base after
	// the gap.
	Next time.Time
}

func (e *GapError) Error() string {
	text := fmt.Sprintf("the archive has a gap from %s to %s: choose a time before it", show(e.From), show(e.To))
	if e.Next.IsZero() {
		return text + ", for there is no base after it"
	}
	return text + ", or " + show(e.Next) + " or later"
}

func show(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
