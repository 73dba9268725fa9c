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

// This file has the rules C1 to C7 about deleted and edited posts (docs/decisions/0023).

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

// change is a deletion or an edit of a post. If the post is referred to, homes that do not list its author may show it, too.
type change struct {
	ref               access.Ref
	by                author
	deleted, referred bool
	at                time.Time
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
func (h *Hub) Deleted(user, post string, referred bool) {
	h.changed(change{ref: access.Ref{Post: post, Author: user}, deleted: true, referred: referred})
}

// Edited reports to the hub that a post may have been edited. The event with the post needs a look (C4).
func (h *Hub) Edited(user, post string, referred bool) {
	h.changed(change{ref: access.Ref{Post: post, Author: user}, referred: referred})
}

func (h *Hub) changed(c change) {
	c.by = h.readers.hash(c.ref.Author)
	if !h.recent.add(c) {
		return
	}
	listing := map[*userHome]bool{}
	for _, hm := range h.readers.of(c.by) {
		listing[hm] = true
		hm.changed(c, true, nil)
	}
	if !c.referred {
		return
	}
	for _, hm := range h.all() {
		if !listing[hm] {
			hm.changed(c, false, nil)
		}
	}
}

// all returns the homes with streams.
func (h *Hub) all() []*userHome {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Values(h.homes))
}

// stale makes all clients read their pages again.
func (h *Hub) stale() {
	for _, hm := range h.all() {
		hm.stale(nil)
	}
}

// changed sends a deletion to st, or to all joined streams if st is nil. An edit only causes a look, if the home lists the
// author. Otherwise a look would not find the post, so the clients that show a repost or a quote of the post read it (C7).
func (hm *userHome) changed(c change, listed bool, st *Stream) {
	if !c.deleted {
		if !listed {
			hm.tellEdited(c.ref.Post, st)
		} else if !hm.agenda.edit(c.ref) {
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

// tellEdited sends the id of an edited post to st, or to all joined streams if st is nil.
func (hm *userHome) tellEdited(post string, st *Stream) {
	frame, err := hm.hub.cfg.Frames.Changed(post)
	if err != nil {
		hm.stale(st)
		return
	}
	hm.tellOf(feed.Post{ID: post}, func(of *Stream) {
		if st == nil || of == st {
			of.push("changed", frame, nil)
		}
	})
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
		if listed := hm.hub.readers.lists(hm, c.by); listed || c.referred && st != nil {
			hm.changed(c, listed, st)
		}
	}
}

// checkRecent makes all clients read their pages again if the ring has forgotten a change after the
// beginning of a look: the look may have sent a post whose deletion the ring has forgotten (C3). The look may also have sent
// a repost with the former text of a post whose edit was told before, so this edit is told again (C7).
func (hm *userHome) checkRecent(began time.Time) {
	if !hm.hub.recent.whole(began) {
		hm.stale(nil)
		return
	}
	for _, c := range hm.hub.recent.since(began) {
		if c.referred && !c.deleted && !hm.hub.readers.lists(hm, c.by) {
			hm.tellEdited(c.ref.Post, nil)
		}
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
		for _, ref := range refs {
			if !slices.ContainsFunc(items, func(item feed.HomeItem) bool { return item.Post.ID == ref.Post }) {
				hm.tellEdited(ref.Post, nil) // a repost or a quote may show the post
			}
		}
		return nil
	})
	hm.agenda.lookedAtEdited(refs, err)
	hm.checkRecent(began)
	return err
}
