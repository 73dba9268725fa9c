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
// Each write takes 5 ms. It is refused when there is no unit left, and sent again and
// given up as package dynamo does it. Reads are not limited.
type Limited struct {
	table.Store

	mu         sync.Mutex
	rate, left float64
	at         time.Time
	refusals   int
}

// NewLimited returns s with a limit.
func NewLimited(s table.Store, unitsPerSecond float64) *Limited {
	return &Limited{Store: s, rate: unitsPerSecond, left: unitsPerSecond, at: time.Now()}
}

// SetLimit changes the limit.
func (l *Limited) SetLimit(unitsPerSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate, l.left = unitsPerSecond, min(l.left, unitsPerSecond)
}

// Refusals returns how often a write was refused.
func (l *Limited) Refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusals
}

// admit reports whether there is a unit left. A write may take more than there are.
func (l *Limited) admit(units float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.left, l.at = min(l.left+now.Sub(l.at).Seconds()*l.rate, l.rate), now
	if l.left <= 0 {
		l.refusals++
		return false
	}
	l.left -= units
	return true
}

var errLimited = errors.New("throttled")

func (l *Limited) write(ctx context.Context, op table.Op, units, attempts int, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	for attempt := range attempts {
		select {
		case <-time.After(5*time.Millisecond + time.Duration(attempt)*rand.N(50*time.Millisecond)):
		case <-ctx.Done():
			return table.WriteResult{}, &table.UnavailableError{Op: string(op), Err: context.Cause(ctx)}
		}
		if l.admit(float64(units)) {
			res, err := do()
			res.Throttled = attempt > 0
			return res, err
		}
	}
	return table.WriteResult{}, &table.UnavailableError{Op: string(op), Err: errLimited, Throttled: true}
}

const singleAttempts, batchAttempts = 4, 6

// Put implements table.Store.
func (l *Limited) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return l.write(ctx, table.OpPut, 1, singleAttempts, func() (table.WriteResult, error) { return l.Store.Put(ctx, in) })
}

// Update implements table.Store.
func (l *Limited) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return l.write(ctx, table.OpUpdate, 1, singleAttempts, func() (table.WriteResult, error) { return l.Store.Update(ctx, in) })
}

// Delete implements table.Store.
func (l *Limited) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return l.write(ctx, table.OpDelete, 1, singleAttempts, func() (table.WriteResult, error) { return l.Store.Delete(ctx, in) })
}

// Transact implements table.Store.
func (l *Limited) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	return l.write(ctx, table.OpTransact, 2*len(in.Ops), singleAttempts, func() (table.WriteResult, error) { return l.Store.Transact(ctx, in) })
}

// BatchWrite implements table.Store.
func (l *Limited) BatchWrite(ctx context.Context, writes []table.BatchWrite) (all table.WriteResult, err error) {
	for part := range slices.Chunk(writes, table.MaxBatchWrite) {
		res, err := l.write(ctx, table.OpBatchWrite, len(part), batchAttempts, func() (table.WriteResult, error) { return l.Store.BatchWrite(ctx, part) })
		all.Units, all.Throttled = all.Units.Plus(res.Units), all.Throttled || res.Throttled
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
