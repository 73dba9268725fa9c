// Package table is the storage port: one table with DynamoDB's operations, so few that a test
// can reason about them. The package owns DynamoDB's size rules (units.go) and limits
// (validate.go). The package must never know the meaning of an item: package schema owns the
// keys and attributes.
//
// # The contract of every backend
//
//   - A nil error from a write means durable: the effect survives kill -9 (I5).
//   - Any error except ConditionError, CancelledError and InvalidError means that the
//     outcome is unknown: the write may have happened, or may still happen.
//   - Conditions and transactions are atomic and serializable under concurrency.
//   - A transaction may be visible in part to reads of several items, even to consistent ones,
//     until its answer, or for VisibleWithin if the answer is lost.
//   - Consistent reads see every write that returned before the reads began. Other reads, and
//     all index reads, may be stale.
//   - An expired item (attribute ttl) may still be read, for days. HideExpired
//     wraps a Store so that reads treat such an item as absent; conditions still see the item.
//   - Every result and every typed error has the capacity units of its call.
//   - A backend neither keeps nor changes the caller's arguments. A result belongs to
//     the caller, but items of one result may share memory: treat an Item as immutable
//     and build a new Item instead of changing it.
package table

import (
	"context"
	"iter"
	"time"
)

// These are limits of DynamoDB that every backend enforces with an InvalidError.
const (
	// MaxBatchGet is the maximum number of keys of one BatchGetItem request. Store.BatchGet
	// accepts more keys and splits them.
	MaxBatchGet = 100
	// MaxBatchWrite is the maximum number of writes of one BatchWriteItem request.
	// Store.BatchWrite accepts more writes and splits them.
	MaxBatchWrite = 25
	// MaxTransact is the maximum number of operations of one transaction.
	MaxTransact = 100
	// MaxItemBytes is the maximum size of an item, including the names of its attributes.
	MaxItemBytes = 400 * 1024
)

// VisibleWithin is the maximum time between the moments at which the first and the last item of
// a transaction become visible.
const VisibleWithin = 10 * time.Second

// These are the names of the attributes that have a meaning in the table's schema.
const (
	AttrPK     = "PK"
	AttrSK     = "SK"
	AttrGSI1PK = "GSI1PK"
	AttrGSI1SK = "GSI1SK"
	// AttrTTL is the name of the attribute that has the second since 1970 from which an item counts as absent.
	AttrTTL = "ttl"
)

// IndexName is the name of the index.
const IndexName = "GSI1"

// Key is the key of one item.
type Key struct{ PK, SK string }

// Attr is one attribute of an item.
type Attr struct {
	Name  string
	Value Value
}

// Item is a key and its other attributes, in any order and without repeated names. An item is
// in the index if it has both AttrGSI1PK and AttrGSI1SK (the index is sparse).
type Item struct {
	Key   Key
	Attrs []Attr
}

// Get returns the value of the attribute with a name, or the zero Value if the item does not have the attribute.
func (it Item) Get(name string) Value {
	for i := range it.Attrs {
		if it.Attrs[i].Name == name {
			return it.Attrs[i].Value
		}
	}
	return Value{}
}

// Str returns the string of the attribute with a name, or "" if there is no such string.
func (it Item) Str(name string) string { return it.Get(name).Str() }

// Int returns the number of the attribute with a name, or 0 if there is no such number.
func (it Item) Int(name string) int64 { return it.Get(name).Int() }

// Has reports whether the item has the attribute with a name.
func (it Item) Has(name string) bool { return !it.Get(name).IsZero() }

// Value is an attribute's value: a string (DynamoDB's S) or an integer (N). The zero Value
// stands for an absent attribute and is never stored.
type Value struct {
	kind ValueKind
	str  string
	num  int64
}

// ValueKind is the kind of a Value.
type ValueKind uint8

// These are the kinds of value.
const (
	KindNone ValueKind = iota
	KindString
	KindNumber
)

// S returns a string value. The empty string is a value, unlike an absent attribute.
func S(s string) Value { return Value{kind: KindString, str: s} }

// N returns a number value.
func N(n int64) Value { return Value{kind: KindNumber, num: n} }

// Kind returns the kind of v.
func (v Value) Kind() ValueKind { return v.kind }

// IsZero reports whether v stands for an absent attribute.
func (v Value) IsZero() bool { return v.kind == KindNone }

// Str returns the string that v holds, or "".
func (v Value) Str() string { return v.str }

// Int returns the number that v holds, or 0.
func (v Value) Int() int64 { return v.num }

// Units are consumed capacity units. A write of up to 1 KB takes one write unit, or two write
// units in a transaction. A read of up to 4 KB takes one read unit if it is consistent, or half
// a read unit if it is eventually consistent. Writes of the index are included.
type Units struct{ Read, Write float64 }

// Plus returns the sum of u and v.
func (u Units) Plus(v Units) Units { return Units{u.Read + v.Read, u.Write + v.Write} }

// Store is one table. Its methods may be called at the same time. The package comment describes
// the contract of the methods.
type Store interface {
	// Get reads one item. In the result, Item is nil if there is no such item.
	Get(ctx context.Context, in GetInput) (GetResult, error)

	// BatchGet reads any number of distinct keys, 100 in each request, and reads unprocessed
	// keys again until all keys are read. The result omits absent items, and its order is
	// unspecified. Either all reads are consistent, or none is. The result is not a snapshot.
	BatchGet(ctx context.Context, in BatchGetInput) (BatchGetResult, error)

	// Query reads the items of one partition, or of one partition of the index, in order of the
	// sort key, page by page. A page may be empty although more pages follow. The sequence ends
	// after the last page or after one error. A page is read only when the caller needs the
	// page, so break stops the reads.
	Query(ctx context.Context, in Query) iter.Seq2[Page, error]

	// Scan reads a page of the whole table, in an order that the backend chooses. It is for
	// verification, never for a request: it is eventually consistent, and not a snapshot. A
	// walk begins with the zero After and continues with each Next. A walk returns each item
	// that exists during the whole walk. It returns no item twice, unless the item moves
	// to another key.
	Scan(ctx context.Context, in ScanInput) (ScanPage, error)

	// Put writes a whole item, and replaces the item that has the same key. If the condition
	// fails, the error is a *ConditionError.
	Put(ctx context.Context, in PutInput) (WriteResult, error)

	// Update changes attributes of an item, and creates the item if it is absent. If the
	// condition fails, the error is a *ConditionError.
	Update(ctx context.Context, in UpdateInput) (WriteResult, error)

	// Delete removes an item. The delete of an absent item succeeds. If the condition fails,
	// the error is a *ConditionError.
	Delete(ctx context.Context, in DeleteInput) (WriteResult, error)

	// BatchWrite puts and deletes any number of items without conditions, 25 in each request.
	// It writes unprocessed items again, with jitter, until all items are written. If a key
	// occurs twice, the error is an InvalidError. BatchWrite is not atomic: after an error any
	// part of the writes may have been made.
	BatchWrite(ctx context.Context, writes []BatchWrite) (WriteResult, error)

	// Transact makes all of 1 to 100 operations on distinct keys, or none of them. If a
	// condition fails, or another write conflicts, the error is a *CancelledError.
	Transact(ctx context.Context, in TransactInput) (WriteResult, error)
}

// GetInput has the key of the item to read.
type GetInput struct {
	Key        Key
	Consistent bool
	// Project names the attributes to return in addition to the key; nil returns all
	// attributes. A projection saves bytes of the answer, but no capacity units.
	Project []string
}

// GetResult is the result of Get.
type GetResult struct {
	// Item is nil if there is no such item.
	Item  *Item
	Units Units
}

// BatchGetInput has the keys of the items to read. A key must not occur twice.
type BatchGetInput struct {
	Keys       []Key
	Consistent bool
	Project    []string
}

// BatchGetResult is the result of BatchGet.
type BatchGetResult struct {
	Items []Item
	Units Units
}

// Query describes a range of one partition.
type Query struct {
	// Index means that the read is from GSI1: PK and the bounds are then values of GSI1PK and
	// GSI1SK. Reads of the index are eventually consistent, and return the attributes that the
	// index has, which are all attributes.
	Index bool
	PK    string
	// Low and High bound the sort key, both included. "" leaves that side open.
	Low, High string
	// After is the sort key at which the previous page ended. The read starts at the next key
	// in the direction of the read. "" starts the read at the bound. The item with the key
	// After may have been deleted.
	After string
	// Descending means that the read goes from high to low keys.
	Descending bool
	// PageSize is the maximum number of items of one page. If it is 0, the backend chooses the size (about 1 MB).
	PageSize   int
	Consistent bool
	// Project names the attributes to return in addition to the keys; nil returns all attributes.
	Project []string
	// EndsOnly returns only the key of the last item of each page, and nothing for the last
	// page. The planner of a fan-out uses these keys to cut a partition into ranges. A query
	// with EndsOnly is billed like a query of whole pages. EndsOnly must not be combined with
	// Index or Project.
	EndsOnly bool
}

// Page is one page of a query.
type Page struct {
	Items []Item
	// More is true unless the backend knows that this was the last page. A caller that
	// continues then reads at least one more page.
	More  bool
	Units Units
}

// ScanInput describes a page of the whole table.
type ScanInput struct {
	// After is the Next of the previous page. The zero Key begins a walk. The item with the key
	// After may have been deleted.
	After Key
	// PageSize is the maximum number of items. If it is 0, the backend chooses the size (about 1 MB).
	PageSize int
}

// ScanPage is one page of the whole table. It may be empty although more pages follow.
type ScanPage struct {
	Items []Item
	// Next is the After of the next page, or the zero Key at the end of the table.
	Next  Key
	Units Units
}

// PutInput is an item to write, with a condition (nil means no condition).
type PutInput struct {
	Item Item
	If   Cond
}

// UpdateInput changes some attributes of an item. A name occurs at most once in Set, Add and
// Remove together, and is never PK or SK.
type UpdateInput struct {
	Key Key
	// Set has attributes with their new values.
	Set []Attr
	// Add has numbers to add to attributes. An absent attribute counts as 0.
	Add []Attr
	// Remove has the names of attributes to remove.
	Remove []string
	If     Cond
	// ReturnNew requests the changed item in WriteResult.Item.
	ReturnNew bool
}

// DeleteInput has the key of an item to remove, with a condition (nil means no condition).
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

// TransactInput is a transaction. On AWS all tries of one call have the same request token, so
// a retry after a lost answer does not repeat the effect.
type TransactInput struct {
	Ops []TransactOp
	// Lazy means that a durable message repeats the writes if they are lost. A backend may
	// answer before the writes are durable, but no reader may see the writes before they are
	// durable.
	Lazy bool
}

// TransactOp is one operation of a transaction. Exactly one field is set.
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

// WriteResult is the result of a write.
type WriteResult struct {
	// Item is the changed item, if UpdateInput.ReturnNew requested the item.
	Item  *Item
	Units Units
	// Refused has the partition key of each write that the table refused for lack of capacity,
	// once for each try. It is set with an error, too, except for a CancelledError, which has its
	// own reasons. If Refused is not empty, a caller with many writes should send fewer writes at
	// once.
	Refused []string
}

// Throttled reports whether the table was short of capacity for some of the writes.
func (r WriteResult) Throttled() bool { return len(r.Refused) > 0 }

// Plus returns the sum of the results of two parts of one BatchWrite.
func (r WriteResult) Plus(o WriteResult) WriteResult {
	return WriteResult{Units: r.Units.Plus(o.Units), Refused: append(r.Refused, o.Refused...)}
}
