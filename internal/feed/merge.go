package feed

import (
	"iter"
	"slices"

	"fanfare/internal/table"
)

// merge returns the first want items of the union of sorted lists, each once.
//
// It is right only if each list is complete, or cut off after at least want items
// (I7): merging must stop at the furthest item that was read of a list which has
// more, and behind no list's cut can an item be among the first want, because the
// list itself has want items before it.
func merge[T any](want int, compare func(a, b T) int, lists ...[]T) []T {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, compare)
	all = slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 })
	if len(all) > want {
		clear(all[want:])
		all = all[:want]
	}
	return all
}

// collect reads pages until want items are there or the list ends, and says whether
// it may have more. see makes of one page the items to show; it may leave some out.
func collect[T any](pages iter.Seq2[table.Page, error], want int, see func([]table.Item) ([]T, error)) (items []T, more bool, err error) {
	for page, err := range pages {
		if err != nil {
			return nil, false, unavailable("table", err)
		}
		seen, err := see(page.Items)
		if err != nil {
			return nil, false, err
		}
		items = append(items, seen...)
		if len(items) >= want {
			return items[:want], page.More || len(items) > want, nil
		}
	}
	return items, false, nil
}

// each makes a see for collect of a function for one item.
func each[T any](see func(table.Item) (item T, show bool, err error)) func([]table.Item) ([]T, error) {
	return func(page []table.Item) ([]T, error) {
		items := make([]T, 0, len(page))
		for _, it := range page {
			item, show, err := see(it)
			if err != nil {
				return nil, unavailable("table", err)
			}
			if show {
				items = append(items, item)
			}
		}
		return items, nil
	}
}

// limit is the size of the page that was asked for.
func (p PageRequest) limit() int {
	if p.Limit <= 0 {
		return DefaultLimit
	}
	return min(p.Limit, MaxLimit)
}

// page cuts a list that was read one item ahead: with that item there is a next
// page, and it is not empty; without it there is none.
func page[T any](items []T, limit int, s scope, position func(T) string) List[T] {
	if len(items) <= limit {
		return List[T]{Items: items}
	}
	return List[T]{Items: items[:limit], NextCursor: s.cursor(position(items[limit-1]))}
}
