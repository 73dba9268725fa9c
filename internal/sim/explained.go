package sim

import (
	"context"
	"slices"
	"time"

	"fanfare/internal/feed/home"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// The table must confirm the reason that `fanfare explain` returns. In the storms the oracle checks
// a reason only if nobody writes to the partitions in question meanwhile.

// aim chooses, in half of the questions, a post whose delivery is running and one of its author's
// followers.
func (of *read) aim() {
	under := slices.DeleteFunc(slices.Clone(of.w.load.posts), func(post string) bool { return of.deleted[post] || of.w.complete(post) })
	if len(under) == 0 || of.r.IntN(2) == 0 {
		return
	}
	of.post = of.w.load.choose(of.r, under)
	of.author = of.w.load.owner[of.post]
	if fans := of.w.usersIn(schema.FollowersPK(of.author)); len(fans) > 0 {
		of.user = fans[of.r.IntN(len(fans))]
	}
}

// explain asks why a user's home shows a post or lacks it.
func explain(ctx context.Context, s *domain, of *read) (string, error) {
	all, err := s.Explain(ctx, of.op.api.Broker(), of.user, of.post)
	if isNotFound(err) {
		return "", nil
	}
	of.explained = all
	return "", err
}

// checkExplained checks a reason that explain returned in a storm.
func (of *read) checkExplained() {
	for _, e := range of.explained {
		if of.deleted[e.Post] && e.Reason.Shown() {
			of.w.load.fail("I2", "explain: the home of %s has %s (%s), whose delete was answered before", e.User, e.Post, e.Reason)
		}
		if e.Reason == home.ReasonMissing && !of.torn(schema.FollowingPK(e.User), schema.MarksPK(e.User)) {
			of.w.load.fail("I1", "explain finds no reason for %s in the home of %s", e.Post, e.User)
		}
		if of.unchanged(
			schema.FollowingPK(e.User), schema.MarksPK(e.User), schema.TimelinePK(e.User), schema.PostsPK(of.author),
			schema.PostByIDKey(e.Post).PK, schema.DeliveryPK(e.Post),
			schema.PostsPK(of.w.load.created[of.w.load.original(e.Post)]), schema.BlocksPK(e.User),
		) && !of.w.load.farAhead(of.op.api) && time.Since(of.op.api.back) > time.Minute {
			of.w.checkReason(e, of.author)
		}
	}
}

// checkExplanations checks the reasons of some posts in some homes, once the world is quiet.
func (w *World) checkExplanations(ctx context.Context, service *domain, living map[string]map[string]bool) {
	r, l := w.reader(service), w.load
	for range min(2, len(l.posts)) {
		user, post := l.users[r.r.IntN(len(l.users))], l.posts[r.r.IntN(len(l.posts))]
		if reposts := sorted(l.reposts.of); len(reposts) > 0 && r.r.IntN(2) == 0 {
			post = reposts[r.r.IntN(len(reposts))]
		}
		if !slices.Contains(l.users, l.created[post]) {
			continue // a historian's calls are in the histories
		}
		all, err := service.Explain(ctx, w.procs[0].Broker(), user, post)
		ref := w.refOf(post)
		unwritten := l.original(post) != post && (ref == nil || ref.Deleted && w.pastTTL(ref.TTL)) // an end kept the repost away
		if isNotFound(err) && (l.deleted[post] || l.doubtful[post] || unwritten) {                 // a deleted post whose other items have expired
			continue
		}
		if err != nil || len(all) != 1 {
			l.fail("I7", "explain %s %s: %v, %v", user, post, all, err)
			continue
		}
		w.checkReason(all[0], l.created[post])
		must, may := w.newest(user, w.mutedBy(user), living)
		if is := all[0].InHome; (is && !may[post] || !is && must[post]) && !w.mayHaveExpired(post) {
			l.fail("I16", "explain %s %s: in the home %v (%s), and the home may show it %v, must show it %v", user, post, is, all[0].Reason, may[post], must[post])
		}
	}
}

// checkReason compares a reason with the table.
func (w *World) checkReason(e home.Explanation, author string) {
	l := w.load
	follows, from := w.edge(e.User, author)
	there := func(key table.Key) bool { return w.items[key] != nil }
	own, entry := author == e.User, there(table.Key{PK: schema.TimelinePK(e.User), SK: schema.EntrySK(e.Post, author)})
	lives, muted := there(schema.PostKey(author, e.Post)), there(schema.MuteKey(e.User, author))
	belongs := own || follows && e.Post >= from
	var mark schema.MarkKind
	if it := w.items[schema.MarkKey(e.User, author)]; it != nil {
		mark = schema.MarkKind(it.Str(schema.AttrKind))
	}
	_, taken := l.taken[e.Post]
	shown := lives && belongs && !muted
	of := l.original(e.Post)
	by := l.created[of]
	unseen := of != e.Post && (!there(schema.PostKey(by, of)) || there(schema.MuteKey(e.User, by)) || there(schema.BlockKey(e.User, by)))
	truth := map[home.Reason]bool{
		home.ReasonOwn: own && entry && lives, home.ReasonPushed: shown && entry && !own, home.ReasonCopied: shown && entry && !own,
		home.ReasonReturned: shown && entry && !own, home.ReasonMerged: shown && mark == schema.MarkBackfill,
		home.ReasonPulled: shown && mark == schema.MarkPulled, home.ReasonSkipped: shown && there(schema.PresenceKey(e.User)),
		home.ReasonByPull:  shown && there(schema.PresenceKey(e.User)),
		home.ReasonDeleted: !lives && !taken, home.ReasonTakenDown: !lives && l.doubtful[e.Post], home.ReasonExpired: w.mayHaveExpired(e.Post),
		home.ReasonUnfollowed: !follows && mark == schema.MarkUnfollowed, home.ReasonNotFollowed: !follows && !own,
		home.ReasonMuted: muted && belongs, home.ReasonBeforeFollow: follows && e.Post < from,
		home.ReasonOriginal: shown && unseen, home.ReasonRepeat: shown && !unseen && e.Newer > e.Post && l.original(e.Newer) == of,
		home.ReasonQueued: belongs && !w.complete(e.Post) || w.items[schema.PostByIDKey(e.Post)] == nil, home.ReasonDeadLetter: !w.complete(e.Post),
	}
	if !truth[e.Reason] || shown && !unseen && !e.Reason.Shown() && e.Reason != home.ReasonRepeat && w.complete(e.Post) && !w.mayHaveExpired(e.Post) {
		l.fail("I1", "explain gives the reason %s for %s of %s in the home of %s: own %v, entry %v, lives %v, muted %v, follows %v from %s, mark %q, complete %v, expired %v",
			e.Reason, e.Post, author, e.User, own, entry, lives, muted, follows, from, mark, w.complete(e.Post), w.mayHaveExpired(e.Post))
	}
}
