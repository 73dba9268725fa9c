package embedded

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/table"
)

// Scan implements table.Store. The order of the items is the order of the stored keys.
func (s *Store) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	if err := in.Validate(); err != nil {
		return table.ScanPage{}, err
	}
	if err := s.enter(ctx, table.OpScan); err != nil {
		return table.ScanPage{}, err
	}
	defer s.leave()
	page, slots, err := s.scan(in)
	if err == nil {
		err = s.settle(ctx, slots...)
	}
	if err != nil {
		return table.ScanPage{}, s.failure(table.OpScan, err)
	}
	return page, nil
}

// scan reads a page, and returns the slots of its partitions.
func (s *Store) scan(in table.ScanInput) (page table.ScanPage, slots []uint32, err error) {
	lower := []byte{kindItem}
	if in.After != (table.Key{}) {
		lower = append(appendKey(nil, in.After), 0)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: []byte{kindItem + 1}})
	if err != nil {
		return page, nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	size, last := 0, table.Key{}
	for ok := it.First(); ok; ok = it.Next() {
		if size >= pageBytes || in.PageSize > 0 && len(page.Items) == in.PageSize {
			page.Next = last
			break
		}
		item, err := scanned(it)
		if err != nil {
			return page, nil, err
		}
		size += table.Size(item)
		if page.Items = append(page.Items, item); item.Key.PK != last.PK {
			slots = append(slots, slotOf(s.hash.partition(item.Key.PK)))
		}
		last = item.Key
	}
	page.Units.Read = table.ReadUnits(size, false)
	return page, slots, it.Error()
}

// Items returns the number of items in the table, including expired items. It reads all keys once.
func (s *Store) Items(ctx context.Context) (n int64, err error) {
	if err := s.enter(ctx, opItems); err != nil {
		return 0, err
	}
	defer s.leave()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindItem}, UpperBound: []byte{kindItem + 1}})
	if err != nil {
		return 0, s.failure(opItems, err)
	}
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		n++
	}
	if err := errors.Join(it.Error(), it.Close(), ctx.Err()); err != nil {
		return 0, s.failure(opItems, err)
	}
	return n, nil
}

const opItems = table.Op("count items")

func scanned(it *pebble.Iterator) (item table.Item, err error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return item, err
	}
	if item.Key, err = parseKey(it.Key()); err != nil {
		return item, err
	}
	item.Attrs, err = decodeAttrs(string(value))
	return item, err
}
