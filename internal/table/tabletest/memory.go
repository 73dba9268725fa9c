package tabletest

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sort"
	"sync"

	"fanfare/internal/table"
)

// Memory is a table in memory. The suite compares backends with Memory, and tests of the domain
// use Memory because it is fast. It is as strict as DynamoDB, its index is always up to date,
// and it deletes no expired items.
type Memory struct {
	mu    sync.Mutex
	items map[table.Key]table.Item
	// base and index have the rows of each partition in order.
	base, index map[string][]row
}

// row is an item's position in a partition of the table or of the index.
type row struct {
	sk  string // SK, or GSI1SK in the index
	key table.Key
}

func (r row) compare(o row) int {
	return cmp.Or(cmp.Compare(r.sk, o.sk), cmp.Compare(r.key.PK, o.key.PK), cmp.Compare(r.key.SK, o.key.SK))
}

// NewMemory returns an empty table.
func NewMemory() *Memory {
	return &Memory{
		items: make(map[table.Key]table.Item),
		base:  make(map[string][]row),
		index: make(map[string][]row),
	}
}

// pageBytes is the size of a page if the caller names no size, as in DynamoDB.
const pageBytes = 1 << 20

// Get implements table.Store.
func (m *Memory) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if err := begin(ctx, in.Validate()); err != nil {
		return table.GetResult{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.read(in.Key)
	res := table.GetResult{Units: readUnits(old, in.Consistent)}
	if old != nil {
		it := project(*old, in.Project)
		res.Item = &it
	}
	return res, nil
}

// BatchGet implements table.Store.
func (m *Memory) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	var res table.BatchGetResult
	if err := begin(ctx, in.Validate()); err != nil {
		return res, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range in.Keys {
		old := m.read(key)
		res.Units = res.Units.Plus(readUnits(old, in.Consistent))
		if old != nil {
			res.Items = append(res.Items, project(*old, in.Project))
		}
	}
	return res, nil
}

// Query implements table.Store.
func (m *Memory) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		invalid := q.Validate()
		var last *row
		for {
			if err := begin(ctx, invalid); err != nil {
				yield(table.Page{}, err)
				return
			}
			var page table.Page
			page, last = m.page(q, last)
			if q.EndsOnly && page.More {
				page.Items = []table.Item{{Key: last.key}}
			} else if q.EndsOnly {
				page.Items = nil
			}
			if !yield(page, nil) || !page.More {
				return
			}
		}
	}
}

// page reads the page after last, or the first page if last is nil.
func (m *Memory) page(q table.Query, last *row) (table.Page, *row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := m.base[q.PK]
	if q.Index {
		rows = m.index[q.PK]
	}
	var page table.Page
	size := 0
	nth := func(i int) row {
		if q.Descending {
			return rows[len(rows)-1-i]
		}
		return rows[i]
	}
	first := sort.Search(len(rows), func(i int) bool { // a binary search, so that each page costs the same
		return begun(q, nth(i).sk) && (last == nil || later(q.Descending, nth(i).compare(*last)))
	})
	for i := first; i < len(rows) && !ended(q, nth(i).sk); i++ {
		r := nth(i)
		if size >= pageBytes || (q.PageSize > 0 && len(page.Items) == q.PageSize) {
			page.More = true
			break
		}
		it := m.items[r.key]
		size += table.Size(it)
		page.Items = append(page.Items, project(it, q.Project))
		last = &r
	}
	page.Units.Read = table.ReadUnits(size, q.Consistent)
	return page, last
}

// Scan implements table.Store. It reads in the order of the keys.
func (m *Memory) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	var page table.ScanPage
	if err := begin(ctx, in.Validate()); err != nil {
		return page, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size, last := 0, table.Key{}
	for _, pk := range slices.Sorted(maps.Keys(m.base)) {
		if pk < in.After.PK {
			continue
		}
		for _, r := range m.base[pk] {
			if pk == in.After.PK && r.sk <= in.After.SK {
				continue
			}
			if size >= pageBytes || in.PageSize > 0 && len(page.Items) == in.PageSize {
				page.Next, page.Units.Read = last, table.ReadUnits(size, false)
				return page, nil
			}
			it := m.items[r.key]
			size += table.Size(it)
			page.Items, last = append(page.Items, *clone(&it)), r.key
		}
	}
	page.Units.Read = table.ReadUnits(size, false)
	return page, nil
}

// begun reports whether sk is in the range of q or after it, in reading order.
func begun(q table.Query, sk string) bool {
	if q.After != "" && !later(q.Descending, cmp.Compare(sk, q.After)) {
		return false
	}
	return q.Descending && (q.High == "" || sk <= q.High) || !q.Descending && sk >= q.Low
}

// ended reports whether sk is after the range of q, in reading order.
func ended(q table.Query, sk string) bool {
	return q.Descending && sk < q.Low || !q.Descending && q.High != "" && sk > q.High
}

// later reports whether the result c of a comparison means "later in reading order".
func later(descending bool, c int) bool {
	if descending {
		return c < 0
	}
	return c > 0
}

// Put implements table.Store.
func (m *Memory) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return m.single(ctx, table.TransactOp{Put: &in}, in.Validate())
}

// Update implements table.Store.
func (m *Memory) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	returnNew := in.ReturnNew
	in.ReturnNew = false
	res, err := m.single(ctx, table.TransactOp{Update: &in}, in.Validate())
	if !returnNew {
		res.Item = nil
	}
	return res, err
}

// Delete implements table.Store.
func (m *Memory) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	return m.single(ctx, table.TransactOp{Delete: &in}, in.Validate())
}

func (m *Memory) single(ctx context.Context, op table.TransactOp, invalid error) (table.WriteResult, error) {
	var res table.WriteResult
	if err := begin(ctx, invalid); err != nil {
		return res, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.read(op.Key())
	if !table.Holds(op.Cond(), old) {
		return res, &table.ConditionError{Key: op.Key(), Old: clone(old), Units: table.FailedCost(op, old)}
	}
	after, err := op.Apply(old)
	if err != nil {
		return res, err
	}
	res.Units = table.WriteCost(old, after)
	m.write(op.Key(), old, after)
	if op.Update != nil {
		res.Item = clone(after)
	}
	return res, nil
}

// BatchWrite implements table.Store.
func (m *Memory) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	var res table.WriteResult
	if err := begin(ctx, table.ValidateBatch(writes)); err != nil {
		return res, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range writes {
		old := m.read(w.Key())
		res.Units = res.Units.Plus(table.WriteCost(old, w.Put))
		m.write(w.Key(), old, w.Put)
	}
	return res, nil
}

// Transact implements table.Store.
func (m *Memory) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	var res table.WriteResult
	if err := begin(ctx, in.Validate()); err != nil {
		return res, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	reasons := make([]table.CancelledOp, len(in.Ops))
	after := make([]*table.Item, len(in.Ops))
	var failed table.Units
	cancelled := false
	for i, op := range in.Ops {
		old := m.read(op.Key())
		reasons[i].Key = op.Key()
		failed = failed.Plus(table.FailedCost(op, old)).Plus(table.FailedCost(op, old))
		if !table.Holds(op.Cond(), old) {
			cancelled = true
			reasons[i].Reason, reasons[i].Old = table.CancelCondition, clone(old)
			continue
		}
		var err error
		if after[i], err = op.Apply(old); err != nil {
			return res, err
		}
		// A check is billed like a write that changes nothing.
		res.Units = res.Units.Plus(table.TransactCost(old, after[i]))
	}
	if cancelled {
		return table.WriteResult{}, &table.CancelledError{Reasons: reasons, Units: failed}
	}
	for i, op := range in.Ops {
		if op.Check == nil {
			m.write(op.Key(), m.read(op.Key()), after[i])
		}
	}
	return res, nil
}

// begin returns the reason why a call cannot start, nil if the call can start.
func begin(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	if err := ctx.Err(); err != nil {
		return &table.UnavailableError{Op: "memory", Err: err}
	}
	return nil
}

func (m *Memory) read(key table.Key) *table.Item {
	if it, ok := m.items[key]; ok {
		return &it
	}
	return nil
}

func (m *Memory) write(key table.Key, old, after *table.Item) {
	if old != nil {
		remove(m.base, key.PK, row{key.SK, key})
		if table.InIndex(old) {
			remove(m.index, old.Str(table.AttrGSI1PK), row{old.Str(table.AttrGSI1SK), key})
		}
		delete(m.items, key)
	}
	if after != nil {
		m.items[key] = *clone(after)
		insert(m.base, key.PK, row{key.SK, key})
		if table.InIndex(after) {
			insert(m.index, after.Str(table.AttrGSI1PK), row{after.Str(table.AttrGSI1SK), key})
		}
	}
}

func insert(parts map[string][]row, pk string, r row) {
	at, _ := slices.BinarySearchFunc(parts[pk], r, row.compare)
	parts[pk] = slices.Insert(parts[pk], at, r)
}

func remove(parts map[string][]row, pk string, r row) {
	rows := parts[pk]
	if at, ok := slices.BinarySearchFunc(rows, r, row.compare); ok {
		parts[pk] = slices.Delete(rows, at, at+1)
	}
	if len(parts[pk]) == 0 {
		delete(parts, pk)
	}
}

func clone(it *table.Item) *table.Item {
	if it == nil {
		return nil
	}
	return &table.Item{Key: it.Key, Attrs: slices.Clone(it.Attrs)}
}

func project(it table.Item, names []string) table.Item {
	if names == nil {
		return *clone(&it)
	}
	out := table.Item{Key: it.Key}
	for _, a := range it.Attrs {
		if slices.Contains(names, a.Name) {
			out.Attrs = append(out.Attrs, a)
		}
	}
	return out
}

func readUnits(it *table.Item, consistent bool) table.Units {
	return table.Units{Read: table.ReadUnits(sizeOf(it), consistent)}
}

func sizeOf(it *table.Item) int {
	if it == nil {
		return 0
	}
	return table.Size(*it)
}
