package feed_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"fanfare/internal/table"
)

// tap is a table that counts the calls to another table, slows them down, and fails some of them.
type tap struct {
	table.Store
	// latency is the duration of each call, in virtual time.
	latency time.Duration

	mu    sync.Mutex
	calls []call
	// fault decides how a call ends. nil means that no call fails.
	fault func(call) failure
}

// call is one round trip.
type call struct {
	op         table.Op
	keys       int
	consistent bool
	// key is the key of a single write or read, or the partition of a query.
	key table.Key
}

func (c call) String() string { return fmt.Sprintf("%s %s / %s", c.op, c.key.PK, c.key.SK) }

// failure is a way in which a call fails.
type failure uint8

const (
	// works means that the call succeeds.
	works failure = iota
	// lost means that the call fails, and that nothing was written.
	lost
	// answerLost means that the call fails, although its write happened.
	answerLost
	// conflicts means that a transaction conflicts with another transaction.
	conflicts
)

func (f failure) String() string {
	return [...]string{"works", "not persisted", "persisted, answer lost", "conflict"}[f]
}

func (t *tap) enter(ctx context.Context, c call) (failure, error) {
	if t.latency > 0 {
		timer := time.NewTimer(t.latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return lost, ctx.Err()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, c)
	if t.fault == nil {
		return works, nil
	}
	return t.fault(c), nil
}

// take returns the calls since the last call of take.
func (t *tap) take() []call {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

func (t *tap) set(fault func(call) failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault = fault
}

func (t *tap) write(ctx context.Context, c call, conflict error, do func() (table.WriteResult, error)) (table.WriteResult, error) {
	f, err := t.enter(ctx, c)
	if err != nil {
		return table.WriteResult{}, err
	}
	switch f {
	case works:
		return do()
	case conflicts:
		if conflict != nil {
			return table.WriteResult{}, conflict
		}
	case answerLost:
		if _, err := do(); err != nil {
			return table.WriteResult{}, err
		}
	case lost:
	}
	return table.WriteResult{}, errDown
}

func (t *tap) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	f, err := t.enter(ctx, call{table.OpGet, 1, in.Consistent, in.Key})
	if err != nil {
		return table.GetResult{}, err
	}
	if f != works {
		return table.GetResult{}, errDown
	}
	return t.Store.Get(ctx, in)
}

func (t *tap) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	f, err := t.enter(ctx, call{table.OpBatchGet, len(in.Keys), in.Consistent, in.Keys[0]})
	if err != nil {
		return table.BatchGetResult{}, err
	}
	if f != works {
		return table.BatchGetResult{}, errDown
	}
	return t.Store.BatchGet(ctx, in)
}

func (t *tap) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		next, stop := iter.Pull2(t.Store.Query(ctx, q))
		defer stop()
		for {
			f, err := t.enter(ctx, call{table.OpQuery, 1, q.Consistent, table.Key{PK: q.PK}})
			if err == nil && f != works {
				err = errDown
			}
			if err != nil {
				yield(table.Page{}, err)
				return
			}
			page, err, ok := next()
			if !ok || !yield(page, err) || err != nil || !page.More {
				return
			}
		}
	}
}

func (t *tap) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return t.write(ctx, call{op: table.OpPut, key: in.Item.Key}, nil, func() (table.WriteResult, error) { return t.Store.Put(ctx, in) })
}

func (t *tap) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return t.write(ctx, call{op: table.OpUpdate, key: in.Key}, nil, func() (table.WriteResult, error) { return t.Store.Update(ctx, in) })
}

func (t *tap) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return t.write(ctx, call{op: table.OpDelete, key: in.Key}, nil, func() (table.WriteResult, error) { return t.Store.Delete(ctx, in) })
}

func (t *tap) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	conflict := &table.CancelledError{}
	for _, op := range in.Ops {
		conflict.Reasons = append(conflict.Reasons, table.CancelledOp{Key: op.Key(), Reason: table.CancelConflict})
	}
	return t.write(ctx, call{op: table.OpTransact, keys: len(in.Ops), key: in.Ops[0].Key()}, conflict,
		func() (table.WriteResult, error) { return t.Store.Transact(ctx, in) })
}
