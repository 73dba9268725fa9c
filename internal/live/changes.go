package live

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// This file has the rules C1 to C6 about deleted and edited posts (docs/decisions/0023).

const (
	// mostRecent is the number of changes of posts that a process remembers (I9).
	mostRecent = 4096
	// mostEdited is the maximum number of edited posts that wait for a look of a home (I9).
	mostEdited = 64
	// editTry is the time from an edit to the look at the post. editGap is the minimum time between two
	// such looks of a home.
	editTry = 100 * time.Millisecond
	editGap = time.Second
)

// change is a deletion or an edit of a post.
type change struct {
	ref     access.Ref
	by      author
	deleted bool
	at      time.Time
}

// recent has the last changes of posts, for streams that join later and for looks that began earlier.
type recent struct {
	mu sync.RWMutex
	// ring ascends by time from next on.
	ring []change
	next int
	// deleted has the posts of the deletions in ring.
	deleted map[string]struct{}
	// lost is the time of the newest change that left ring.
	lost time.Time
}

// add records a change, and reports whether the change is new. Nothing follows a deletion.
func (r *recent) add(c change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.deleted[c.ref.Post]; known {
		return false
	}
	if c.deleted {
		r.deleted[c.ref.Post] = struct{}{}
	}
	c.at = time.Now()
	if len(r.ring) < mostRecent {
		r.ring = append(r.ring, c)
		return true
	}
	old := r.ring[r.next]
	if old.deleted {
		delete(r.deleted, old.ref.Post)
	}
	r.ring[r.next], r.lost = c, old.at
	r.next = (r.next + 1) % mostRecent
	return true
}

func (r *recent) isDeleted(post string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, deleted := r.deleted[post]
	return deleted
}

// whole reports whether ring still has all changes from a time on.
func (r *recent) whole(from time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lost.Before(from)
}

// since returns the changes from a time on that ring still has.
func (r *recent) since(from time.Time) (changes []change) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := range r.ring {
		if c := r.ring[(r.next+i)%len(r.ring)]; !c.at.Before(from) {
			changes = append(changes, c)
		}
	}
	return changes
}

// Deleted reports to the hub that a post was deleted, by this process or another process. A deletion is
// final, so its event needs no look (C1).
func (h *Hub) Deleted(user, post string) {
	h.changed(change{ref: access.Ref{Post: post, Author: user}, deleted: true})
}

// Edited reports to the hub that a post may have been edited. The event needs a look (C4).
func (h *Hub) Edited(user, post string) { h.changed(change{ref: access.Ref{Post: post, Author: user}}) }

func (h *Hub) changed(c change) {
	c.by = h.readers.hash(c.ref.Author)
	if !h.recent.add(c) {
		return
	}
	for _, hm := range h.readers.of(c.by) {
		hm.changed(c, nil)
	}
}

// stale makes all clients read their pages again.
func (h *Hub) stale() {
	h.mu.RLock()
	homes := slices.Collect(maps.Values(h.homes))
	h.mu.RUnlock()
	for _, hm := range homes {
		hm.stale(nil)
	}
}

// changed sends a deletion to st, or to all joined streams if st is nil. An edit only causes a look.
func (hm *userHome) changed(c change, st *Stream) {
	if !c.deleted {
		if !hm.agenda.edit(c.ref) {
			hm.stale(nil)
		}
		return
	}
	frame, err := hm.hub.cfg.Frames.Deleted(c.ref.Post)
	if err != nil { // the client finds the deletion in its page
		hm.stale(st)
		return
	}
	hm.tell("deleted", frame, st)
}

// stale makes the client of st, or all clients, read their pages again (C6).
func (hm *userHome) stale(st *Stream) { hm.tell("stale", hm.hub.cfg.Frames.Stale, st) }

// tell sends a frame to st, if st has joined, or to all joined streams if st is nil.
func (hm *userHome) tell(kind string, frame []byte, st *Stream) {
	hm.mu.Lock()
	defer hm.mu.Unlock()
	for of := range hm.streams {
		if st == nil || of == st {
			of.push(kind, frame, nil)
		}
	}
}

// tellOf calls send for each joined stream, unless the post, or the original of a repost, was deleted. A quote
// of a deleted post makes the page stale, because the item has the quoted post. The lock that tell takes keeps
// the event of the deletion behind the events of the post (C2).
func (hm *userHome) tellOf(p feed.Post, send func(*Stream)) {
	hm.mu.Lock()
	defer hm.mu.Unlock()
	if hm.hub.recent.isDeleted(p.ID) || hm.hub.recent.isDeleted(p.RepostOf) {
		return
	}
	for st := range hm.streams {
		if send(st); hm.hub.recent.isDeleted(p.QuoteOf) {
			st.push("stale", hm.hub.cfg.Frames.Stale, nil)
		}
	}
}

// retell sends st, or all joined streams, the changes from a time on (C3).
func (hm *userHome) retell(from time.Time, st *Stream) {
	changes := hm.hub.recent.since(from)
	if !hm.hub.recent.whole(from) {
		hm.stale(st)
		return
	}
	for _, c := range changes {
		if hm.hub.readers.lists(hm, c.by) {
			hm.changed(c, st)
		}
	}
}

// checkRecent makes all clients read their pages again if the ring has forgotten a change after the
// beginning of a look: the look may have sent a post whose deletion the ring has forgotten (C3).
func (hm *userHome) checkRecent(began time.Time) {
	if !hm.hub.recent.whole(began) {
		hm.stale(nil)
	}
}

// lookAtEdited sends the edited posts that the home shows (C4). The caller has the turn.
func (hm *userHome) lookAtEdited(ctx context.Context, refs []access.Ref) error {
	began := time.Now()
	err := hm.read(ctx, nil, unitsOfEdited, func(ctx context.Context) error {
		items, err := hm.hub.cfg.Homes.Edited(ctx, hm.user, refs)
		if err != nil {
			return err
		}
		for _, item := range items {
			frame, err := hm.hub.cfg.Frames.Edited(item)
			if err != nil {
				return err
			}
			hm.tellOf(item.Post, func(st *Stream) { st.push("edited", frame, nil) })
		}
		return nil
	})
	hm.agenda.lookedAtEdited(refs, err)
	hm.checkRecent(began)
	return err
}
