package live

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/panics"
)

const (
	// tailGap is the time between two ticks of the tail. tailTime ends a tick whose reads hang.
	tailGap  = time.Second
	tailTime = 5 * time.Second
	// tailBack is the time by which a tick reads further back than the last tick, because the index lags
	// and clocks differ. Every longEach-th tick is long: it reads back by tailLong, for late entries of
	// the index.
	tailBack = 3 * time.Second
	tailLong = 30 * time.Second
	longEach = 10
	// tailMost is the maximum time that a tick reads back, and the time for which known keeps posts.
	tailMost = time.Minute
)

// Posts returns the new posts of all authors, the newest removals of users, and the newest changes of
// posts.
type Posts interface {
	PostsMade(ctx context.Context, low time.Time) (home.Made, error)
}

// tail reads the new posts while streams exist, and sends hints to the homes that may show these
// posts. tail makes the streams of removed users check their profile, and reports deletions and edits. If the tail
// fails, homes have only their slow looks, because a table that is short of capacity must not get more
// reads.
type tail struct {
	hub *Hub
	// good is the time of the last successful tick.
	good  time.Time
	ticks int
	// known has the hinted posts and the events of removals and changes, with the times until which known keeps them.
	known map[string]time.Time
}

func (h *Hub) runTail() {
	t := &tail{hub: h, good: h.cfg.Now(), known: map[string]time.Time{}}
	tick := time.NewTicker(tailGap)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		if h.ctx.Err() != nil { // the end arrived at the same moment
			return
		}
		if h.open.Load() == 0 {
			t.good = h.cfg.Now()
		} else if err := panics.Catch(func() error { return t.tick(h.ctx) }); err != nil && h.ctx.Err() == nil {
			h.cfg.Log.Debug("new posts not read for streams", zap.Error(err))
		}
		h.cfg.Counters.StreamTail(h.cfg.Now().Sub(t.good))
	}
}

// tick reads the new posts once. A tick takes its units before the waiting looks.
func (t *tail) tick(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tailTime)
	defer cancel()
	ctx, cost := access.WithCost(ctx)
	now := t.hub.cfg.Now()
	made, err := t.hub.cfg.Posts.PostsMade(ctx, t.from(now))
	t.hub.budget.use(cost.Units())
	if err != nil {
		return err
	}
	for _, post := range made.Posts {
		if at := access.TimeOf(post.ID); t.learns(post.ID, at) {
			t.hub.saw(at)
			t.hub.hint(post.Author, post.ID, hintTry)
		}
	}
	for _, removal := range made.Removals {
		if t.learns(removal.Event, removal.At) {
			t.hub.Removed(removal.User)
		}
	}
	for _, change := range made.Changes {
		if !t.learns(change.Event, access.TimeOf(change.Event)) {
			continue
		}
		if change.Deleted {
			t.hub.Deleted(change.Author, change.Post, change.Referred)
		} else {
			t.hub.Edited(change.Author, change.Post, change.Referred)
		}
	}
	if made.More || now.Sub(t.good) > tailMost { // some changes were not read
		t.hub.stale()
	}
	if t.good = now; t.ticks%longEach == 0 {
		for post, until := range t.known {
			if until.Before(now) {
				delete(t.known, post)
			}
		}
	}
	t.ticks++
	return nil
}

// learns records an event and its time, and reports whether the event is new.
func (t *tail) learns(what string, at time.Time) bool {
	_, known := t.known[what]
	t.known[what] = at.Add(tailMost)
	return !known
}

// from returns the time from which a tick reads. The time of the newest post may decide instead of
// the clock, because the clock of this process may be ahead.
func (t *tail) from(now time.Time) time.Time {
	from := now
	for _, at := range []time.Time{t.good, t.hub.newestPost()} {
		if !at.IsZero() && at.Before(from) {
			from = at
		}
	}
	from = from.Add(-tailBack)
	if long := now.Add(-tailLong); t.ticks%longEach == 0 && long.Before(from) {
		from = long
	}
	if most := now.Add(-tailMost); from.Before(most) {
		return most
	}
	return from
}

// hint sends a hint of a post to the homes that may show the post.
func (h *Hub) hint(user, post string, first time.Duration) {
	by := h.readers.hash(user)
	for _, hm := range h.readers.hinted(by) {
		hm.agenda.hint(post, by, first)
	}
}

// saw records the time of a post.
func (h *Hub) saw(at time.Time) {
	for ms := at.UnixMilli(); ; {
		if known := h.newest.Load(); ms <= known || h.newest.CompareAndSwap(known, ms) {
			return
		}
	}
}

// newestPost returns the time of the newest post that this process has seen, or zero if it has seen no
// post.
func (h *Hub) newestPost() (at time.Time) {
	if ms := h.newest.Load(); ms > 0 {
		at = time.UnixMilli(ms)
	}
	return at
}
