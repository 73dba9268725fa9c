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

// Get reads one item, and returns nil if the item is absent. If project names attributes, Get returns
// only these attributes.
func (a *Access) Get(ctx context.Context, key table.Key, consistent bool, project ...string) (*table.Item, error) {
	res, err := a.Store.Get(ctx, table.GetInput{Key: key, Consistent: consistent, Project: project})
	if err != nil {
		return nil, fault.Wrap("table", err)
	}
	return res.Item, nil
}

// Batches returns the number of requests in which BatchGet reads a number of keys.
func Batches(keys int) int { return (keys + table.MaxBatchGet - 1) / table.MaxBatchGet }

// BatchGet reads distinct keys, in concurrent requests of 100 keys. If project names attributes,
// BatchGet returns only these attributes.
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

// maxConflicts is the maximum number of attempts of a transaction that conflicts with other writes.
const maxConflicts = 10

// Transact sends a transaction, and retries the transaction while it conflicts with other writes of
// the same items. Transact returns a *table.CancelledError for a failed condition, or for a conflict
// that lasts. If the outcome is unknown, Transact does not retry, but the service's caller may,
// because every operation here can be repeated.
func (a *Access) Transact(ctx context.Context, ops ...table.TransactOp) error {
	return a.TransactAs(ctx, table.TransactInput{Ops: ops})
}

// TransactAs sends a transaction as Transact does, with the settings of in.
func (a *Access) TransactAs(ctx context.Context, in table.TransactInput) error {
	waits := backoff.Exponential{First: 20 * time.Millisecond, Most: 400 * time.Millisecond}
	for attempt := 1; ; attempt++ {
		_, err := a.Store.Transact(ctx, in)
		cancelled, ok := errors.AsType[*table.CancelledError](err)
		if !ok || !cancelled.Retryable() || attempt == maxConflicts {
			return err
		}
		if ended := backoff.Wait(ctx, waits.Jittered(attempt, a.Jitter())); ended != nil {
			return fmt.Errorf("retry a transaction: %w: %w", ended, err) // the caller knows that the transaction had no effect
		}
	}
}

// ConditionFailed reports whether the condition of a write, or one of a transaction's conditions, failed.
func ConditionFailed(err error) bool {
	if _, failed := errors.AsType[*table.ConditionError](err); failed {
		return true
	}
	cancelled, ok := errors.AsType[*table.CancelledError](err)
	return ok && !cancelled.Retryable()
}

// All runs reads and returns the first error. If the table is local, All runs the reads one after
// another, on the request's own goroutine. A new goroutine begins with a small stack. A read of Pebble
// has to grow the stack, which costs more time than concurrency saves.
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

// Readers is the number of shards of a like list, or of delivery records, that one request reads
// concurrently. Readers is also the number of reminders that a home read sends (I9).
const Readers = 20

// RetryChanged calls try again while other calls change the follow during try, up to maxTries times.
func (a *Access) RetryChanged(try func() (changed bool, err error)) error {
	for n := 1; ; n++ {
		changed, err := try()
		if !changed || n == maxTries {
			return fault.Wrap("table", err)
		}
	}
}

// maxTries is the maximum number of attempts of a follow or unfollow, while other calls for the same
// two users change the follow between the read and the transaction.
const maxTries = 3

// EachItem calls visit with each item of a range, until visit fails.
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

// Lives returns the times for which homes show posts.
func (a *Access) Lives(ctx context.Context) (schema.Lifetimes, error) {
	lives, err := a.Lifetimes.Current(ctx)
	return lives, fault.Wrap("table", err)
}

// OldestShown returns the lowest post id that homes still show: in entries, in merged lists and in
// pulled lists. Entries may be older, if their TTL was longer than the present TTL.
func (a *Access) OldestShown(ctx context.Context) (string, error) {
	lives, err := a.Lives(ctx)
	return id.Floor(lives.Oldest(a.Now())), err
}

// getAll reads keys consistently: one key with Get, several keys with BatchGet.
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

// Posts reads posts by their keys, consistently. Concurrent requests for the same posts share a read.
func (a *Access) Posts(ctx context.Context, by Viewer, keys []table.Key) (Readables, error) {
	found, err := a.posts(ctx, keys)
	return Readables{found}, fault.Wrap("table", err)
}

// PostRefs reads distinct posts by their ids, consistently. Concurrent requests for the same posts share a
// read. If an item is damaged, PostRefs returns the other posts beside the error.
func (a *Access) PostRefs(ctx context.Context, by Viewer, posts []string) (map[string]Seen, error) {
	keys := make([]table.Key, len(posts))
	for i, post := range posts {
		keys[i] = schema.PostByIDKey(post)
	}
	found, err := a.refs(ctx, keys)
	if err != nil {
		return nil, fault.Wrap("table", err)
	}
	seen := make(map[string]Seen, len(found))
	for _, it := range found {
		ref, damaged := schema.ParsePostRef(it)
		if damaged != nil {
			err = damaged
			continue
		}
		seen[ref.ID] = Seen{ref}
	}
	return seen, fault.Wrap("table", err)
}
