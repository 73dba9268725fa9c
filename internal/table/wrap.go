package table

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

// HideExpired wraps s so that reads omit items whose ttl has passed, because DynamoDB deletes
// items days late. Conditions still see such items. A condition that has to treat such items as
// absent uses Less on AttrTTL.
func HideExpired(s Store, now func() time.Time) Store { return &hideExpired{s, now} }

// Expired reports whether the item's ttl is now or earlier.
func Expired(it Item, now time.Time) bool {
	ttl := it.Get(AttrTTL)
	return ttl.Kind() == KindNumber && ttl.Int() <= now.Unix()
}

type hideExpired struct {
	Store
	now func() time.Time
}

func (h *hideExpired) Get(ctx context.Context, in GetInput) (GetResult, error) {
	in.Project = withTTL(in.Project)
	res, err := h.Store.Get(ctx, in)
	if err == nil && res.Item != nil && Expired(*res.Item, h.now()) {
		res.Item = nil
	}
	return res, err
}

func (h *hideExpired) BatchGet(ctx context.Context, in BatchGetInput) (BatchGetResult, error) {
	in.Project = withTTL(in.Project)
	res, err := h.Store.BatchGet(ctx, in)
	res.Items = living(res.Items, h.now())
	return res, err
}

func (h *hideExpired) Query(ctx context.Context, q Query) iter.Seq2[Page, error] {
	if q.EndsOnly { // an expired item may also be the end of a page
		return h.Store.Query(ctx, q)
	}
	q.Project = withTTL(q.Project)
	return func(yield func(Page, error) bool) {
		for page, err := range h.Store.Query(ctx, q) {
			page.Items = living(page.Items, h.now())
			if !yield(page, err) {
				return
			}
		}
	}
}

func (h *hideExpired) Scan(ctx context.Context, in ScanInput) (ScanPage, error) {
	page, err := h.Store.Scan(ctx, in)
	page.Items = living(page.Items, h.now())
	return page, err
}

func withTTL(project []string) []string {
	if project == nil {
		return nil
	}
	if slices.Contains(project, AttrTTL) {
		return project
	}
	return append(append(make([]string, 0, len(project)+1), project...), AttrTTL)
}

func living(items []Item, now time.Time) []Item {
	for i := range items {
		if Expired(items[i], now) { // makes a copy only if an item is left out
			kept := append(make([]Item, 0, len(items)), items[:i]...)
			for _, it := range items[i+1:] {
				if !Expired(it, now) {
					kept = append(kept, it)
				}
			}
			return kept
		}
	}
	return items
}

// Op is the name of a kind of call to a Store, as in metrics.
type Op string

// These are the kinds of call.
const (
	OpGet        Op = "get"
	OpBatchGet   Op = "batch_get"
	OpQuery      Op = "query"
	OpScan       Op = "scan"
	OpPut        Op = "put"
	OpUpdate     Op = "update"
	OpDelete     Op = "delete"
	OpBatchWrite Op = "batch_write"
	OpTransact   Op = "transact"
)

// Measure wraps s so that observe is called for each answer, with the kind of call, its units
// and its error. For a query, observe is called for each page. observe runs on the caller's
// goroutine and must return quickly.
func Measure(s Store, observe func(Op, Units, error)) Store {
	return MeasureContext(s, func(_ context.Context, op Op, u Units, err error) { observe(op, u, err) })
}

// MeasureContext is like Measure, for an observer that needs the context of the call.
func MeasureContext(s Store, observe func(context.Context, Op, Units, error)) Store {
	return &measured{s, observe}
}

type measured struct {
	store   Store
	observe func(context.Context, Op, Units, error)
}

func (m *measured) Get(ctx context.Context, in GetInput) (GetResult, error) {
	res, err := m.store.Get(ctx, in)
	m.observe(ctx, OpGet, res.Units, err)
	return res, err
}

func (m *measured) BatchGet(ctx context.Context, in BatchGetInput) (BatchGetResult, error) {
	res, err := m.store.BatchGet(ctx, in)
	m.observe(ctx, OpBatchGet, res.Units, err)
	return res, err
}

func (m *measured) Query(ctx context.Context, q Query) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for page, err := range m.store.Query(ctx, q) {
			m.observe(ctx, OpQuery, page.Units, err)
			if !yield(page, err) {
				return
			}
		}
	}
}

func (m *measured) Scan(ctx context.Context, in ScanInput) (ScanPage, error) {
	page, err := m.store.Scan(ctx, in)
	m.observe(ctx, OpScan, page.Units, err)
	return page, err
}

func (m *measured) Put(ctx context.Context, in PutInput) (WriteResult, error) {
	return m.write(ctx, OpPut)(m.store.Put(ctx, in))
}

func (m *measured) Update(ctx context.Context, in UpdateInput) (WriteResult, error) {
	return m.write(ctx, OpUpdate)(m.store.Update(ctx, in))
}

func (m *measured) Delete(ctx context.Context, in DeleteInput) (WriteResult, error) {
	return m.write(ctx, OpDelete)(m.store.Delete(ctx, in))
}

func (m *measured) BatchWrite(ctx context.Context, writes []BatchWrite) (WriteResult, error) {
	return m.write(ctx, OpBatchWrite)(m.store.BatchWrite(ctx, writes))
}

func (m *measured) Transact(ctx context.Context, in TransactInput) (WriteResult, error) {
	return m.write(ctx, OpTransact)(m.store.Transact(ctx, in))
}

func (m *measured) write(ctx context.Context, op Op) func(WriteResult, error) (WriteResult, error) {
	return func(res WriteResult, err error) (WriteResult, error) {
		if err == nil {
			m.observe(ctx, op, res.Units, nil)
			return res, nil
		}
		m.observe(ctx, op, Billed(res, err), err)
		return res, err
	}
}

// Billed returns the units of a write. A write whose condition failed also costs units.
func Billed(res WriteResult, err error) Units {
	if failed, ok := errors.AsType[*ConditionError](err); ok {
		return failed.Units
	}
	if cancelled, ok := errors.AsType[*CancelledError](err); ok {
		return cancelled.Units
	}
	return res.Units
}
