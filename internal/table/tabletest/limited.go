package tabletest

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fanfare/internal/table"
)

// Kind is a kind of capacity. A table may have a limit for each kind.
type Kind int

// These are the kinds of capacity. The index has its own capacity, which belongs to no other kind.
const (
	Writes Kind = iota
	Reads
	IndexWrites
	IndexReads
	kinds
)

// Limited is a table with a limit of write units a second, and with the units of one second in reserve.
// SetLimit limits further kinds of capacity, and each partition may have a limit, too. Each request takes
// 5 ms. A request is refused when no unit is left, and is retried and given up as in package dynamo. If
// the index has no units left, writes of the table that change the index are refused.
type Limited struct {
	table.Store

	mu    sync.Mutex
	all   [kinds]bucket
	used  [kinds]Usage
	each  float64 // the limit of a partition, 0 for no limit
	parts map[string]*bucket
	// refusals is the number of refused requests that write.
	refusals int
}

// Usage is the use of one kind of capacity. Tries and Refused count each try. Reads count by
// request, and writes count by item. A write of the table that changes the index counts for both
// kinds.
type Usage struct {
	Units          float64
	Tries, Refused int
}

// bucket has at most the units of one second, or its reserve if the reserve is larger. An open
// bucket has no limit.
type bucket struct {
	rate, left, reserve float64
	at                  time.Time
	open                bool
}

// has reports whether there is a unit left.
func (b *bucket) has(now time.Time) bool {
	b.left, b.at = min(b.left+now.Sub(b.at).Seconds()*b.rate, max(b.rate, b.reserve)), now
	return b.left > 0 || b.open
}

// NewLimited returns a table on s with a limit of writes, and no other limit.
func NewLimited(s table.Store, unitsPerSecond float64) *Limited {
	l := &Limited{Store: s, parts: make(map[string]*bucket)}
	for k := range l.all {
		l.all[k] = bucket{at: time.Now(), open: true}
	}
	l.all[Writes] = bucket{rate: unitsPerSecond, left: unitsPerSecond, at: time.Now()}
	return l
}

// SetLimit changes the limit of a kind. reserve is the number of units in reserve, if it is
// larger than the units of one second.
func (l *Limited) SetLimit(k Kind, unitsPerSecond, reserve float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, most := &l.all[k], max(unitsPerSecond, reserve)
	if b.open {
		b.left = most
	} else {
		b.has(time.Now())
	}
	b.rate, b.reserve, b.left, b.open = unitsPerSecond, reserve, min(b.left, most), false
}

// SetPartitionLimit sets the limit of each partition.
func (l *Limited) SetPartitionLimit(unitsPerSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each = unitsPerSecond
}

// Refusals returns the number of refused requests that write.
func (l *Limited) Refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusals
}

// Used returns the use of a kind of capacity so far.
func (l *Limited) Used(k Kind) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[k]
}

// spend subtracts the units of a request that was made. It may subtract more units than the bucket has.
func (l *Limited) spend(k Kind, units float64) {
	l.all[k].left -= units
	l.used[k].Units += units
}

// write makes the writes for which there is capacity, and returns the refused writes. If whole is
// set, it makes all writes or none.
func (l *Limited) write(ops []table.TransactOp, whole bool, do func(taken []int) (table.WriteResult, error)) (refused []int, res table.WriteResult, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	short, full := !l.all[Writes].has(now), !l.all[IndexWrites].has(now)
	taken, inIndex := make([]int, 0, len(ops)), 0.0
	for i, op := range ops {
		units := l.indexUnits(op)
		if units > 0 {
			l.used[IndexWrites].Tries++
			if full {
				l.used[IndexWrites].Refused++
			}
		}
		if short || full && units > 0 || l.each > 0 && !l.part(op.Key().PK, now).has(now) {
			refused = append(refused, i)
			continue
		}
		taken, inIndex = append(taken, i), inIndex+units
	}
	l.used[Writes].Tries += len(ops)
	l.used[Writes].Refused += len(refused)
	if len(refused) > 0 {
		l.refusals++
	}
	if len(taken) == 0 || whole && len(refused) > 0 {
		return refused, res, nil
	}
	if res, err = do(taken); err != nil {
		inIndex = 0 // a failed write costs nothing in the index
	}
	units := table.Billed(res, err).Write
	l.spend(Writes, units-inIndex)
	l.spend(IndexWrites, inIndex)
	for _, i := range taken {
		if l.each > 0 {
			l.parts[ops[i].Key().PK].left -= units / float64(len(taken))
		}
	}
	return refused, res, err
}

// indexUnits returns the index's share of the units of a write.
func (l *Limited) indexUnits(op table.TransactOp) float64 {
	if l.all[IndexWrites].open {
		return 0
	}
	old, err := l.Store.Get(context.Background(), table.GetInput{Key: op.Key(), Consistent: true})
	if err != nil {
		return 0
	}
	after, err := op.Apply(old.Item)
	if err != nil { // the write will fail with the same error
		return 0
	}
	// In a transaction the table's share costs twice as much, and the index's share does not.
	return 2*table.WriteCost(old.Item, after).Write - table.TransactCost(old.Item, after).Write
}

func (l *Limited) part(pk string, now time.Time) *bucket {
	if l.parts[pk] == nil {
		l.parts[pk] = &bucket{rate: l.each, left: l.each, at: now}
	}
	return l.parts[pk]
}

// admit waits until a read has capacity. Like package dynamo it gives up after some tries.
func (l *Limited) admit(ctx context.Context, op table.Op, k Kind, attempts int) error {
	for attempt := range attempts {
		if err := wait(ctx, op, attempt); err != nil {
			return err
		}
		l.mu.Lock()
		has := l.all[k].has(time.Now())
		l.used[k].Tries++
		if !has {
			l.used[k].Refused++
		}
		l.mu.Unlock()
		if has {
			return nil
		}
	}
	return &table.UnavailableError{Op: string(op), Err: errLimited, Reason: table.ShortUnknown}
}

// read counts the units of a read that was made.
func (l *Limited) read(k Kind, units table.Units) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spend(k, units.Read)
}

var errLimited = errors.New("throttled")

const singleAttempts, batchAttempts = 4, 6

// wait waits for the time that a request takes.
func wait(ctx context.Context, op table.Op, attempt int) error {
	select {
	case <-time.After(5*time.Millisecond + time.Duration(attempt)*rand.N(50*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return &table.UnavailableError{Op: string(op), Err: context.Cause(ctx)}
	}
}

// Get implements table.Store.
func (l *Limited) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if err := l.admit(ctx, table.OpGet, Reads, singleAttempts); err != nil {
		return table.GetResult{}, err
	}
	res, err := l.Store.Get(ctx, in)
	l.read(Reads, res.Units)
	return res, err
}

// BatchGet implements table.Store. Each of its requests is refused as a whole or not at all.
func (l *Limited) BatchGet(ctx context.Context, in table.BatchGetInput) (all table.BatchGetResult, err error) {
	for keys := range slices.Chunk(in.Keys, table.MaxBatchGet) {
		if err := l.admit(ctx, table.OpBatchGet, Reads, batchAttempts); err != nil {
			return all, err
		}
		part := in
		part.Keys = keys
		res, err := l.Store.BatchGet(ctx, part)
		l.read(Reads, res.Units)
		if err != nil {
			return all, err
		}
		all.Items, all.Units = append(all.Items, res.Items...), all.Units.Plus(res.Units)
	}
	return all, nil
}

// Query implements table.Store. Each page is a request.
func (l *Limited) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	k := Reads
	if q.Index {
		k = IndexReads
	}
	return func(yield func(table.Page, error) bool) {
		if err := l.admit(ctx, table.OpQuery, k, singleAttempts); err != nil {
			yield(table.Page{}, err)
			return
		}
		for page, err := range l.Store.Query(ctx, q) {
			l.read(k, page.Units)
			if !yield(page, err) || !page.More {
				return
			}
			if err := l.admit(ctx, table.OpQuery, k, singleAttempts); err != nil {
				yield(table.Page{}, err)
				return
			}
		}
	}
}

// single makes a write of one item.
func (l *Limited) single(ctx context.Context, op table.Op, w table.TransactOp, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	var before []string
	for attempt := range singleAttempts {
		if err := wait(ctx, op, attempt); err != nil {
			return table.WriteResult{Refused: before}, err
		}
		refused, res, err := l.write([]table.TransactOp{w}, true, func([]int) (table.WriteResult, error) { return do() })
		if len(refused) == 0 {
			res.Refused = before
			return res, err
		}
		before = append(before, w.Key().PK)
	}
	return table.WriteResult{Refused: before}, &table.UnavailableError{Op: string(op), Err: errLimited, Reason: table.ShortUnknown, Undone: true}
}

// Put implements table.Store.
func (l *Limited) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return l.single(ctx, table.OpPut, table.TransactOp{Put: &in}, func() (table.WriteResult, error) { return l.Store.Put(ctx, in) })
}

// Update implements table.Store.
func (l *Limited) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return l.single(ctx, table.OpUpdate, table.TransactOp{Update: &in}, func() (table.WriteResult, error) { return l.Store.Update(ctx, in) })
}

// Delete implements table.Store.
func (l *Limited) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return l.single(ctx, table.OpDelete, table.TransactOp{Delete: &in}, func() (table.WriteResult, error) { return l.Store.Delete(ctx, in) })
}

// Transact implements table.Store. Like DynamoDB it cancels a transaction for lack of capacity,
// and names the operations that were refused.
func (l *Limited) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if err := wait(ctx, table.OpTransact, 0); err != nil {
		return table.WriteResult{}, err
	}
	refused, res, err := l.write(in.Ops, true, func([]int) (table.WriteResult, error) { return l.Store.Transact(ctx, in) })
	if len(refused) == 0 {
		return res, err
	}
	cancelled := &table.CancelledError{Reasons: make([]table.CancelledOp, len(in.Ops))}
	for i, op := range in.Ops {
		cancelled.Reasons[i].Key = op.Key()
	}
	for _, i := range refused {
		cancelled.Reasons[i].Reason = table.CancelThrottled
	}
	return table.WriteResult{}, cancelled
}

// BatchWrite implements table.Store.
func (l *Limited) BatchWrite(ctx context.Context, writes []table.BatchWrite) (all table.WriteResult, err error) {
	for part := range slices.Chunk(writes, table.MaxBatchWrite) {
		res, err := l.batch(ctx, part)
		if all = all.Plus(res); err != nil {
			return all, err
		}
	}
	return all, nil
}

// batch makes the writes of one request, and sends refused writes again.
func (l *Limited) batch(ctx context.Context, left []table.BatchWrite) (all table.WriteResult, err error) {
	for attempt := 0; attempt < batchAttempts; attempt++ {
		if err := wait(ctx, table.OpBatchWrite, attempt); err != nil {
			return all, err
		}
		ops := make([]table.TransactOp, len(left))
		for i, w := range left {
			if w.Put != nil {
				ops[i].Put = &table.PutInput{Item: *w.Put}
			} else {
				ops[i].Delete = &table.DeleteInput{Key: w.Delete}
			}
		}
		pick := func(at []int) (some []table.BatchWrite) {
			for _, i := range at {
				some = append(some, left[i])
			}
			return some
		}
		refused, res, err := l.write(ops, false, func(taken []int) (table.WriteResult, error) { return l.Store.BatchWrite(ctx, pick(taken)) })
		all = all.Plus(res)
		for _, i := range refused {
			all.Refused = append(all.Refused, left[i].Key().PK)
		}
		if err != nil || len(refused) == 0 {
			return all, err
		}
		if len(refused) < len(left) {
			attempt = -1 // the batch made progress
		}
		left = pick(refused)
	}
	return all, &table.UnavailableError{Op: string(table.OpBatchWrite), Err: errLimited, Reason: table.ShortUnknown}
}
