package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Get reads one item, nil if it is absent. With projected attributes, it returns only
// these.
func (a *Access) Get(ctx context.Context, key table.Key, consistent bool, project ...string) (*table.Item, error) {
	res, err := a.Store.Get(ctx, table.GetInput{Key: key, Consistent: consistent, Project: project})
	if err != nil {
		return nil, fault.Wrap("table", err)
	}
	return res.Item, nil
}

// Batches returns the number of requests in which BatchGet reads keys keys.
func Batches(keys int) int { return (keys + table.MaxBatchGet - 1) / table.MaxBatchGet }

// BatchGet reads distinct keys, in requests of 100 keys that run at the same time. With
// projected attributes, it returns only these.
func (a *Access) BatchGet(ctx context.Context, keys []table.Key, consistent bool, project ...string) (map[table.Key]table.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	parts := slices.Collect(slices.Chunk(keys, table.MaxBatchGet))
	read := make([][]table.Item, len(parts))
	reads := make([]func(context.Context) error, len(parts))
	for i, part := range parts {
		reads[i] = func(ctx context.Context) error {
			res, err := a.Store.BatchGet(ctx, table.BatchGetInput{Keys: part, Consistent: consistent, Project: project})
			read[i] = res.Items
			return err
		}
	}
	if err := a.All(ctx, reads...); err != nil {
		return nil, fault.Wrap("table", err)
	}
	found := make(map[table.Key]table.Item, len(keys))
	for _, items := range read {
		for _, it := range items {
			found[it.Key] = it
		}
	}
	return found, nil
}

// maxConflicts is how often a transaction is sent when it conflicts with other writes.
const maxConflicts = 10

// Transact sends a transaction, and retries it while it conflicts with other writes of
// the same items. A failed condition, or a conflict that lasts, is a
// *table.CancelledError. If the outcome is unknown, Transact does not retry, but the
// service's caller may: every flow here can be repeated.
func (a *Access) Transact(ctx context.Context, ops ...table.TransactOp) error {
	return a.TransactAs(ctx, table.TransactInput{Ops: ops})
}

// TransactAs is Transact for a transaction with settings of its own.
func (a *Access) TransactAs(ctx context.Context, in table.TransactInput) error {
	waits := backoff.Exponential{First: 20 * time.Millisecond, Most: 400 * time.Millisecond}
	for attempt := 1; ; attempt++ {
		_, err := a.Store.Transact(ctx, in)
		cancelled, ok := errors.AsType[*table.CancelledError](err)
		if !ok || !cancelled.Retryable() || attempt == maxConflicts {
			return err
		}
		if ended := backoff.Wait(ctx, waits.Jittered(attempt, a.Jitter())); ended != nil {
			return fmt.Errorf("retry a transaction: %w: %w", ended, err) // the caller knows that the transaction did nothing
		}
	}
}

// ConditionFailed reports whether one of a transaction's conditions failed.
func ConditionFailed(err error) bool {
	cancelled, ok := errors.AsType[*table.CancelledError](err)
	return ok && !cancelled.Retryable()
}

// All runs reads and returns the first error. If the table is local, it runs one after the
// other, on the request's own goroutine. A new goroutine begins with a small stack, which a
// read of Pebble has to grow, and that costs more than it saves.
func (a *Access) All(ctx context.Context, reads ...func(context.Context) error) error {
	if !a.Local && len(reads) > 1 {
		return panics.All(ctx, reads...)
	}
	for _, read := range reads {
		if err := panics.Catch(func() error { return read(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// Readers is the number of shards of a like list, or of delivery records, that one
// request reads at the same time, and the number of reminders that a home read sends
// (I9).
const Readers = 20

// RetryChanged calls try until no other call has changed the follow in between.
func (a *Access) RetryChanged(try func() (changed bool, err error)) error {
	for n := 1; ; n++ {
		changed, err := try()
		if !changed || n == maxTries {
			return fault.Wrap("table", err)
		}
	}
}

// maxTries is how often a follow or unfollow is tried while other calls for the same
// two users change the follow between its read and its transaction.
const maxTries = 3

// EachItem calls visit with each item of a range, until it fails.
func (a *Access) EachItem(ctx context.Context, q table.Query, visit func(table.Item) error) error {
	for page, err := range a.Store.Query(ctx, q) {
		if err != nil {
			return fault.Wrap("table", err)
		}
		for _, it := range page.Items {
			if err := visit(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// AddTo returns the update that adds n to an attribute.
func AddTo(key table.Key, attr string, n int64) *table.UpdateInput {
	return &table.UpdateInput{Key: key, Add: []table.Attr{{Name: attr, Value: table.N(n)}}}
}

// Lives returns how long posts stay in homes.
func (a *Access) Lives(ctx context.Context) (schema.Lifetimes, error) {
	lives, err := a.Lifetimes.Current(ctx)
	return lives, fault.Wrap("table", err)
}

// OldestShown returns the lowest post id that homes still show: in entries, in merged lists
// and in pulled lists. Entries may be older, if their TTL was longer.
func (a *Access) OldestShown(ctx context.Context) (string, error) {
	lives, err := a.Lives(ctx)
	return id.Floor(lives.Oldest(a.Now())), err
}

// getAll is a consistent BatchGet, and a Get of one key.
func (a *Access) getAll(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
	if len(keys) != 1 {
		return a.BatchGet(ctx, keys, true)
	}
	it, err := a.Get(ctx, keys[0], true)
	if it == nil {
		return nil, err
	}
	return map[table.Key]table.Item{keys[0]: *it}, nil
}

// Posts reads posts by their keys, consistently. It shares a read with other requests for
// the same posts.
func (a *Access) Posts(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
	found, err := a.posts(ctx, keys)
	return found, fault.Wrap("table", err)
}

// PostRefs is Posts for posts by their ids.
func (a *Access) PostRefs(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
	found, err := a.refs(ctx, keys)
	return found, fault.Wrap("table", err)
}
