package feed

import (
	"context"

	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/table"
)

// listing is a list that a partition of the table holds in the order of its pages.
type listing[T any] struct {
	scope page.Scope
	query table.Query
	// sortKey returns the sort key of a position, and position the position of an item.
	sortKey  func(position string) string
	position func(T) string
	// read returns the shown items of a page of the partition.
	read func([]table.Item) ([]T, error)
	fill page.Refill
}

// stretch reads a page, and the item after it.
func (l listing[T]) stretch(ctx context.Context, s *Service, in page.Request) (page.Stretch[T], error) {
	position, err := l.scope.Position(in.Cursor)
	if err != nil {
		return page.Stretch[T]{}, err
	}
	if position != "" {
		l.query.After = l.sortKey(position)
	}
	return page.Collect(ctx, s.access.Store, l.query, in.Size()+1, l.fill, l.read)
}

// page returns a page.
func (l listing[T]) page(ctx context.Context, s *Service, in page.Request) (page.List[T], error) {
	read, err := l.stretch(ctx, s, in)
	return page.Of(read, in.Size(), l.scope, l.position), err
}

// userPage returns a page of a list that belongs to the user who owns its scope. The user must exist.
func (l listing[T]) userPage(ctx context.Context, s *Service, in page.Request) (page.List[T], error) {
	read, err := l.stretch(ctx, s, in)
	if err != nil {
		return page.List[T]{}, err
	}
	return access.UserPage(ctx, s.access, read, in, l.scope, l.position)
}

// shownAs returns the read of a listing that shows each item.
func shownAs[T, U any](parse func(table.Item) (T, error), as func(T) U) func([]table.Item) ([]U, error) {
	return page.Each(func(it table.Item) (U, bool, error) {
		t, err := parse(it)
		return as(t), true, err
	})
}
