// Package throttle shares a table between the kinds of work of a process: a Throttle does so when
// the table is short of capacity, and a Yield when large work runs beside the delivery of ordinary
// posts.
//
// # It must never
//
//   - Know an item, AWS or Pebble.
//   - Let a write of the API wait.
//   - Remember more keys than mostKeys (I9).
package throttle

import (
	"context"
	"fmt"
	"time"

	"fanfare/internal/table"
)

// Urgency orders the kinds of work of a process. Under throttling the least urgent kinds
// slow down first.
type Urgency int

// The kinds of work, the most urgent first.
const (
	// API is the kind of the writes for which a client waits. Such writes never wait for the
	// throttle, so they use all capacity of the table, and their refusals slow down all other work.
	API Urgency = iota
	Posts
	Chunks
	Backfills
	// Notices wait for a table that is short for all, and not for a hot key: their worker waits for
	// its users by windows, and its places are free for other users in that time.
	Notices
	urgencies
)

// large reports whether the work is chunks or backfills, for which nobody waits.
func (u Urgency) large() bool { return u == Chunks || u == Backfills }

// request is a write that waits for its units.
type request struct {
	op table.Op
	u  Urgency
	// key is the partition key if all writes of the request have the same key, or "". writes is the
	// number of writes, and units is their least cost.
	key           string
	writes, units int
	// came is the time when the request began to wait.
	came time.Time
}

// mostWait is the maximum wait of a write: a write that waits longer fails. Work that reads, waits
// and then writes relies on this bound (I2).
const mostWait = 2 * time.Minute

// ShortError means that a write was not sent, because the table is short of capacity or
// slow, and other work goes first.
type ShortError struct{ Op table.Op }

// Throttled reports true: the write was not sent for lack of capacity.
func (*ShortError) Throttled() bool { return true }

func (e *ShortError) Error() string {
	return fmt.Sprintf("table: %s: the write was not sent: the table or the partition of its key is short of write capacity or slow, and other work goes first: see \"Table throttles\" in docs/OPERATIONS.md", e.Op)
}

// Unavailable marks the error for queue.Transient.
func (*ShortError) Unavailable() {}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
