// Package page makes pages of sorted lists. It reads a list or merges several lists until a page is
// full, bounds the table calls and the bytes of a page, and makes the cursor that continues after the
// page.
//
// # It must never
//
//   - Depend on an item or a list of the domain.
//   - Walk over a whole partition in one request: TableCalls is the bound (I11).
//   - Read a cursor of another list as a position in this list (I10).
//
// # The invariants it keeps
//
//   - I7: paging neither repeats nor skips items. See Merge and Collect.
//   - I9: memory does not grow with the length of a list. See Merge.
package page

// Of makes a page of limit items from a list that was read with one more item. If that item exists,
// the page has a cursor, and the next page is not empty. If the budget ended the read early, the next
// page continues after the last key that was read. A page also ends if the next item does not fit.
func Of[T any](read Stretch[T], limit int, s Scope, position func(T) string) List[T] {
	limit = min(limit, max(1, Fitting(read.Items)))
	list := List[T]{Items: read.Items, cursor: func(item T) string { return s.Cursor(position(item)) }}
	switch {
	case len(read.Items) > limit:
		list.Items, list.NextCursor = read.Items[:limit], list.cursor(read.Items[limit-1])
	case read.Cut != "":
		list.NextCursor = s.Cursor(read.Cut)
	}
	return list
}

// With returns list with items instead of its own items. The returned page ends earlier if the next
// item does not fit. of returns the original of an item.
func With[T, U any](list List[T], items []U, of func(U) T) List[U] {
	next := list.NextCursor
	if n := Fitting(items); n < len(items) {
		items, next = items[:n], list.cursor(of(items[n-1]))
	}
	return List[U]{Items: items, NextCursor: next}
}
