package feed

import (
	"context"
	"maps"
	"sync"

	"fanfare/internal/panics"
	"fanfare/internal/table"
)

// sharedReads lets requests that want the same items at the same time share one
// consistent read. It exists because one item serves at most 3,000 read units a second
// and cannot be split, while a celebrity's newest post is in very many homes.
//
// A request never takes the answer of a read that was under way when it arrived,
// because a deletion may have been answered since that read looked (I2). It shares the
// next read. So it waits for two reads at most, and for one if it is alone.
type sharedReads struct {
	read func(context.Context, []table.Key) (map[table.Key]table.Item, error)

	mu sync.Mutex
	// underway holds the read of each key that is being read now.
	underway map[table.Key]*sharedRead
}

// sharedRead is the read of one key. item and err are set when done is closed.
type sharedRead struct {
	done chan struct{}
	item *table.Item
	err  error
	// next begins when this read is done, nil if no request wants it yet. The mutex of
	// sharedReads guards it.
	next *sharedRead
}

// wait returns nil once the read is done.
func (r *sharedRead) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return unavailable("table", context.Cause(ctx))
	}
}

// turn is a request's part in the read of one key.
type turn struct {
	key  table.Key
	read *sharedRead
	// ahead is the read to wait for first, nil for none.
	ahead *sharedRead
}

func newSharedReads(read func(context.Context, []table.Key) (map[table.Key]table.Item, error)) *sharedReads {
	return &sharedReads{read: read, underway: map[table.Key]*sharedRead{}}
}

// get reads distinct keys.
func (s *sharedReads) get(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
	now, later, joined := s.arrive(keys)
	found := make(map[table.Key]table.Item, len(keys))
	var alone []table.Key
	err := all(ctx,
		func(ctx context.Context) error { return s.take(ctx, now) },
		func(ctx context.Context) error { return s.take(ctx, later) },
	)
	if err != nil {
		return nil, err
	}
	for _, t := range joined {
		if err := t.read.wait(ctx); err != nil {
			return nil, err
		}
		if t.read.err != nil { // perhaps only because the other request was cancelled
			alone = append(alone, t.key)
		}
	}
	for _, turns := range [][]turn{now, later, joined} {
		for _, t := range turns {
			if t.read.item != nil {
				found[t.key] = *t.read.item
			}
		}
	}
	if len(alone) > 0 {
		items, err := s.read(ctx, alone)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, items)
	}
	return found, nil
}

// arrive sorts the keys: read now, read later when the read under way is done, or
// joined to the later read of another request.
func (s *sharedReads) arrive(keys []table.Key) (now, later, joined []turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		switch current := s.underway[key]; {
		case current == nil:
			read := &sharedRead{done: make(chan struct{})}
			s.underway[key] = read
			now = append(now, turn{key: key, read: read})
		case current.next == nil:
			current.next = &sharedRead{done: make(chan struct{})}
			later = append(later, turn{key: key, read: current.next, ahead: current})
		default:
			joined = append(joined, turn{key: key, read: current.next})
		}
	}
	return now, later, joined
}

// take reads the keys of the turns in one go. It ends the turns whatever happens,
// because other requests wait for them.
func (s *sharedReads) take(ctx context.Context, turns []turn) (err error) {
	if len(turns) == 0 {
		return nil
	}
	var items map[table.Key]table.Item
	defer func() { s.end(turns, items, err) }()
	keys := make([]table.Key, len(turns))
	for i, t := range turns {
		keys[i] = t.key
		if t.ahead == nil {
			continue
		}
		if err := t.ahead.wait(ctx); err != nil {
			return err
		}
	}
	return panics.Catch(func() error { // else a panic would look to the others like a read that found nothing
		items, err = s.read(ctx, keys)
		return err
	})
}

// end hands the results to the waiting requests, and makes the next read of each key
// the one under way.
func (s *sharedReads) end(turns []turn, items map[table.Key]table.Item, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range turns {
		t.read.err = err
		if it, ok := items[t.key]; ok {
			t.read.item = &it
		}
		switch {
		case s.underway[t.key] != t.read: // cancelled before the read ahead was done
			t.ahead.next = nil
		case t.read.next != nil:
			s.underway[t.key] = t.read.next
		default:
			delete(s.underway, t.key)
		}
		close(t.read.done)
	}
}
