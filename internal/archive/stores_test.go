package archive_test

import (
	"context"
	"fmt"
	"iter"

	"fanfare/internal/objects"
)

func segmentName(term, n uint64) string { return fmt.Sprintf("t/%016x/s/%012x", term, n) }

// Create implements objects.Store.
func (b *before) Create(ctx context.Context, name string, body objects.Body) error {
	b.create(name)
	return b.Store.Create(ctx, name, body)
}

// counted counts lists.
type counted struct {
	objects.Store
	lists int
}

// List implements objects.Store.
func (c *counted) List(ctx context.Context, prefix, after string) iter.Seq2[objects.Object, error] {
	c.lists++
	return c.Store.List(ctx, prefix, after)
}
