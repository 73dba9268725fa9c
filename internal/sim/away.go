package sim

import (
	"fmt"
	"slices"
	"time"

	"fanfare/internal/feed/delivery"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// In these operations readers are away for days, return, and leave again, while processes
// have different numbers of active days.

// mostNights is the maximum time that nights take in one storm: messages must not grow too old.
const mostNights = 18 * day

// night makes a day or more pass between two operations. Most nights happen while few operations
// are open, and some while a worker refreshes the edges of a reader.
func (w *World) night() {
	left := len(w.load.due)
	if w.shape.Days == 0 || left%w.shape.Night > 0 || left == w.lastNight || w.off[FaultNights] || w.slept > mostNights {
		return
	}
	w.lastNight = left
	w.about("night %d", left)
	open, lasts := w.rng.IntN(3) == 0, time.Duration(8+w.rng.IntN(72))*time.Hour
	if w.rng.IntN(3) == 0 { // the night ends shortly before a midnight
		ends := time.Now().Add(lasts).Truncate(day).Add(day)
		lasts = time.Until(ends) - time.Duration(w.rng.IntN(4000*w.shape.Pace))*time.Millisecond
	}
	refresh := w.rng.IntN(4) == 0
	for steps := 0; (refresh || !open) && steps < 400 && !w.idle(); steps++ {
		if refresh && w.refreshing() {
			break
		}
		w.step(func() bool { return false })
		w.load.settled()
	}
	w.Fired[FaultNights]++
	w.slept += lasts
	w.pause(lasts)
}

// refreshing reports whether a worker is handling a refresh.
func (w *World) refreshing() bool {
	return slices.ContainsFunc(w.procs, func(p *Proc) bool {
		return slices.ContainsFunc(p.held(), func(e messages.Event) bool { _, ok := e.(*messages.Seen); return ok })
	})
}

// sawDays checks each write of a presence or an edge: no edge has a lower day than its reader's
// presence, and no edge has a day if its reader has no presence. While a home returns, it is read
// by pull, so the edges of its reader do not count (I1).
func (w *World) sawDays(key table.Key, it *table.Item) {
	var users []string
	if key.SK == schema.SortPresence && it != nil {
		if p, err := schema.ParsePresence(*it); err == nil {
			users = append(users, p.User)
		}
	}
	if user, ok := schema.UserOfSK(key.SK); ok && it != nil && it.Has(schema.AttrUntil) && class("", key.PK) == " follower" {
		users = append(users, user)
	}
	for _, user := range users {
		p := w.presenceOf(user)
		for _, author := range w.load.users {
			edge := w.itemOf(schema.FollowerKey(author, user))
			if edge == nil || !edge.Has(schema.AttrUntil) || p != nil && p.State == schema.PresenceReturning {
				continue
			}
			if day := edge.Int(schema.AttrUntil); p == nil || day < int64(p.Until) {
				w.load.fail("I1", "the edge of %s to %s has the day %d, its presence is %+v", user, author, day, p)
			}
		}
	}
}

func (w *World) itemOf(key table.Key) *table.Item {
	for _, it := range w.partition(key.PK) {
		if it.Key == key {
			return &it
		}
	}
	return nil
}

func (w *World) presenceOf(user string) *schema.Presence {
	it := w.itemOf(schema.PresenceKey(user))
	if it == nil {
		return nil
	}
	p, err := schema.ParsePresence(*it)
	if err != nil {
		w.load.fail("oracle", "%v", err)
		return nil
	}
	return &p
}

// awayFrom returns the pending return of a home, or the return that its next read has to request.
func (w *World) awayFrom(user string) (work []string) {
	p := w.presenceOf(user)
	if p != nil && (p.State == schema.PresenceReturning || time.Now().After(p.Until.Start().Add(time.Minute))) {
		work = append(work, fmt.Sprintf("the return of %s", user))
	}
	return work
}

// owed returns the posts that a home must show from now on, with their authors: the user's own posts, and the
// completely delivered posts of authors whom the user certainly follows.
func (l *workload) owed(user string, followed []string) map[string]string {
	must := map[string]string{}
	for _, author := range append(followed, user) {
		_, from := l.w.edge(user, author)
		for _, post := range l.posts {
			if l.owner[post] == author && post >= from && !l.deleted[post] && !l.doubtful[post] && !l.w.listed[post].at.After(time.Now()) && (author == user && l.w.listed[post].author == user || l.w.complete(post)) {
				must[post] = author
			}
		}
	}
	return must
}

// complete reports whether the delivery of a post has ended.
func (w *World) complete(post string) bool {
	var chain schema.Chain
	pulled := false
	for _, it := range w.partition(schema.DeliveryPK(post)) {
		if plan, err := schema.ParsePlan(it); err == nil {
			pulled = plan.State == string(delivery.Pulled)
		}
		if link, err := schema.ParseChunk(it); err == nil {
			chain.Add(link)
		}
	}
	return pulled || chain.Ended && chain.Done == chain.Total
}

// undelivered returns the posts that a home has shown and may lack until their delivery ends. A
// pulled home or a merged mark shows a post during the post's delivery, although the reader's
// entries do not have the post yet (docs/HYBRID.md).
func (l *workload) undelivered(home homeOf) map[string]bool {
	posts := map[string]bool{}
	for post, author := range l.seen[home] {
		entry := table.Key{PK: schema.TimelinePK(home.user), SK: schema.EntrySK(post, author)}
		if !home.pull && author != home.user && l.w.items[entry] == nil && !l.w.complete(post) && l.w.byEntries(home.user, author) {
			posts[post] = true
		}
	}
	return posts
}

// byEntries reports whether a home read that begins now may show only the entries of an author.
// This is so if the last return has ended, and the merging of the author's mark ends before the
// read ends.
func (w *World) byEntries(user, author string) bool {
	const read = 30 * time.Second // no read takes longer, including the difference of clocks
	if p := w.presenceOf(user); p != nil && (p.State == schema.PresenceReturning || time.Since(p.At) < time.Minute-read) {
		return false
	}
	it := w.itemOf(schema.MarkKey(user, author))
	if it == nil {
		return true
	}
	mark, err := schema.ParseMark(*it)
	if err != nil {
		w.load.fail("oracle", "%v", err)
	}
	return !mark.Merges(time.Now().Add(read))
}

// lacks fails for each post of must that a home does not show.
func (l *workload) lacks(user string, pull bool, must, seen map[string]string) {
	for _, post := range sorted(must) {
		if seen[post] == "" && !l.w.mayHaveExpired(post) && !l.doubtful[post] && !l.mayLack(user, post, seen) {
			l.fail("I1", "home of %s (pull %v) lacks %s of %s, whose delivery was complete before", user, pull, post, must[post])
		}
	}
}
