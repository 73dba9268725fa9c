package table

import (
	"fmt"
	"strings"
)

// ConditionError says that the condition of a single write did not hold, so
// nothing was written. It is billed all the same.
type ConditionError struct {
	Key Key
	// Old is the item as the condition saw it, nil if there was none.
	Old   *Item
	Units Units
}

func (e *ConditionError) Error() string {
	return fmt.Sprintf("table: the condition on %s / %s did not hold", e.Key.PK, e.Key.SK)
}

// CancelReason says why one operation cancelled a transaction.
type CancelReason uint8

// The reasons. Ops that did not object have CancelNone.
const (
	CancelNone CancelReason = iota
	CancelCondition
	// CancelConflict is another write of the same item at the same time:
	// retry with jitter.
	CancelConflict
	// CancelThrottled is a lack of capacity: retry with backoff.
	CancelThrottled
)

// CancelledError says that a transaction was not done at all.
type CancelledError struct {
	// Reasons has one entry for each operation, in their order.
	Reasons []CancelledOp
	Units   Units
}

// CancelledOp is one operation's part in a cancelled transaction.
type CancelledOp struct {
	Key    Key
	Reason CancelReason
	// Old is the item as a failed condition saw it, nil if there was none.
	Old *Item
}

func (e *CancelledError) Error() string {
	var b strings.Builder
	b.WriteString("table: transaction cancelled")
	for _, r := range e.Reasons {
		switch r.Reason {
		case CancelNone:
		case CancelCondition:
			fmt.Fprintf(&b, "; condition on %s / %s", r.Key.PK, r.Key.SK)
		case CancelConflict:
			fmt.Fprintf(&b, "; conflict on %s / %s", r.Key.PK, r.Key.SK)
		case CancelThrottled:
			fmt.Fprintf(&b, "; throttled at %s / %s", r.Key.PK, r.Key.SK)
		}
	}
	return b.String()
}

// Failed tells whether the condition of operation i did not hold.
func (e *CancelledError) Failed(i int) bool {
	return i < len(e.Reasons) && e.Reasons[i].Reason == CancelCondition
}

// Retryable tells whether trying again can succeed: no condition failed.
func (e *CancelledError) Retryable() bool {
	for _, r := range e.Reasons {
		if r.Reason == CancelCondition {
			return false
		}
	}
	return true
}

// InvalidError is a request that can never succeed: a defect of the caller.
type InvalidError struct{ Problem string }

func (e *InvalidError) Error() string { return "table: invalid request: " + e.Problem }

// UnavailableError wraps a failure that another try may mend: throttling, a lost
// connection, a timeout. Whether a write happened is unknown. Callers answer 503
// or back off.
type UnavailableError struct {
	Op  string
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("table: %s: unavailable, try again: %v", e.Op, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable marks the error for queue.Transient.
func (*UnavailableError) Unavailable() {}
