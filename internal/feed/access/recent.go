package access

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/fault"
	"fanfare/internal/memory"
	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const (
	// keptNames is the default of Config.KeptNames.
	keptNames = time.Minute
	// keptBlocks is the time for which a process remembers that an author has no blocks.
	keptBlocks = 2 * time.Second
	// maxRecent is the number of items that a process keeps. An item has about 300 bytes, and 9 KB at
	// most.
	maxRecent = 16_384
)

// Recent shares the authors and like counts that reads show (docs/decisions/0020). At any time one
// read of a key runs, for all requests that want the key. When the answer is too old, the next request
// reads the key again. Data that must show at once must not be read through Recent: see memory.Reads.
type Recent struct {
	read func(context.Context, []table.Key) (map[table.Key]table.Item, error)
	now  func() time.Time
	// age returns the maximum age of an answer for a key.
	age func(table.Key) time.Duration

	mu   sync.Mutex
	kept *simplelru.LRU[table.Key, *recentItem]
}

// recentItem is an item that was read, or whose read is in progress. done is closed when item (nil if
// the item is absent) and err are set. All items of one read share the channel done.
type recentItem struct {
	at   time.Time // the read began
	done chan struct{}
	item *table.Item
	err  error
}

func newRecentReads(a *Access) *Recent {
	kept, err := simplelru.NewLRU[table.Key, *recentItem](maxRecent, nil)
	if err != nil {
		panic(err) // unreachable: the only error is for a size below 1, and maxRecent is a constant
	}
	shown := a.Shown()
	return &Recent{
		kept: kept, now: a.Now,
		age: func(key table.Key) time.Duration {
			switch {
			case key.SK == schema.SortCount:
				// The other half of the window is for the aggregator: a count is at most two windows old.
				return a.LikeWindow / 2
			case key.SK == schema.SortHasBlocks:
				return min(keptBlocks, a.LikeWindow)
			case a.LikeWindow > 0:
				return a.KeptNames
			}
			return 0
		},
		read: func(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
			return a.BatchGet(ctx, keys, false, shown...)
		},
	}
}

// Shown returns the attributes of authors and like counts that reads show or compare. Reads show no
// ledgers and no custom data.
func (a *Access) Shown() []string {
	shown := []string{schema.AttrName, schema.AttrImageURL, schema.AttrBylineV, schema.AttrAfter, schema.AttrLikes, schema.AttrCount(messages.KindRepost), schema.AttrAsOf}
	for _, kind := range a.Reactions {
		shown = append(shown, schema.AttrCount(kind))
	}
	return shown
}

// ShownReactions returns the counts that reads show: the count of like, and the count of each further
// configured kind that a user has given.
func (a *Access) ShownReactions(count schema.LikeCount) map[string]int64 {
	shown := make(map[string]int64, 1+len(a.Reactions))
	if n := count.Kinds[schema.KindLike]; n > 0 {
		shown[schema.KindLike] = n
	}
	for _, kind := range a.Reactions {
		if n := count.Kinds[kind]; n > 0 {
			shown[kind] = n
		}
	}
	return shown
}

// ShowsReaction reports whether reads show reactions of a kind: like, and each configured kind.
func (a *Access) ShowsReaction(kind string) bool {
	return kind == schema.KindLike || slices.Contains(a.Reactions, kind)
}

// Get returns the items of distinct keys, from recent answers or from a read. For a key in ifKept, Get
// returns an item only if a recent answer has it.
func (r *Recent) Get(ctx context.Context, keys []table.Key, ifKept ...table.Key) (map[table.Key]table.Item, error) {
	items := make([]*recentItem, len(keys))
	var own []table.Key
	var due []*recentItem
	done := make(chan struct{})
	now := r.now()
	r.mu.Lock()
	for i, key := range keys {
		it, ok := r.kept.Get(key)
		if !ok || r.old(key, it, now) {
			it = &recentItem{at: now, done: done}
			r.kept.Add(key, it)
			own, due = append(own, key), append(due, it)
		}
		items[i] = it
	}
	found := make(map[table.Key]table.Item, len(keys)+len(ifKept))
	for _, key := range ifKept {
		it, ok := r.kept.Get(key)
		if !ok || r.old(key, it, now) {
			continue
		}
		select {
		case <-it.done:
			if it.item != nil {
				found[key] = *it.item
			}
		default:
		}
	}
	r.mu.Unlock()
	if len(own) > 0 {
		r.fetch(ctx, own, due)
		close(done)
	}
	for i, it := range items {
		select {
		case <-it.done: // the fast path: a select of one channel is cheaper
		default:
			if err := memory.Await(ctx, it.done); err != nil {
				return nil, fault.Wrap("table", err)
			}
		}
		if it.err != nil {
			return nil, it.err
		}
		if it.item != nil {
			found[keys[i]] = *it.item
		}
	}
	return found, nil
}

// One returns the item of one key, nil if the item is absent.
func (r *Recent) One(ctx context.Context, key table.Key) (*table.Item, error) {
	now := r.now()
	r.mu.Lock()
	it, ok := r.kept.Get(key)
	ok = ok && !r.old(key, it, now)
	r.mu.Unlock()
	if ok {
		select {
		case <-it.done:
			return it.item, it.err
		default:
		}
	}
	found, err := r.Get(ctx, []table.Key{key})
	if item, ok := found[key]; ok {
		return &item, err
	}
	return nil, err
}

// old reports whether the answer to a read of key is too old to be used.
func (r *Recent) old(key table.Key, it *recentItem, now time.Time) bool {
	return it.at.After(now) || now.Sub(it.at) >= r.age(key) // after now: the clock was set back
}

// fetch reads keys into items. fetch does not end with the request, because other requests wait for
// the read. Recent does not keep a failed read. Recent does not keep the absence of a profile either,
// because the named user may be about to make the profile.
func (r *Recent) fetch(ctx context.Context, keys []table.Key, items []*recentItem) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memory.ReadTime)
	defer cancel()
	var found map[table.Key]table.Item
	err := panics.Catch(func() (err error) {
		found, err = r.read(ctx, keys)
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, key := range keys {
		own := items[i]
		if it, ok := found[key]; ok {
			own.item = &it
		}
		if own.err = err; err == nil && (own.item != nil || key.SK != schema.SortInfo) {
			continue
		}
		if kept, ok := r.kept.Peek(key); ok && kept == own {
			r.kept.Remove(key)
		}
	}
}

// Drop ends the answers for a key whose item this process has deleted, or may have deleted. A read in
// progress is not kept.
func (r *Recent) Drop(key table.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Remove(key)
}

// Keep replaces a kept item by the version that this process has just written. began is a time before the write, because another
// process may write before the answer. A read in progress is not kept.
func (r *Recent) Keep(it table.Item, began time.Time) {
	done := make(chan struct{})
	close(done)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Add(it.Key, &recentItem{at: began, done: done, item: &it})
}
