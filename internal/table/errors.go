package table

import (
	"fmt"
	"strings"
)

// ConditionError is the failure of a single write whose condition did not hold. The write had
// no effect, but it is billed.
type ConditionError struct {
	Key Key
	// Old is the item with which the condition was checked, nil if there was no item.
	Old   *Item
	Units Units
}

func (e *ConditionError) Error() string {
	return fmt.Sprintf("table: the condition on %s / %s did not hold", e.Key.PK, e.Key.SK)
}

// CancelReason is the reason why one operation cancelled a transaction.
type CancelReason uint8

// The reasons. CancelNone means that the operation did not cancel the transaction.
const (
	CancelNone CancelReason = iota
	CancelCondition
	// CancelConflict means that another write changed the same item at the same time. A retry should have jitter.
	CancelConflict
	// CancelThrottled means that capacity was short. A retry should have backoff.
	CancelThrottled
)

// CancelledError is the failure of a transaction that had no effect.
type CancelledError struct {
	// Reasons has one entry for each operation, in the order of the operations.
	Reasons []CancelledOp
	Units   Units
}

// CancelledOp is the part of one operation in a cancelled transaction.
type CancelledOp struct {
	Key    Key
	Reason CancelReason
	// Old is the item with which a failed condition was checked, nil if there was no item.
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

// Failed reports whether the condition of operation i did not hold.
func (e *CancelledError) Failed(i int) bool {
	return i < len(e.Reasons) && e.Reasons[i].Reason == CancelCondition
}

// Retryable reports whether a retry can succeed, because no condition failed.
func (e *CancelledError) Retryable() bool {
	for _, r := range e.Reasons {
		if r.Reason == CancelCondition {
			return false
		}
	}
	return true
}

// InvalidError is the refusal of a request that can never succeed. The caller has a bug.
type InvalidError struct{ Problem string }

func (e *InvalidError) Error() string { return "table: invalid request: " + e.Problem }

// Shortage is the reason why a table has no capacity for a call. Its text is the value of a metric's label.
type Shortage string

// The reasons. Each reason needs a different action of an operator.
const (
	// ShortKeyRange means that one partition is full, so more capacity of the table does not help.
	ShortKeyRange Shortage = "key_range"
	// ShortAccount means that the account's quota for a table is used up.
	ShortAccount Shortage = "account"
	// ShortMaxOnDemand means that the maximum set by the table's owner is used up.
	ShortMaxOnDemand Shortage = "max_on_demand"
	// ShortProvisioned means that the provisioned capacity is used up.
	ShortProvisioned Shortage = "provisioned"
	// ShortUnknown means that the table named no reason.
	ShortUnknown Shortage = "unknown"
)

// Refusal is a try of a call that the table refused for lack of capacity. The table may refuse
// the whole call or a part of the call.
type Refusal struct {
	Op     Op
	Reason Shortage
	// Index means that the index was short of capacity.
	Index bool
	// PK is a partition key of the call. If the index was short of capacity and the call has an
	// index key, PK is the partition key of the index. PK is empty for a scan.
	PK string
}

// UnavailableError is a failure that a retry may repair: throttling, a lost connection, or a
// timeout. It is unknown whether a write took effect, unless Undone is set. The API answers 503
// for such an error, and a worker backs off.
type UnavailableError struct {
	Op  string
	Err error
	// Reason is the shortage of capacity, "" if capacity was not short. Index means that the index was short.
	Reason Shortage
	Index  bool
	// Undone means that the call had no effect and will have none: the table refused all its
	// tries for lack of capacity, or no try had a connection.
	Undone bool
}

func (e *UnavailableError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("table: %s: unavailable, try again: %v", e.Op, e.Err)
	}
	on := "table"
	if e.Index {
		on = "index"
	}
	return fmt.Sprintf("table: %s: no capacity (%s, %s), try again: %v", e.Op, on, e.Reason, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Throttled reports whether the table was short of capacity.
func (e *UnavailableError) Throttled() bool { return e.Reason != "" }

// Unavailable marks the error for queue.Transient.
func (*UnavailableError) Unavailable() {}
