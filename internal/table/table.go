// Package table is the storage port: one table with DynamoDB's operations, narrow enough
// that a test can reason about it. It owns DynamoDB's size rules (units.go) and limits
// (validate.go). It must never know an item: package schema owns the keys and attributes.
//
// # The contract of every backend
//
//   - A nil error from a write means durable: the effect survives kill -9 (I5).
//   - Any error but ConditionError, CancelledError and InvalidError means that the
//     outcome is unknown: the write may have happened, or may still happen.
//   - Conditions and transactions are atomic and serializable under concurrency.
//   - A transaction may be visible in part to reads of several items, even to consistent ones,
//     until its answer, or for VisibleWithin if the answer is lost.
//   - Consistent reads see every write that returned before they began. Other reads, and
//     all index reads, may be stale.
//   - An expired item (attribute ttl) may still be read, for days. HideExpired
//     wraps a Store so that reads treat it as absent; conditions still see it.
//   - Every result and every typed error has the capacity units of its call.
//   - A backend neither keeps nor changes the caller's arguments. A result belongs to
//     the caller, but items of one result may share memory: treat an Item as immutable
//     and build a new one to change it.
package table

import (
	"context"
	"iter"
	"time"
)

// Limits of DynamoDB that every backend enforces with an InvalidError.
const (
	// MaxBatchGet is the largest number of keys of one BatchGetItem request.
	// Store.BatchGet takes more and splits them.
	MaxBatchGet = 100
	// MaxBatchWrite is the largest number of writes of one BatchWriteItem
	// request. Store.BatchWrite takes more and splits them.
	MaxBatchWrite = 25
	// MaxTransact is the largest number of operations of one transaction.
	MaxTransact = 100
	// MaxItemBytes is the largest size of an item, names included.
	MaxItemBytes = 400 * 1024
)

// VisibleWithin bounds the time from the first visible item of a transaction to the last one.
const VisibleWithin = 10 * time.Second

// Names of the attributes that have a meaning in the table's schema.
const (
	AttrPK     = "PK"
	AttrSK     = "SK"
	AttrGSI1PK = "GSI1PK"
	AttrGSI1SK = "GSI1SK"
	// AttrTTL holds the second since 1970 after which an item counts as absent.
	AttrTTL = "ttl"
)

// IndexName is the name of the index.
const IndexName = "GSI1"

// Key names one item.
type Key struct{ PK, SK string }

// Attr is one attribute of an item.
type Attr struct {
	Name  string
	Value Value
}

// Item is a key and its other attributes, each name once, in any order. An item
// with both AttrGSI1PK and AttrGSI1SK set is in the index; one without is not
// (the index is sparse).
type Item struct {
	Key   Key
	Attrs []Attr
}

// Get returns the value of the attribute name, or the zero Value if the item
// does not have it.
func (it Item) Get(name string) Value {
	for i := range it.Attrs {
		if it.Attrs[i].Name == name {
			return it.Attrs[i].Value
		}
	}
	return Value{}
}

// Str returns the string attribute name, or "" if there is none.
func (it Item) Str(name string) string { return it.Get(name).Str() }

// Int returns the number attribute name, or 0 if there is none.
func (it Item) Int(name string) int64 { return it.Get(name).Int() }

// Has reports whether the item has the attribute name.
func (it Item) Has(name string) bool { return !it.Get(name).IsZero() }

// Value is an attribute's value: a string (DynamoDB's S) or an integer (N).
// The zero Value stands for "no such attribute" and is never stored.
type Value struct {
	kind ValueKind
	str  string
	num  int64
}

// ValueKind is the kind of a Value.
type ValueKind uint8

// The kinds of value.
const (
	KindNone ValueKind = iota
	KindString
	KindNumber
)

// S is a string value. The empty string is a value, unlike no attribute.
func S(s string) Value { return Value{kind: KindString, str: s} }

// N is a number value.
func N(n int64) Value { return Value{kind: KindNumber, num: n} }

// Kind returns the kind of v.
func (v Value) Kind() ValueKind { return v.kind }

// IsZero reports whether v stands for "no such attribute".
func (v Value) IsZero() bool { return v.kind == KindNone }

// Str returns the string that v holds, or "".
func (v Value) Str() string { return v.str }

// Int returns the number that v holds, or 0.
func (v Value) Int() int64 { return v.num }

// Units are consumed capacity units. A write of up to 1 KB takes one write unit, or two
// in a transaction. A consistent read of up to 4 KB takes one read unit, an eventually
// consistent one half a unit. Writes of the index are included.
type Units struct{ Read, Write float64 }

// Plus returns the sum of u and v.
func (u Units) Plus(v Units) Units { return Units{u.Read + v.Read, u.Write + v.Write} }

// Store is one table. Its methods may be called at the same time. The package comment
// has their contract.
type Store interface {
	// Get reads one item. Item is nil in the result if there is none.
	Get(ctx context.Context, in GetInput) (GetResult, error)

	// BatchGet reads any number of distinct keys, 100 in each request, and
	// unprocessed keys again until all are read. Absent items are left out and the
	// order is unspecified. All reads are consistent, or none. It is no snapshot.
	BatchGet(ctx context.Context, in BatchGetInput) (BatchGetResult, error)

	// Query reads the items of one partition, or of one partition of the index,
	// in order of the sort key, page by page. A page may be empty although more
	// follow. The sequence ends after the last page or after one error. A page is
	// read only when the caller asks for it, so break stops reading.
	Query(ctx context.Context, in Query) iter.Seq2[Page, error]

	// Scan reads a page of the whole table, in an order of the backend's choice. It is for
	// verification, never for a request: it is eventually consistent and no snapshot. A walk
	// begins with the zero After and continues with each Next. It returns each item that
	// exists during the whole walk, and no item twice that keeps its key.
	Scan(ctx context.Context, in ScanInput) (ScanPage, error)

	// Put writes a whole item and replaces the one with its key. A condition that
	// fails is a *ConditionError.
	Put(ctx context.Context, in PutInput) (WriteResult, error)

	// Update changes attributes of an item, and makes the item if it is absent. A
	// condition that fails is a *ConditionError.
	Update(ctx context.Context, in UpdateInput) (WriteResult, error)

	// Delete removes an item. The delete of an absent item succeeds. A condition
	// that fails is a *ConditionError.
	Delete(ctx context.Context, in DeleteInput) (WriteResult, error)

	// BatchWrite puts and deletes any number of items without conditions, 25 in
	// each request, and unprocessed ones again with jitter until all are written. A
	// key that occurs twice is an InvalidError. BatchWrite is not atomic: after an
	// error any part may have been written.
	BatchWrite(ctx context.Context, writes []BatchWrite) (WriteResult, error)

	// Transact does all of 1 to 100 operations on distinct keys, or none. A
	// condition that fails, or a conflict with another write, is a
	// *CancelledError.
	Transact(ctx context.Context, in TransactInput) (WriteResult, error)
}

// GetInput names the item to read.
type GetInput struct {
	Key        Key
	Consistent bool
	// Project names the attributes to return besides the key; nil returns all.
	// It saves bytes on the wire, never capacity units.
	Project []string
}

// GetResult is the answer of Get.
type GetResult struct {
	// Item is nil if there is none.
	Item  *Item
	Units Units
}

// BatchGetInput names the items to read. A key must not occur twice.
type BatchGetInput struct {
	Keys       []Key
	Consistent bool
	Project    []string
}

// BatchGetResult is the answer of BatchGet.
type BatchGetResult struct {
	Items []Item
	Units Units
}

// Query names a range of one partition.
type Query struct {
	// Index reads GSI1: PK and the bounds are then values of GSI1PK and GSI1SK. Index
	// reads are eventually consistent, and return the attributes that the index projects
	// (all).
	Index bool
	PK    string
	// Low and High bound the sort key, both included; "" leaves that end open.
	Low, High string
	// After is the sort key at which the previous page ended. The read starts at the next
	// key in the direction of reading; "" starts at the bound. The item itself may be
	// deleted.
	After string
	// Descending reads from high to low.
	Descending bool
	// PageSize is the largest number of items of one page. 0 leaves the size to the
	// backend (about 1 MB).
	PageSize   int
	Consistent bool
	// Project names the attributes to return besides the keys; nil returns all.
	Project []string
	// EndsOnly returns only the key of the last item of each page, and nothing of the
	// final page. The planner of a fan-out uses it to cut a partition into ranges. It is
	// billed like whole pages. It excludes Index and Project.
	EndsOnly bool
}

// Page is one answer of a query.
type Page struct {
	Items []Item
	// More is true as long as the backend does not know whether this was the last page. A
	// caller that continues reads at least one more page.
	More  bool
	Units Units
}

// ScanInput names a page of the whole table.
type ScanInput struct {
	// After is the Next of the previous page; the zero Key begins. The item itself may be
	// deleted.
	After Key
	// PageSize is the largest number of items; 0 leaves it to the backend (about 1 MB).
	PageSize int
}

// ScanPage is one page of the whole table. It may be empty although more follow.
type ScanPage struct {
	Items []Item
	// Next is the After of the next page, the zero Key at the end.
	Next  Key
	Units Units
}

// PutInput is an item to write, on a condition (nil means always).
type PutInput struct {
	Item Item
	If   Cond
}

// UpdateInput changes some attributes of an item. Names occur once over Set, Add
// and Remove together, and never name PK or SK.
type UpdateInput struct {
	Key Key
	// Set gives attributes these values.
	Set []Attr
	// Add adds to numbers; an absent number counts as 0.
	Add []Attr
	// Remove drops attributes.
	Remove []string
	If     Cond
	// ReturnNew asks for the changed item in WriteResult.Item.
	ReturnNew bool
}

// DeleteInput names an item to remove, on a condition (nil means always).
type DeleteInput struct {
	Key Key
	If  Cond
}

// BatchWrite is one write of a batch: it puts Put, or deletes Delete if Put is nil.
type BatchWrite struct {
	Put    *Item
	Delete Key
}

// Key returns the key that w writes.
func (w BatchWrite) Key() Key {
	if w.Put != nil {
		return w.Put.Key
	}
	return w.Delete
}

// TransactInput is a transaction. On AWS all tries inside one call have the same request
// token, so a lost answer does not repeat the effect.
type TransactInput struct {
	Ops []TransactOp
	// Lazy means that a durable message repeats the writes if they are lost. A backend
	// may answer before the writes are durable, but shows them to no reader before.
	Lazy bool
}

// TransactOp is one operation of a transaction: exactly one field is set.
type TransactOp struct {
	Put    *PutInput
	Update *UpdateInput
	Delete *DeleteInput
	Check  *CheckInput
}

// CheckInput is a condition on an item that the transaction does not write.
type CheckInput struct {
	Key Key
	If  Cond
}

// WriteResult is the answer of a write.
type WriteResult struct {
	// Item is the changed item, if UpdateInput.ReturnNew asked for it.
	Item  *Item
	Units Units
	// Refused has the partition key of each write that the table refused for lack of capacity,
	// once for each try. It is set with an error, too, except for a CancelledError, which has its
	// reasons. A caller with many writes should then send fewer at once.
	Refused []string
}

// Throttled reports whether the table was short of capacity for a part of the write.
func (r WriteResult) Throttled() bool { return len(r.Refused) > 0 }

// Plus returns the answer of two parts of one BatchWrite.
func (r WriteResult) Plus(o WriteResult) WriteResult {
	return WriteResult{Units: r.Units.Plus(o.Units), Refused: append(r.Refused, o.Refused...)}
}
