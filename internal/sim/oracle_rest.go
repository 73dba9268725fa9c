package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Once the world is quiet, the table has the results of the finished work and nothing else: the
// numbers of delivery records match the followers, summaries are complete, marks match the mode,
// and no item of a purged post exists.

// follower is the span of steps in which an author had a follower. until is 0 for a present follower.
type follower struct{ since, until int }

// silently ends the name of an operation that makes a silent follow.
const silently = " silently"

// checkSilence checks that a follow that a call makes or renews has the silence of the call.
func (w *World) checkSilence(now *table.Item) {
	c := w.acting
	if c == nil || now == nil {
		return
	}
	name := w.counting.names[c.op]
	if follows := strings.HasPrefix(name+" ", "follow ") || strings.HasPrefix(name, "import a follow "); follows && now.Has(schema.AttrSilent) != strings.HasSuffix(name, silently) {
		w.load.fail("I4", "%s makes %v with the silence %v", name, now.Key, now.Has(schema.AttrSilent))
	}
}

// sawEdge handles a write of an edge, or of an author's number of followers.
func (w *World) sawEdge(key table.Key, now *table.Item) {
	switch class("", key.PK) {
	case " following":
		w.checkSilence(now)
	case " follower":
		w.checkSilence(now)
		user, _ := schema.UserOfSK(key.SK)
		author := key.PK[len("u#") : len(key.PK)-len("#follower")]
		of := w.followers[author]
		if of == nil {
			of = map[string][]follower{}
			w.followers[author] = of
		}
		n := len(of[user])
		switch is := n > 0 && of[user][n-1].until == 0; {
		case now != nil && !is:
			of[user] = append(of[user], follower{since: w.steps})
		case now == nil && is:
			of[user][n-1].until = w.steps
		}
	case " user":
		author, _ := schema.UserOfSK(key.PK) // UserPK is the same text
		if slices.Contains(schema.FollowerCountKeys(author), key) {
			w.countAt[author], w.countTime[author] = w.steps, time.Now()
		}
	}
}

// followersSince returns two numbers of followers for the fan-out of a post that began at a step:
// the number of followers at all times since then, and the number of followers at any time since
// then.
func (w *World) followersSince(author string, step int) (least, most int64) {
	for _, times := range w.followers[author] {
		last := times[len(times)-1]
		if last.until == 0 || last.until >= step {
			most++
		}
		if last.until == 0 && last.since < step {
			least++
		}
	}
	return least, most
}

// checkRecord checks the delivery record of a living post: the numbers of the record, and the extent of its
// summary.
func (w *World) checkRecord(author, post string) {
	var plan *schema.Plan
	var chunks []schema.Chunk
	for _, it := range w.partition(schema.DeliveryPK(post)) {
		if p, err := schema.ParsePlan(it); err == nil {
			plan = &p
		} else if c, err := schema.ParseChunk(it); err == nil {
			chunks = append(chunks, c)
		}
	}
	if plan == nil || w.aged {
		return // the record expires in parts
	}
	if plan.Author != author || plan.Attempts < 1 || plan.Started.IsZero() {
		w.load.fail("I6", "the plan of %s by %s is %+v", post, author, *plan)
	}
	if plan.State == schema.PlanPulled {
		if plan.Planned != 1 {
			w.load.fail("I6", "the pulled post %s has a plan of %d entries", post, plan.Planned)
		}
		return
	}
	least, most := w.followersSince(author, w.madeAt[post])
	var chain schema.Chain
	for _, c := range chunks { // sorted by their keys
		chain.Add(c)
	}
	if met := chain.Delivered + chain.Skipped; met < least || met > most {
		w.load.fail("I1", "the delivery of %s met %d followers (%d skipped), there were %d all the time and %d in all", post, met, chain.Skipped, least, most)
	}
	if w.shape.Days == 0 && chain.Skipped != 0 {
		w.load.fail("I1", "the delivery of %s skipped %d followers, and nobody is ever away", post, chain.Skipped)
	}
	if plan.Planned < 1+least || plan.Planned > 1+most {
		w.load.fail("I6", "the delivery of %s planned %d entries, there were %d followers all the time and %d in all", post, plan.Planned, least, most)
	}
	w.checkSummary(post, *plan, chunks, int(chain.Total) == len(chunks))
}

// checkSummary checks that a plan's summary covers the beginning of the chain, and that no complete
// page of chunks follows the summary. A later chunk out of the chain may complete a page.
func (w *World) checkSummary(post string, plan schema.Plan, chunks []schema.Chunk, linked bool) {
	var begin schema.Chain
	for _, c := range chunks {
		if begin.Upto == plan.Sum.Upto && begin.Total > 0 || plan.Sum.Upto == "" {
			break
		}
		begin.Add(c)
	}
	if s := plan.Sum; begin.Upto != s.Upto || begin.Total != s.Total || begin.Delivered != s.Delivered || begin.Skipped != s.Skipped || !begin.Last.Equal(s.Last) {
		w.load.fail("I6", "the summary of the delivery of %s is %+v, its chunks say %+v", post, s, begin)
		return
	}
	most := int64(w.shape.Plan * (w.shape.Chunk + 1)) // the larger size of two workers
	behind := slices.DeleteFunc(slices.Clone(chunks), func(c schema.Chunk) bool { return c.First < plan.Sum.Upto })
	if !linked || plan.Planned <= most || len(behind) < w.shape.Plan {
		return
	}
	next := plan.Sum
	for _, c := range behind[:w.shape.Plan] {
		next.Add(c)
	}
	if next.Total > plan.Sum.Total && next.Done == next.Total && !next.Ended {
		w.load.fail("I11", "the summary of the delivery of %s rests at %q, %d chunks behind it are done", post, plan.Sum.Upto, len(behind))
	}
}

// checkMarks checks that marks match the modes: no mark of a pushed author stays pulled forever, and each
// follower of a pulled author has a mark that stays pulled.
func (w *World) checkMarks() {
	if w.aged {
		return // a walk may be a dead letter
	}
	for _, author := range w.load.users {
		mode, err := w.modeOf(author)
		if err != nil {
			w.load.fail("oracle", "%v", err)
			continue
		}
		for _, user := range w.load.users {
			var mark schema.Mark
			if it := w.items[schema.MarkKey(user, author)]; it != nil {
				if mark, err = schema.ParseMark(*it); err != nil {
					w.load.fail("I1", "%v", err)
					continue
				}
			}
			followed, _ := w.edge(user, author)
			pulled := mark.Kind == schema.MarkPulled && mark.TTL.IsZero()
			switch {
			case pulled && mode.State == schema.ModePush:
				w.load.fail("I11", "%s pushes, and the home of %s pulls it for good: %+v", author, user, mark)
			case mark.Kind == schema.MarkUnfollowed && mark.TTL.IsZero():
				w.load.fail("I11", "the mark of %s, no follower of %s, stays for good", user, author)
			case followed && mark.Kind == schema.MarkUnfollowed:
				w.load.fail("I1", "%s follows %s, and the mark says the contrary", user, author)
			case followed && !pulled && mode.State == schema.ModePull && (mark.Kind != schema.MarkBackfill || !mark.TTL.IsZero()):
				w.load.fail("I1", "%s is pulled, and the home of its follower %s has the mark %+v", author, user, mark)
			}
		}
	}
}

// checkPurged checks that no item is left of a deleted post whose purge was requested. A process
// that stood still for hours may write such items later.
func (w *World) checkPurged() {
	if w.aged || w.hours || w.Fired[FaultSleep]+w.Fired[FaultLeap]+w.Fired[FaultNights] > 0 {
		return
	}
	for _, post := range sorted(w.purges) {
		ref := w.refOf(post)
		if ref == nil || !ref.Deleted {
			continue
		}
		if !ref.Purged {
			w.load.fail("I11", "the purge of the deleted post %s has no end: auditors ask for it again and again", post)
		}
		lists := []string{schema.CommentsPK(post)}
		for shard := range ref.LikeShards {
			lists = append(lists, schema.LikesPK(post, shard, ref.LikeShards))
		}
		for _, pk := range lists {
			left := slices.DeleteFunc(w.partition(pk), func(it table.Item) bool { return table.Expired(it, time.Now()) }) // a story expires
			if len(left) > 0 {
				w.load.fail("I11", "%d items of %s are left of a deleted post, the first %v", len(left), pk, left[0].Key)
			}
		}
		if count := w.items[schema.LikeCountKey(post)]; count != nil && !count.Has(table.AttrTTL) {
			w.load.fail("I11", "the like count of the deleted post %s stays for good", post)
		}
	}
}

func (w *World) refOf(post string) *schema.PostRef {
	it := w.items[schema.PostByIDKey(post)]
	if it == nil {
		return nil
	}
	ref, err := schema.ParsePostRef(*it)
	if err != nil {
		w.load.fail("oracle", "%v", err)
		return nil
	}
	return &ref
}

// sawMessage records the messages that the checks in this file need.
func (w *World) sawMessage(e messages.Event) {
	switch e := e.(type) {
	case *messages.PostCreated:
		if w.madeAt[e.PostID] == 0 {
			w.madeAt[e.PostID] = w.steps
		}
	case *messages.Followed:
		if e.FollowID != "" { // without the id, other programs get no event of the follow
			w.backfills[e.FollowID] = fmt.Sprintf("%s of %s", e.FollowerID, e.AuthorID)
		}
	}
}
