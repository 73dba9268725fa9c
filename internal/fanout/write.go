package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fanfare/internal/invariants"
	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// buffers is memory that is reused for the writes of several pages.
type buffers struct {
	keys   []byte
	ends   []int
	items  []table.Item
	writes []table.BatchWrite
}

// write puts the post's entries into the timelines of a page of followers, whose edges are
// given. It skips followers that are away for the post: the day of the post's id decides, so a
// late delivery skips the same followers. It returns the number of entries and the number of
// skipped followers.
func (w *Worker) write(ctx context.Context, p post, followers []table.Item) (delivered, skipped int64, err error) {
	away := func(edge table.Item) bool { return !schema.Pushed(&edge, p.day) }
	if skipped = int64(len(followers)); w.cfg.ActiveDays != 0 && slices.ContainsFunc(followers, away) {
		followers = slices.DeleteFunc(slices.Clone(followers), away)
	}
	if skipped -= int64(len(followers)); skipped > 0 {
		w.cfg.Skipped(int(skipped))
	}
	if len(followers) == 0 {
		return 0, skipped, nil
	}
	b := w.buffers.Get().(*buffers) //nolint:forcetypeassert // the pool holds nothing else
	defer w.buffers.Put(b)
	writes, err := b.entries(p, followers)
	if err != nil {
		return 0, 0, err
	}
	if err := w.writeAll(ctx, writes); err != nil {
		return 0, 0, fmt.Errorf("write timeline entries of post %s: %w", p.id, err)
	}
	w.cfg.Observe(len(followers), w.cfg.Now().Sub(p.at))
	return int64(len(followers)), skipped, nil
}

// entries builds the writes of a page. A single entry causes no allocation: the partition keys
// of a page are parts of one string, and the entries of a post share their sort key and
// attributes.
func (b *buffers) entries(p post, followers []table.Item) ([]table.BatchWrite, error) {
	b.keys, b.ends = b.keys[:0], slices.Grow(b.ends[:0], len(followers))
	for _, edge := range followers {
		user, ok := schema.UserOfSK(edge.Key.SK)
		if !ok {
			return nil, &schema.ParseError{Key: edge.Key, Problem: "not a follower"}
		}
		b.keys = schema.AppendTimelinePK(b.keys, user)
		b.ends = append(b.ends, len(b.keys))
	}
	keys, start := string(b.keys), 0
	b.items, b.writes = slices.Grow(b.items[:0], len(followers)), slices.Grow(b.writes[:0], len(followers))
	for i, end := range b.ends {
		b.items = append(b.items, table.Item{Key: table.Key{PK: keys[start:end], SK: p.sk}, Attrs: p.attrs})
		b.writes = append(b.writes, table.BatchWrite{Put: &b.items[i]})
		start = end
	}
	return b.writes, nil
}

// writeAll writes a page in as many concurrent parts as w.writers allows. If all parts succeed,
// the next page may have one part more. If the store was short of capacity, the next page has
// half as many parts. writeAll writes the failed parts again, in half as many parts, until it
// fails with a single part. Then the message has to wait. writeAll itself does not wait,
// because the store waits before it fails a write. If the store refused only a few writes, one
// partition is hot. The next pages need not write to this partition, so their number of parts
// does not change (I8).
func (w *Worker) writeAll(ctx context.Context, writes []table.BatchWrite) error {
	if invariants.Enabled {
		seen := make(map[table.Key]bool, len(writes))
		for _, put := range writes {
			invariants.Check(!seen[put.Key()], "I1: a page writes the entry %v twice", put.Key())
			seen[put.Key()] = true
		}
	}
	for limit := w.writers.now(); ; limit /= 2 {
		failed, refused, err := w.writeParts(ctx, writes, limit)
		short := refused > 0 && refused*tenth >= len(writes)
		if err == nil {
			if short {
				w.writers.halve(limit)
			} else {
				w.writers.raise()
			}
			return nil
		}
		if _, unavailable := errors.AsType[*table.UnavailableError](err); !unavailable || ctx.Err() != nil {
			return err
		}
		if short || refused == 0 {
			w.writers.halve(limit)
		}
		writes = failed
		if limit == 1 {
			return err
		}
	}
}

// tenth is the divisor for a tenth of a page. If the store refuses so many writes of a page,
// the whole store is short of capacity.
const tenth = 10

// writeParts writes up to limit parts at once, and returns how many writes the store refused
// for lack of capacity. If there is an error, writeParts also returns the writes of the failed
// parts, which it moved to the front of writes.
func (w *Worker) writeParts(ctx context.Context, writes []table.BatchWrite, limit int) (failed []table.BatchWrite, refused int, err error) {
	// A part holds full requests, for stores that take MaxBatchWrite items a request.
	requests := (len(writes) + table.MaxBatchWrite - 1) / table.MaxBatchWrite
	size := (requests + limit - 1) / limit * table.MaxBatchWrite
	parts := (len(writes) + size - 1) / size
	results, errs := make([]table.WriteResult, parts), make([]error, parts)
	part := func(i int) []table.BatchWrite { return writes[i*size : min((i+1)*size, len(writes))] }
	write := func(i int) {
		errs[i] = panics.Catch(func() (err error) {
			results[i], err = w.cfg.Store.BatchWrite(ctx, part(i))
			return err
		})
	}
	var others sync.WaitGroup
	for i := range errs[1:] {
		others.Go(func() { write(i + 1) })
	}
	write(0)
	others.Wait()
	failed = writes[:0]
	for i, err := range errs {
		refused += len(results[i].Refused)
		if err != nil {
			failed = append(failed, part(i)...)
		}
	}
	return failed, refused, errors.Join(errs...)
}

// parallelism limits the number of parts of a page that are written at the same time. The limit
// grows by one after each written page, and is halved when the store is short of capacity.
type parallelism struct {
	mu          sync.Mutex
	limit, most int
}

func (p *parallelism) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

func (p *parallelism) raise() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = min(p.limit+1, p.most)
}

// halve halves the limit with which a page was written. If several pages are written at the
// same time and fail together, the limit is halved once.
func (p *parallelism) halve(used int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = max(1, min(p.limit, used/2))
}
