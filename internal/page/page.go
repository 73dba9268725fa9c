// Package page makes pages of sorted lists: it reads a list or merges several ones until a page
// is full, bounds the table calls and the bytes of a page, and makes the cursor that continues
// behind it.
//
// # It must never
//
//   - Know an item or a list of the domain.
//   - Walk over a whole partition in one request: TableCalls is the bound (I11).
//   - Read a cursor of another list as a position in this one (I10).
//
// # The invariants it keeps
//
//   - I7: paging neither repeats nor skips. See Merge and Collect.
//   - I9: memory does not grow with a list. See Merge.
package page

// Of cuts a list for which one more item than limit was asked. If that item is
// there, the page has a cursor, and the next page is not empty. A page that the budget
// cut short continues after the last key that was read. A page also ends where the next item
// does not fit.
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

// With returns list with items in the place of its own. It ends where the next item does not
// fit. of returns the list's item that an item was made of.
func With[T, U any](list List[T], items []U, of func(U) T) List[U] {
	next := list.NextCursor
	if n := Fitting(items); n < len(items) {
		items, next = items[:n], list.cursor(of(items[n-1]))
	}
	return List[U]{Items: items, NextCursor: next}
}
