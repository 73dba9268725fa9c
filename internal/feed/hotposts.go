package feed

import (
	"context"
	"sync"

	"fanfare/internal/panics"
	"fanfare/internal/table"
)

// sharedReads lets requests that want the same items at the same time share one
// consistent read, because one item serves no more than 3,000 read units a second
// and cannot be split: a celebrity's newest post is in every home.
//
// A request never takes the answer of a read that was under way when it arrived: a
// deletion may have been answered since that read looked (I2). It shares the next
// one. So it waits for two reads at most, and for one if it is alone.
type sharedReads struct {
	read func(context.Context, []table.Key) (map[table.Key]table.Item, error)

	mu sync.Mutex
	// underway holds the read of each key that is being read now.
	underway map[table.Key]*sharedRead
}

// sharedRead is the read of one key. Its fields are set when done is closed, but for
// next, which the mutex of sharedReads guards.
type sharedRead struct {
	done chan struct{}
	item *table.Item
	err  error
	// next begins when this one is done; nil if nobody wants it yet.
	next *sharedRead
}

// turn is a read that a request makes for itself and for those who join.
type turn struct {
	key  table.Key
	read *sharedRead
	// behind is the read to wait for first, nil for none.
	behind *sharedRead
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
		select {
		case <-t.read.done:
		case <-ctx.Done():
			return nil, unavailable("table", context.Cause(ctx))
		}
		if t.read.err != nil { // the other request may have been given up
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
		for key, it := range items {
			found[key] = it
		}
	}
	return found, nil
}

// arrive finds the turn of each key: to read at once, to read when the read under
// way is done, or to join who does that.
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
			later = append(later, turn{key: key, read: current.next, behind: current})
		default:
			joined = append(joined, turn{key: key, read: current.next})
		}
	}
	return now, later, joined
}

// take makes the turns' reads, all in one. Whatever happens, it ends them: others
// wait for them.
func (s *sharedReads) take(ctx context.Context, turns []turn) (err error) {
	if len(turns) == 0 {
		return nil
	}
	var items map[table.Key]table.Item
	defer func() { s.end(turns, items, err) }()
	keys := make([]table.Key, len(turns))
	for i, t := range turns {
		keys[i] = t.key
		if t.behind == nil {
			continue
		}
		select {
		case <-t.behind.done:
		case <-ctx.Done():
			return unavailable("table", context.Cause(ctx))
		}
	}
	return panics.Catch(func() error { // or the others would take it for a read that found nothing
		items, err = s.read(ctx, keys)
		return err
	})
}

func (s *sharedReads) end(turns []turn, items map[table.Key]table.Item, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range turns {
		t.read.err = err
		if it, ok := items[t.key]; ok {
			t.read.item = &it
		}
		switch {
		case s.underway[t.key] != t.read: // given up before the one ahead was done
			t.behind.next = nil
		case t.read.next != nil:
			s.underway[t.key] = t.read.next
		default:
			delete(s.underway, t.key)
		}
		close(t.read.done)
	}
}
