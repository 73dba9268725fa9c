package sim

import (
	"fmt"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// The oracle checks each write of the product against the rules of the written item: the time at
// which the item expires, and the states between which it may change. A broken rule may be visible
// in no home and no count for weeks, so a run can find it only in the write itself.

const (
	// unlikeKept is the TTL of a like item that is neither liked nor counted (docs/LIKES.md).
	unlikeKept = messages.MaxAge + 3*day
	// fenceFrom is the number of receives of a message after which an open flush is fenced. lastHour
	// is the last part of the life of a message, in which the message waits for nobody.
	fenceFrom, lastHour = 4, time.Hour
	// noteSettled is the time from the first look at a note to a prune by the note. mostPruned is the number
	// of attributes that one prune drops.
	noteSettled, mostPruned = time.Hour, 100
	// markKept is the time for which a mark outlives the entries that it hides.
	markKept = time.Hour
	// modeRest is the least time between two changes of an author's mode.
	modeRest = 2 * time.Hour
	// clocksMost is the maximum difference of two clocks plus the time of a request.
	clocksMost = 2*clocksApart + 30*time.Minute
)

// checkWrite checks an item that a call of the product wrote. w.items still has the item from
// before the write.
func (w *World) checkWrite(key table.Key, now *table.Item) {
	c, old := w.acting, w.items[key]
	if c == nil || now == nil {
		return
	}
	switch class("", key.PK) {
	case " lifetimes":
		w.checkLifetimes(*now)
	case " likelist":
		w.checkLikeItem(old, *now)
	case " likecount":
		if post, _, _ := postOfLikes(key.PK); w.tombs[post] == 0 { // a purge keeps the count for longer
			w.checkEndingItem(post, *now, likesKept)
		}
		w.checkCountItem(c, key, old, now)
		w.countBy[key] = c.proc.Name
	case " timeline":
		w.checkEntryItem(*now)
	case " post":
		post, _ := schema.PostOfSK(key.SK)
		w.checkEndingItem(post, *now, 0)
	case " comment":
		if comment, err := schema.ParseComment(*now); err == nil {
			w.checkEndingItem(comment.Post, *now, 0)
		}
	case " home":
		if _, mark := schema.UserOfSK(key.SK); mark && !c.hasAnswer() { // otherwise the presence, or a mute
			w.checkMarkItem(*now)
		}
	case " delivery":
		w.checkDeliveryItem(*now)
	case " user":
		w.checkModeItem(c, key, old, now)
	}
}

// checkLikeItem checks I3: a like item expires exactly if it is neither liked nor counted, or if it is an item
// of a story (I15). The version of a like never goes back.
func (w *World) checkLikeItem(old *table.Item, now table.Item) {
	next, err := schema.ParseLike(now)
	if err != nil {
		return // the oracle of the ledger reports it
	}
	if !w.endOf(next.Post).IsZero() {
		w.checkEndingItem(next.Post, now, likesKept)
	} else if expires, neither := !next.TTL.IsZero(), next.Kind == "" && next.Base == ""; expires != neither && (expires || !w.acting.byDoubt()) {
		w.load.fail("I3", "the like of %s by %s expires: %v, kind %q, base %q", next.Post, next.User, expires, next.Kind, next.Base)
	} else if acted, err := id.Time(next.Version); expires && (err != nil ||
		next.TTL.Before(acted.Add(unlikeKept-clocksMost)) || next.TTL.After(time.Now().Add(unlikeKept+clocksMost))) {
		w.load.fail("I3", "the unlike of %s by %s expires at %v, it was made at %v", next.Post, next.User, next.TTL, acted)
	}
	if old == nil {
		return
	}
	if was, err := schema.ParseLike(*old); err == nil && was.Version > next.Version {
		w.load.fail("I3", "the like of %s by %s goes back from %s to %s", next.Post, next.User, was.Version, next.Version)
	}
}

// checkCountItem checks a write of a like count. Only a repair or an import may fence early. A
// prune drops only incarnations whose end is noted and settled, and only if that saves a unit.
func (w *World) checkCountItem(c *call, key table.Key, old, now *table.Item) {
	post, _, _ := postOfLikes(key.PK)
	was, is := schema.ParseLikeCount(old), schema.ParseLikeCount(now)
	for _, inc := range sorted(is.Fenced) {
		if !was.Fenced[inc] && !c.hasAnswer() && c.proc != w.audited && c.proc.role != mover && !w.mayFence(c.proc, post) {
			w.load.fail("I3", "%s fences %s on post %s, and holds no message that was received %d times or is near its age limit", c.proc.Name, inc, post, fenceFrom)
		}
	}
	dropped := map[string]int{}
	for inc := range was.Done {
		if _, there := is.Done[inc]; !there {
			dropped[inc]++
		}
	}
	for inc := range was.Fenced {
		if !is.Fenced[inc] {
			dropped[inc]++
		}
	}
	if len(dropped) == 0 {
		return
	}
	names := 0
	for _, inc := range sorted(dropped) {
		names += dropped[inc]
		if end, noted := w.book.ends[inc]; !noted || end.Lost[post] {
			w.load.fail("I3", "the ledger of post %s loses %s, whose clean end is not noted", post, inc)
		}
	}
	if names > mostPruned {
		w.load.fail("I9", "a prune drops %d attributes of the ledger of post %s", names, post)
	}
	// A late request was made when the ledger was older.
	if w.countBy[key] == c.proc.Name && !c.hasAnswer() && table.WriteUnits(table.Size(*now)) >= table.WriteUnits(table.Size(*old)) {
		w.load.fail("I11", "a prune of the ledger of post %s from %d to %d bytes saves no unit", post, table.Size(*old), table.Size(*now))
	}
	if lives := time.Since(w.reach.booted[c.proc.Name]); lives < noteSettled && !c.hasAnswer() {
		w.load.fail("I3", "%s prunes the ledger of post %s by notes that it read within %s", c.proc.Name, post, lives)
	}
}

// mayFence reports whether a process holds a message that allows it to fence a flush on a post.
func (w *World) mayFence(p *Proc, post string) bool {
	for _, s := range p.subs {
		for _, r := range s.out {
			like := likeOf(decoded(r.queued.payload))
			if s.topic != queue.TopicLikes || like == nil || like.PostID != post {
				continue
			}
			acted, err := id.Time(like.EventID)
			if err != nil || r.receive.Receives >= fenceFrom || time.Since(acted) > messages.MaxAge-lastHour-clocksMost {
				return true
			}
		}
	}
	return false
}

// checkEntryItem checks that an entry expires with the timeline's TTL, counted from the time of its
// post, and has the like shards of the post.
func (w *World) checkEntryItem(now table.Item) {
	e, err := schema.ParseEntry(now)
	if err != nil {
		w.load.fail("I1", "%v", err)
		return
	}
	made, err := id.Time(e.Post)
	if err != nil || !w.byAView(func(l schema.Lifetimes) bool {
		return now.Int(table.AttrTTL) == w.storyLife(e.Post, made.Add(l.Written(made))).Unix()
	}) {
		w.load.fail("I1", "the entry %s expires at %d, its post was made at %v", now.Key.SK, now.Int(table.AttrTTL), made)
	}
	if stored := w.items[schema.PostByIDKey(e.Post)]; stored != nil {
		if ref, err := schema.ParsePostRef(*stored); err == nil && ref.LikeShards != e.LikeShards {
			w.load.fail("I3", "the entry %s has %d like shards, its post %d", now.Key.SK, e.LikeShards, ref.LikeShards)
		}
	}
}

// checkMarkItem checks the expiry of a mark (docs/HYBRID.md).
func (w *World) checkMarkItem(now table.Item) {
	m, err := schema.ParseMark(now)
	if err != nil {
		w.load.fail("I1", "%v", err)
		return
	}
	var want func(l schema.Lifetimes) time.Time
	switch {
	case m.Kind == schema.MarkBackfill && !m.Until.IsZero():
		want = func(l schema.Lifetimes) time.Time {
			if first, err := id.Time(m.From); err == nil && first.Add(l.Written(first)).After(m.Until) {
				return first.Add(l.Written(first) + markKept)
			}
			return m.Until.Add(markKept)
		}
	case m.Kind == schema.MarkPulled && !m.TTL.IsZero():
		mode, err := w.modeOf(m.Author)
		if err != nil || mode.State != schema.ModeLeaving && mode.State != schema.ModePush {
			w.load.fail("I1", "the pulled mark of %s for %s expires in the mode %s: %v", m.User, m.Author, mode.State, err)
		}
		want = func(l schema.Lifetimes) time.Time { return mode.At.Add(l.Longest() + markKept) }
	default:
		return
	}
	if !w.byAView(func(l schema.Lifetimes) bool { return m.TTL.Unix() == want(l).Unix() }) {
		w.load.fail("I1", "the %s mark of %s for %s expires at %v, want %v", m.Kind, m.User, m.Author, m.TTL, want(w.views[len(w.views)-1]))
	}
}

// modeOf returns the stored mode of an author.
func (w *World) modeOf(author string) (schema.Mode, error) {
	if it := w.items[schema.ModeKey(author)]; it != nil {
		return schema.ParseMode(author, []table.Item{*it})
	}
	return schema.ParseMode(author, nil)
}

// checkDeliveryItem checks that a delivery record outlives the entries of its post, and that its
// numbers are never negative.
func (w *World) checkDeliveryItem(now table.Item) {
	var post string
	var ttl time.Time
	if plan, err := schema.ParsePlan(now); err == nil {
		post, ttl = plan.Post, plan.TTL
	} else if c, err := schema.ParseChunk(now); err == nil {
		post, ttl = c.Post, c.TTL
		if c.Delivered < 0 || c.Skipped < 0 || c.End != "" && c.End <= c.First || c.Done.IsZero() && c.Delivered+c.Skipped > 0 {
			w.load.fail("I1", "a chunk of post %s is %+v", post, c)
		}
	}
	made, err := id.Time(post)
	if err != nil || !w.byAView(func(l schema.Lifetimes) bool {
		return ttl.Equal(made.Add(l.Written(made) + schema.DeliveryKept).Truncate(time.Second))
	}) {
		w.load.fail("I6", "the delivery record %v expires at %v, its post was made at %v: %v", now.Key, ttl, made, err)
	}
}

// checkModeItem checks a change of an author's mode: the order of the states, the rest between two
// changes, and the limit that caused the change.
func (w *World) checkModeItem(c *call, key table.Key, old, now *table.Item) {
	author, _ := schema.UserOfSK(key.PK) // UserPK is the same text
	if key != schema.ModeKey(author) {
		return
	}
	was, err := w.modeOf(author)
	next, err2 := schema.ParseMode(author, []table.Item{*now})
	if err != nil || err2 != nil {
		w.load.fail("oracle", "%v, %v", err, err2)
		return
	}
	wrong := ""
	switch from := fmt.Sprintf("%s to %s", was.State, next.State); from {
	case "push to switching", "pull to leaving":
		leaving := next.State == schema.ModeLeaving
		switch {
		case next.V != was.V+1 || next.At.Sub(was.At) < modeRest && old != nil || leaving && next.Since != was.Since || next.Since == "":
			wrong = "too early, or with another number or id"
		case !c.hasAnswer() && w.countAt[author] < w.began[c.op] && time.Since(w.countTime[author]) > w.shape.Lag+mostTransit && !changes(leaving, w.followersOf(author), c.proc.limit):
			wrong = fmt.Sprintf("with %d followers and the limit %d", w.followersOf(author), c.proc.limit)
		}
	case "switching to pull", "leaving to push":
		if next.V != was.V || next.Since != was.Since || !next.At.Equal(was.At) {
			wrong = "with another number, id or time"
		}
	case "switching to switching", "leaving to leaving", "pull to pull", "push to push": // ended by another walk
		ended := next.State == schema.ModePull || next.State == schema.ModePush
		if next.V != was.V || next.Walked < was.Walked || next.Walked == was.Walked && !ended {
			wrong = "and the walk does not go on"
		}
	default:
		wrong = "which is no step"
	}
	if wrong != "" {
		w.load.fail("I6", "the mode of %s goes from %+v to %+v %s", author, was, next, wrong)
	}
}

// changes reports whether a limit requires a change of the mode of an author with this number of
// followers.
func changes(leaving bool, followers, limit int64) bool {
	if leaving {
		return limit == 0 || 10*followers < 8*limit
	}
	return limit > 0 && followers > limit
}

// followersOf returns the stored number of an author's followers.
func (w *World) followersOf(author string) (n int64) {
	for _, key := range schema.FollowerCountKeys(author) {
		if it := w.items[key]; it != nil {
			n += it.Int(schema.AttrN)
		}
	}
	return n
}

// sawEntries records a number that a worker reports: the number of written entries, or, as a
// negative number, the number of skipped followers.
func (w *World) sawEntries(n int, since time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == 0 || since < -clocksMost {
		w.load.violations = append(w.load.violations, fmt.Sprintf("I9: %d entries were observed %s after their post", n, since))
	}
	if w.probe != nil && n > 0 {
		w.probe.written += n
	} else if w.probe != nil {
		w.probe.skipped -= n
	}
}

// sawOutcome checks the outcome of a window as the aggregator reports it.
func (w *World) sawOutcome(p *Proc, o likeagg.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.probe != nil {
		w.probe.outcomes = append(w.probe.outcomes, o)
	}
	switch {
	case o.Messages < 1 || o.Applied < 0 || o.Applied > o.Messages || o.Pruned < 0 || o.Fences < 0 || o.Lag < 0,
		o.Lost && (o.Flushed || o.Applied > 0), o.Flushed != (o.LedgerBytes > 0), !o.Lost && o.Flushed != (o.Applied > 0), o.Pruned > 0 && !o.Flushed:
		w.load.violations = append(w.load.violations, fmt.Sprintf("I9: a window of %s had the outcome %+v", p.Name, o))
	}
}
