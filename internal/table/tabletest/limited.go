package tabletest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fanfare/internal/table"
)

// Limited is a table of so many write units a second, with a second's units in reserve.
// Its partitions may have a limit each, too. Each write takes 5 ms. It is refused when there
// is no unit left, and sent again and given up as package dynamo does it. Reads are not limited.
type Limited struct {
	table.Store

	mu    sync.Mutex
	all   bucket
	each  float64 // of a partition, 0 for no limit
	parts map[string]*bucket
	// refusals is how often a write was refused.
	refusals int
}

// bucket has the units of a second at most.
type bucket struct {
	rate, left float64
	at         time.Time
}

// has reports whether there is a unit left.
func (b *bucket) has(now time.Time) bool {
	b.left, b.at = min(b.left+now.Sub(b.at).Seconds()*b.rate, b.rate), now
	return b.left > 0
}

// NewLimited returns s with a limit.
func NewLimited(s table.Store, unitsPerSecond float64) *Limited {
	return &Limited{Store: s, all: bucket{unitsPerSecond, unitsPerSecond, time.Now()}, parts: make(map[string]*bucket)}
}

// SetLimit changes the limit.
func (l *Limited) SetLimit(unitsPerSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.rate, l.all.left = unitsPerSecond, min(l.all.left, unitsPerSecond)
}

// SetPartitionLimit gives each partition a limit.
func (l *Limited) SetPartitionLimit(unitsPerSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each = unitsPerSecond
}

// Refusals returns how often a write was refused.
func (l *Limited) Refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusals
}

// admit takes the units of writes to partitions, and returns which of the writes it refuses. A
// request may take more than there are. If whole, it refuses all or none.
func (l *Limited) admit(keys []string, units float64, whole bool) (refused []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	short := !l.all.has(now)
	for i, pk := range keys {
		if short || l.each > 0 && !l.part(pk, now).has(now) {
			refused = append(refused, i)
		} else if l.each > 0 && !whole {
			l.parts[pk].left -= units
		}
	}
	if len(refused) > 0 {
		l.refusals++
	}
	if whole && len(refused) > 0 {
		return refused
	}
	if whole && l.each > 0 {
		for _, pk := range keys {
			l.parts[pk].left -= units
		}
	}
	l.all.left -= units * float64(len(keys)-len(refused))
	return refused
}

func (l *Limited) part(pk string, now time.Time) *bucket {
	if l.parts[pk] == nil {
		l.parts[pk] = &bucket{l.each, l.each, now}
	}
	return l.parts[pk]
}

var errLimited = errors.New("throttled")

const singleAttempts, batchAttempts = 4, 6

// wait takes the time of a request.
func wait(ctx context.Context, op table.Op, attempt int) error {
	select {
	case <-time.After(5*time.Millisecond + time.Duration(attempt)*rand.N(50*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return &table.UnavailableError{Op: string(op), Err: context.Cause(ctx)}
	}
}

// single does a write of one item.
func (l *Limited) single(ctx context.Context, op table.Op, key table.Key, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	var refused []string
	for attempt := range singleAttempts {
		if err := wait(ctx, op, attempt); err != nil {
			return table.WriteResult{Refused: refused}, err
		}
		if len(l.admit([]string{key.PK}, 1, true)) == 0 {
			res, err := do()
			res.Refused = refused
			return res, err
		}
		refused = append(refused, key.PK)
	}
	return table.WriteResult{Refused: refused}, &table.UnavailableError{Op: string(op), Err: errLimited, Reason: table.ShortUnknown}
}

// Put implements table.Store.
func (l *Limited) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return l.single(ctx, table.OpPut, in.Item.Key, func() (table.WriteResult, error) { return l.Store.Put(ctx, in) })
}

// Update implements table.Store.
func (l *Limited) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return l.single(ctx, table.OpUpdate, in.Key, func() (table.WriteResult, error) { return l.Store.Update(ctx, in) })
}

// Delete implements table.Store.
func (l *Limited) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return l.single(ctx, table.OpDelete, in.Key, func() (table.WriteResult, error) { return l.Store.Delete(ctx, in) })
}

// Transact implements table.Store. Like DynamoDB it cancels a transaction for lack of capacity,
// and names the operations that it refused.
func (l *Limited) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if err := wait(ctx, table.OpTransact, 0); err != nil {
		return table.WriteResult{}, err
	}
	keys := make([]string, len(in.Ops))
	cancelled := &table.CancelledError{Reasons: make([]table.CancelledOp, len(in.Ops))}
	for i, op := range in.Ops {
		keys[i], cancelled.Reasons[i].Key = op.Key().PK, op.Key()
	}
	refused := l.admit(keys, 2, true)
	if len(refused) == 0 {
		return l.Store.Transact(ctx, in)
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

// batch does one request's writes, and sends those again that were refused.
func (l *Limited) batch(ctx context.Context, left []table.BatchWrite) (all table.WriteResult, err error) {
	for attempt := 0; attempt < batchAttempts; attempt++ {
		if err := wait(ctx, table.OpBatchWrite, attempt); err != nil {
			return all, err
		}
		keys := make([]string, len(left))
		for i, w := range left {
			keys[i] = w.Key().PK
		}
		refused := l.admit(keys, 1, false)
		var done, again []table.BatchWrite
		for i, w := range left {
			if slices.Contains(refused, i) {
				again = append(again, w)
				all.Refused = append(all.Refused, w.Key().PK)
			} else {
				done = append(done, w)
			}
		}
		if len(done) > 0 {
			res, err := l.Store.BatchWrite(ctx, done)
			if all = all.Plus(res); err != nil || len(again) == 0 {
				return all, err
			}
			attempt = -1 // the batch made progress
		}
		left = again
	}
	return all, &table.UnavailableError{Op: string(table.OpBatchWrite), Err: errLimited, Reason: table.ShortUnknown}
}
