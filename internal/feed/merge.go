package feed

import (
	"context"
	"iter"
	"slices"

	"fanfare/internal/table"
)

// merge returns the first want items of the union of sorted lists, each once.
//
// Each list must be complete or have at least want items, or pages would skip items
// (I7). An item that was cut off from a list cannot be among the first want of the
// union, because want items of its own list come before it.
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

// collect reads pages until it has want items or the list ends, and reports whether
// the list may have more. parse returns the items of one page that are to be shown.
func collect[T any](pages iter.Seq2[table.Page, error], want int, parse func([]table.Item) ([]T, error)) (items []T, more bool, err error) {
	for page, err := range pages {
		if err != nil {
			return nil, false, unavailable("table", err)
		}
		shown, err := parse(page.Items)
		if err != nil {
			return nil, false, err
		}
		items = append(items, shown...)
		if len(items) >= want {
			return items[:want], page.More || len(items) > want, nil
		}
	}
	return items, false, nil
}

// each turns a parse function for one item into one for a page.
func each[T any](parse func(table.Item) (item T, show bool, err error)) func([]table.Item) ([]T, error) {
	return func(page []table.Item) ([]T, error) {
		items := make([]T, 0, len(page))
		for _, it := range page {
			item, show, err := parse(it)
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

// limit returns the size of the requested page.
func (p PageRequest) limit() int {
	if p.Limit <= 0 {
		return DefaultLimit
	}
	return min(p.Limit, MaxLimit)
}

// page cuts a list for which one more item than limit was asked. If that item is
// there, the page has a cursor, and the next page is not empty.
func page[T any](items []T, limit int, s scope, position func(T) string) List[T] {
	if len(items) <= limit {
		return List[T]{Items: items}
	}
	return List[T]{Items: items[:limit], NextCursor: s.cursor(position(items[limit-1]))}
}

// userPage is page for a list of one user's items. The user must exist. Only an empty
// list checks that, because a user who owns any item has a profile.
func userPage[T any](ctx context.Context, s *Service, items []T, in PageRequest, scope scope, position func(T) string) (List[T], error) {
	if len(items) == 0 && in.Cursor == "" {
		if err := s.requireUser(ctx, scope.owner); err != nil {
			return List[T]{}, err
		}
	}
	return page(items, in.limit(), scope, position), nil
}
