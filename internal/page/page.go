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
//   - I7: paging neither repeats nor skips. See MergeLists and Collect.
//   - I9: memory does not grow with a list. See MergeLists.
package page

// Of cuts a list for which one more item than limit was asked. If that item is
// there, the page has a cursor, and the next page is not empty. A page that the budget
// cut short goes on after the last key that was read. A page also ends where the next item
// does not fit.
func Of[T any](read Stretch[T], limit int, s Scope, position func(T) string) List[T] {
	limit = min(limit, max(1, Fitting(read.Items)))
	switch {
	case len(read.Items) > limit:
		return List[T]{Items: read.Items[:limit], NextCursor: s.Cursor(position(read.Items[limit-1]))}
	case read.Cut != "":
		return List[T]{Items: read.Items, NextCursor: s.Cursor(read.Cut)}
	}
	return List[T]{Items: read.Items}
}

// Fit returns a page of items that goes on at next. It ends earlier where the next item does
// not fit.
func Fit[T any](items []T, next string, scope Scope, position func(T) string) List[T] {
	if n := Fitting(items); n < len(items) {
		items, next = items[:n], scope.Cursor(position(items[n-1]))
	}
	return List[T]{Items: items, NextCursor: next}
}
