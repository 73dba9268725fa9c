package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// scratch is memory that the writes of one page after the other share.
type scratch struct {
	keys   []byte
	ends   []int
	items  []table.Item
	writes []table.BatchWrite
}

// write puts the post's entries into the timelines of followers, whose edges it is
// given, and returns how many.
func (w *Worker) write(ctx context.Context, p post, followers []table.Item) (int64, error) {
	if len(followers) == 0 {
		return 0, nil
	}
	s := w.scratches.Get().(*scratch)
	defer w.scratches.Put(s)
	writes, err := s.entries(p, followers)
	if err != nil {
		return 0, err
	}
	if err := w.writeAll(ctx, writes); err != nil {
		return 0, fmt.Errorf("write timeline entries of post %s: %w", p.id, err)
	}
	w.Observe(len(followers), w.Now().Sub(p.at))
	return int64(len(followers)), nil
}

// entries builds the writes of a page. Its partition keys are parts of one string,
// and the entries of a post share their sort key and attributes: a delivery
// allocates nothing of its own.
func (s *scratch) entries(p post, followers []table.Item) ([]table.BatchWrite, error) {
	s.keys, s.ends = s.keys[:0], slices.Grow(s.ends[:0], len(followers))
	for _, edge := range followers {
		user, ok := schema.UserOfSK(edge.Key.SK)
		if !ok {
			return nil, &schema.ParseError{Key: edge.Key, Problem: "not a follower"}
		}
		s.keys = schema.AppendTimelinePK(s.keys, user)
		s.ends = append(s.ends, len(s.keys))
	}
	keys, start := string(s.keys), 0
	s.items, s.writes = slices.Grow(s.items[:0], len(followers)), slices.Grow(s.writes[:0], len(followers))
	for i, end := range s.ends {
		s.items = append(s.items, table.Item{Key: table.Key{PK: keys[start:end], SK: p.sk}, Attrs: p.attrs})
		s.writes = append(s.writes, table.BatchWrite{Put: &s.items[i]})
		start = end
	}
	return s.writes, nil
}

// writeAll writes a page in as many parts at once as the window allows: one more for
// the next page, or half as many if the store was short of capacity. The parts that
// it gave up are written again in half as many, until one alone fails: then the
// message has to wait. The store itself has waited before it gives up a write, so
// nothing waits here.
func (w *Worker) writeAll(ctx context.Context, writes []table.BatchWrite) error {
	for width := w.writers.now(); ; width /= 2 {
		var throttled bool
		var err error
		if writes, throttled, err = w.writeParts(ctx, writes, width); err == nil {
			if throttled {
				w.writers.narrow(width)
			} else {
				w.writers.widen()
			}
			return nil
		}
		if _, short := errors.AsType[*table.UnavailableError](err); !short || ctx.Err() != nil {
			return err
		}
		w.writers.narrow(width)
		if width == 1 {
			return err
		}
	}
}

// writeParts writes in up to width parts at once, and tells whether the store was short
// of capacity for one that it wrote. With an error it returns what was in the parts
// that failed, moved to the front of writes.
func (w *Worker) writeParts(ctx context.Context, writes []table.BatchWrite, width int) (left []table.BatchWrite, throttled bool, err error) {
	// A part is a number of full requests, for stores that write MaxBatchWrite
	// in one.
	requests := (len(writes) + table.MaxBatchWrite - 1) / table.MaxBatchWrite
	size := (requests + width - 1) / width * table.MaxBatchWrite
	results, errs := make([]table.WriteResult, (len(writes)+size-1)/size), make([]error, (len(writes)+size-1)/size)
	part := func(i int) []table.BatchWrite { return writes[i*size : min((i+1)*size, len(writes))] }
	write := func(i int) {
		errs[i] = panics.Catch(func() (err error) {
			results[i], err = w.Store.BatchWrite(ctx, part(i))
			return err
		})
	}
	var others sync.WaitGroup
	for i := range errs[1:] {
		others.Go(func() { write(i + 1) })
	}
	write(0)
	others.Wait()
	var failed int
	for i, err := range errs {
		throttled = throttled || results[i].Throttled
		if err != nil {
			failed += copy(writes[failed:], part(i))
		}
	}
	return writes[:failed], throttled, errors.Join(errs...)
}

// window bounds how many writes of a page are on their way at once: one more after
// each page that was written, half as many when the store lacks capacity.
type window struct {
	mu         sync.Mutex
	size, most int
}

func (w *window) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

func (w *window) widen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size = min(w.size+1, w.most)
}

// narrow halves the window that a write saw. Pages that fail together halve it
// once.
func (w *window) narrow(seen int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size = max(1, min(w.size, seen/2))
}
