package tabletest

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"fanfare/internal/table"
)

// Stale wraps s so that eventually consistent reads and reads of the index are often stale.
// Each write keeps the previous version of its items, and the seed decides which later reads
// get that version. Consistent reads, writes and conditions go to s unchanged. Stale knows only
// the writes that go through it. After a few stale answers, reads of an item are up to date
// again, so a caller that repeats its read succeeds.
func Stale(s table.Store, seed uint64) table.Store {
	return &stale{Store: s, rng: rand.New(rand.NewPCG(seed, seed)), former: make(map[table.Key]*version)}
}

type stale struct {
	table.Store

	mu     sync.Mutex
	rng    *rand.Rand
	former map[table.Key]*version
}

// version is an item before a write, with the number of reads that may still get this version.
type version struct {
	item *table.Item
	left int
}

// maxStaleAnswers is the maximum number of reads that may miss one write.
const maxStaleAnswers = 3

// keep stores the versions of items before a write. Sometimes it leaves an older version in
// place, so that a read may miss several writes at once.
func (s *stale) keep(ctx context.Context, keys ...table.Key) error {
	before, err := s.Store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: true})
	if err != nil {
		return err
	}
	found := make(map[table.Key]*table.Item, len(before.Items))
	for i := range before.Items {
		found[before.Items[i].Key] = &before.Items[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if s.former[key] == nil || s.rng.IntN(2) == 0 {
			s.former[key] = &version{found[key], 1 + s.rng.IntN(maxStaleAnswers)}
		}
	}
	return nil
}

// serve returns the previous version of an item, and true if this read gets that version.
func (s *stale) serve(key table.Key) (*table.Item, bool) {
	v := s.former[key]
	if v == nil || s.rng.IntN(4) == 0 {
		return nil, false
	}
	if v.left--; v.left == 0 {
		delete(s.former, key)
	}
	return v.item, true
}

func (s *stale) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	res, err := s.Store.Get(ctx, in)
	if err != nil || in.Consistent {
		return res, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.serve(in.Key); ok {
		res = table.GetResult{Units: readUnits(old, false)}
		if old != nil {
			it := project(*old, in.Project)
			res.Item = &it
		}
	}
	return res, nil
}

func (s *stale) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if in.Consistent || len(in.Keys) == 0 {
		return s.Store.BatchGet(ctx, in)
	}
	names := in.Project
	in.Project = nil
	res, err := s.Store.BatchGet(ctx, in)
	if err != nil {
		return res, err
	}
	fresh := make(map[table.Key]*table.Item, len(res.Items))
	for i := range res.Items {
		fresh[res.Items[i].Key] = &res.Items[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	res = table.BatchGetResult{}
	for _, key := range in.Keys {
		it, ok := s.serve(key)
		if !ok {
			it = fresh[key]
		}
		res.Units = res.Units.Plus(readUnits(it, false))
		if it != nil {
			res.Items = append(res.Items, project(*it, names))
		}
	}
	return res, nil
}

// Query answers from a table in memory that has the partition's items, some in a previous version.
func (s *stale) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if q.Consistent {
		return s.Store.Query(ctx, q)
	}
	return func(yield func(table.Page, error) bool) {
		whole := table.Query{Index: q.Index, PK: q.PK, Consistent: !q.Index}
		items, _, err := table.Collect(s.Store.Query(ctx, whole), 0)
		if err != nil {
			yield(table.Page{}, err)
			return
		}
		view := NewMemory()
		for i := range items {
			view.write(items[i].Key, nil, &items[i])
		}
		s.mu.Lock()
		for _, key := range s.formerOf(whole, view) {
			if old, ok := s.serve(key); ok {
				view.write(key, view.read(key), old)
			}
		}
		s.mu.Unlock()
		for page, err := range view.Query(ctx, q) {
			if !yield(page, err) {
				return
			}
		}
	}
}

// Scan may return previous versions of the items of a page, or miss new items.
func (s *stale) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	page, err := s.Store.Scan(ctx, in)
	if err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items := make([]table.Item, 0, len(page.Items))
	for _, it := range page.Items {
		old, stale := s.serve(it.Key)
		switch {
		case !stale:
			items = append(items, it)
		case old != nil:
			items = append(items, *old)
		}
	}
	page.Items = items
	return page, nil
}

// formerOf returns, in order, the keys of the items that are in a view of a partition, or that
// were in the view earlier.
func (s *stale) formerOf(q table.Query, view *Memory) []table.Key {
	var keys []table.Key
	for key, v := range s.former {
		was := key.PK == q.PK
		if q.Index {
			was = table.InIndex(v.item) && v.item.Str(table.AttrGSI1PK) == q.PK
		}
		if was || view.read(key) != nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b table.Key) int {
		if c := strings.Compare(a.PK, b.PK); c != 0 {
			return c
		}
		return strings.Compare(a.SK, b.SK)
	})
	return keys
}

func (s *stale) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if in.Validate() == nil {
		if err := s.keep(ctx, in.Item.Key); err != nil {
			return table.WriteResult{}, err
		}
	}
	return s.Store.Put(ctx, in)
}

func (s *stale) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	if in.Validate() == nil {
		if err := s.keep(ctx, in.Key); err != nil {
			return table.WriteResult{}, err
		}
	}
	return s.Store.Update(ctx, in)
}

func (s *stale) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	if in.Validate() == nil {
		if err := s.keep(ctx, in.Key); err != nil {
			return table.WriteResult{}, err
		}
	}
	return s.Store.Delete(ctx, in)
}

func (s *stale) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	if table.ValidateBatch(writes) == nil {
		keys := make([]table.Key, len(writes))
		for i, w := range writes {
			keys[i] = w.Key()
		}
		if err := s.keep(ctx, keys...); err != nil {
			return table.WriteResult{}, err
		}
	}
	return s.Store.BatchWrite(ctx, writes)
}

func (s *stale) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if in.Validate() == nil {
		keys := make([]table.Key, len(in.Ops))
		for i, op := range in.Ops {
			keys[i] = op.Key()
		}
		if err := s.keep(ctx, keys...); err != nil {
			return table.WriteResult{}, err
		}
	}
	return s.Store.Transact(ctx, in)
}
