package archive_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"fanfare/internal/objects"
)

func segmentName(term, n uint64) string { return fmt.Sprintf("t/%016x/s/%012x", term, n) }

// Create implements objects.Store.
func (b *before) Create(ctx context.Context, name string, body objects.Body) error {
	b.create(name)
	return b.Store.Create(ctx, name, body)
}

// counted counts lists and reads. While block is set, reads wait for the end of their ctx.
type counted struct {
	objects.Store
	lists int
	gets  atomic.Int64
	block map[string]bool
}

// Get implements objects.Store.
func (c *counted) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	c.gets.Add(1)
	if c.block[name] {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.Store.Get(ctx, name)
}

// List implements objects.Store.
func (c *counted) List(ctx context.Context, prefix, after string) iter.Seq2[objects.Object, error] {
	c.lists++
	return c.Store.List(ctx, prefix, after)
}
