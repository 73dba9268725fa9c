package embedded

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/table"
)

// Every read sees the newest state, whether the read is consistent or not. Only the number of units differs.

// pageBytes bounds a page if the caller names no size. DynamoDB has the same bound.
const pageBytes = 1 << 20

// Get implements table.Store.
func (s *Store) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	var res table.GetResult
	if err := in.Validate(); err != nil {
		return res, err
	}
	if err := s.enter(ctx, table.OpGet); err != nil {
		return res, err
	}
	defer s.leave()
	it, size, slot, settled, err := s.recall(in.Key, in.Project)
	if err == nil && !settled {
		err = s.settle(ctx, slot)
	}
	if err != nil {
		return res, s.failure(table.OpGet, err)
	}
	return table.GetResult{Item: it, Units: table.Units{Read: table.ReadUnits(size, in.Consistent)}}, nil
}

// BatchGet implements table.Store.
func (s *Store) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	var res table.BatchGetResult
	if err := in.Validate(); err != nil {
		return res, err
	}
	if err := s.enter(ctx, table.OpBatchGet); err != nil {
		return res, err
	}
	defer s.leave()
	var waits []uint32
	res.Items = make([]table.Item, 0, len(in.Keys))
	for _, key := range in.Keys {
		it, size, slot, settled, err := s.recall(key, in.Project)
		if err != nil {
			return table.BatchGetResult{}, s.failure(table.OpBatchGet, err)
		}
		if !settled {
			waits = append(waits, slot)
		}
		if it != nil {
			res.Items = append(res.Items, *it)
		}
		res.Units.Read += table.ReadUnits(size, in.Consistent)
	}
	if err := s.settle(ctx, waits...); err != nil {
		return table.BatchGetResult{}, s.failure(table.OpBatchGet, err)
	}
	return res, nil
}

// read returns an item, nil if it is absent, and its billed size.
func (s *Store) read(key table.Key) (*table.Item, int, error) {
	buf, ok := s.keys.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer s.keys.Put(buf)
	*buf = appendKey((*buf)[:0], key)
	value, closer, err := s.db.Get(*buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	it := &table.Item{Key: key}
	size, err := sizeOf(len(key.PK)+len(key.SK), value)
	if err == nil {
		it.Attrs, err = decodeAttrs(string(value))
	}
	if err := errors.Join(err, closer.Close()); err != nil {
		return nil, 0, err
	}
	return it, size, nil
}

// Query implements table.Store.
func (s *Store) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		if err := q.Validate(); err != nil {
			yield(table.Page{}, err)
			return
		}
		lower, upper := bounds(q)
		for first := true; ; first = false {
			page, last, err := s.page(ctx, q, first, lower, upper)
			if err != nil {
				yield(table.Page{}, s.failure(table.OpQuery, err))
				return
			}
			if !yield(page, nil) || !page.More {
				return
			}
			if q.Descending {
				upper = last
			} else {
				last = append(last, 0)
				lower = last
			}
		}
	}
}

// page reads one page, and returns the key of its last record. first is set for the first page of a query.
func (s *Store) page(ctx context.Context, q table.Query, first bool, lower, upper []byte) (table.Page, []byte, error) {
	p := pageReader{store: s, q: q}
	if slices.Compare(lower, upper) >= 0 {
		p.page.Units.Read = table.ReadUnits(0, q.Consistent)
		return p.page, nil, nil
	}
	if err := s.enter(ctx, table.OpQuery); err != nil {
		return p.page, nil, err
	}
	defer s.leave()
	partition := s.hash.partition(q.PK)
	settled, err := s.recallPage(&p, partition, first, lower, upper)
	if err == nil && !settled {
		p.waits = append(p.waits, slotOf(partition))
	}
	if err == nil {
		err = s.settle(ctx, p.waits...)
	}
	if err != nil {
		return table.Page{}, nil, err
	}
	p.page.Units.Read = table.ReadUnits(p.size, q.Consistent)
	return p.page, p.last, nil
}

// pageReader collects one page.
type pageReader struct {
	store *Store
	q     table.Query
	page  table.Page
	size  int
	last  []byte
	// next is the sort key that follows a descending page, "" if there is none.
	next string
	// text has the sort key and the value of one item. In a projected page, text has the sort
	// keys of all items, and attrs has the attributes of all items; ends has the end of each
	// item in text and attrs.
	text  []byte
	attrs []table.Attr
	ends  []itemEnd
	// count is the number of items.
	count int
	// items is an iterator over the items that hints name, nil before the first hint. key is
	// the buffer for the key of the last of these items.
	items *pebble.Iterator
	key   []byte
	// waits has the slots whose last commits the page saw, and whose commits may not be durable yet.
	waits []uint32
}

// itemEnd is the end of an item in the text and the attrs of its page.
type itemEnd struct{ text, attrs int }

func (p *pageReader) read(lower, upper []byte) (err error) {
	it, err := p.store.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	defer func() {
		if p.items != nil {
			err = errors.Join(err, p.items.Close())
		}
	}()
	first, step := it.First, it.Next
	if p.q.Descending {
		first, step = it.Last, it.Prev
	}
	for ok := first(); ok; ok = step() {
		if p.full() {
			p.page.More = true
			if p.q.Descending && !p.q.Index {
				p.next = string(it.Key()[3+len(p.q.PK):])
			}
			break
		}
		if err := p.add(it); err != nil {
			return err
		}
		p.last = append(p.last[:0], it.Key()...)
	}
	switch {
	case !p.q.EndsOnly:
		p.cutItems()
	case p.page.More:
		p.page.Items = []table.Item{{Key: table.Key{PK: p.q.PK, SK: string(p.last[3+len(p.q.PK):])}}}
	}
	return it.Error()
}

// cutItems makes the items of a projected page. A single item costs no allocation: its sort key
// is a part of one string, and its attributes are a part of one slice.
func (p *pageReader) cutItems() {
	if len(p.ends) == 0 {
		return
	}
	text, start := string(p.text), itemEnd{}
	p.page.Items = make([]table.Item, len(p.ends))
	for i, end := range p.ends {
		p.page.Items[i].Key = table.Key{PK: p.q.PK, SK: text[start.text:end.text]}
		if end.attrs > start.attrs {
			p.page.Items[i].Attrs = p.attrs[start.attrs:end.attrs:end.attrs]
		}
		start = end
	}
}

func (p *pageReader) full() bool {
	return p.size >= pageBytes || (p.q.PageSize > 0 && p.count == p.q.PageSize)
}

// largePage is the number of items from which a projected page allocates the memory for a whole
// page, so that the memory grows only once.
const largePage = 64

// grow allocates the memory for a whole page, assuming that the remaining items are like the items so far.
func (p *pageReader) grow() {
	left := min(p.q.PageSize-p.count, (pageBytes-p.size)*p.count/p.size)
	if left > 0 {
		p.ends = slices.Grow(p.ends, left+1)
		p.text = slices.Grow(p.text, (left+1)*len(p.text)/(p.count-1))
		p.attrs = slices.Grow(p.attrs, left*len(p.attrs)/p.count)
	}
}

// add adds an item to the page: the item of the record, or the item that the hint names.
func (p *pageReader) add(it *pebble.Iterator) error {
	if p.q.Index {
		return p.addHinted(it)
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	sk := it.Key()[3+len(p.q.PK):]
	var size int
	if p.attrs, size, err = appendProjected(p.attrs, len(p.q.PK)+len(sk), value, p.q.Project); err != nil {
		return err
	}
	p.size += size
	p.count++
	if p.q.EndsOnly {
		return nil
	}
	if p.q.Project != nil {
		if p.count == largePage {
			p.grow()
		}
		p.text = append(p.text, sk...)
		p.ends = append(p.ends, itemEnd{len(p.text), len(p.attrs)})
		return nil
	}
	p.text = append(append(p.text[:0], sk...), value...)
	text := string(p.text)
	item := table.Item{Key: table.Key{PK: p.q.PK, SK: text[:len(sk)]}}
	if item.Attrs, err = decodeAttrs(text[len(sk):]); err != nil {
		return err
	}
	p.page.Items = append(p.page.Items, item)
	return nil
}

// addHinted adds the item that a hint names to the page, if the hint is right.
func (p *pageReader) addHinted(hints *pebble.Iterator) (err error) {
	pk, sk, key, err := parseIndexKey(hints.Key())
	if err != nil {
		return err
	}
	if p.items == nil {
		// The items and the hints come from the same moment, because the iterator is a clone.
		if p.items, err = hints.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{}}); err != nil {
			return err
		}
	}
	p.key = appendKey(p.key[:0], key)
	if !p.items.SeekPrefixGE(p.key) {
		p.passBy(key)
		return p.items.Error()
	}
	value, err := p.items.ValueAndErr()
	if err != nil {
		return err
	}
	item := table.Item{Key: key}
	if item.Attrs, err = decodeAttrs(string(value)); err != nil {
		return err
	}
	if !hinted(&item, pk, sk) {
		p.passBy(key)
		return nil
	}
	p.size += table.Size(item)
	p.count++
	if names := p.q.Project; names != nil {
		item.Attrs = slices.DeleteFunc(item.Attrs, func(a table.Attr) bool { return !slices.Contains(names, a.Name) })
	}
	p.page.Items = append(p.page.Items, item)
	return nil
}

// passBy notes that the page skipped an item that is no longer in the index. The write that removed the item
// from the index may not have read the item. So only the slot of the item's own partition has the commit of
// that write.
func (p *pageReader) passBy(key table.Key) {
	if slot := slotOf(p.store.hash.partition(key.PK)); p.store.commits.pending(slot) != nil {
		p.waits = append(p.waits, slot)
	}
}

// hinted reports whether an item is in the index under the keys pk and sk.
func hinted(it *table.Item, pk, sk string) bool {
	return table.InIndex(it) && it.Str(table.AttrGSI1PK) == pk && it.Str(table.AttrGSI1SK) == sk
}
