package sim

import (
	"context"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// One of probeEvery seeds ends with a calm part. New processes with right clocks run on the table
// that the storms left. A town is damaged and repaired, and likes are restored from a copy. Users
// read their homes, follow and unfollow. An author with many followers posts, and is pulled and
// then pushed again. Users like the post, the post is deleted, and a user is forgotten. Each work
// has a bound in time and calls, and no message is delivered twice.

const (
	probeEvery = 6
	// heldInProbe is the maximum number of messages that a process holds. Half of that number closes
	// a window.
	heldInProbe = 24
	// inProbe is the number of followers of the measured author. The settings in sizes match this
	// number. The day of every fourth follower has passed.
	inProbe = 40
	// atOnce is the maximum time of a work that waits for nothing.
	atOnce = 10 * tick
	poster = "measured"
	// purgedAtOnce is the maximum number of pages that one receive of a message removes.
	purgedAtOnce = 20
)

// sizes has settings of the workers, and the numbers of calls for one post.
type sizes struct {
	page, chunk, plan int
	// chunks is the number of stored chunks of a post, pages the number of its pages of followers,
	// plans the number of its plan messages, and sums the number of moves of its summary. walks is
	// the number of pages of a mark walk.
	chunks, pages, plans, sums, walks int
}

func (w *World) sizes() sizes {
	return []sizes{
		{page: 3, chunk: 5, plan: 3, chunks: 8, pages: 16, plans: 3, sums: 2, walks: 14},
		{page: 60, chunk: 60, plan: 3, chunks: 1, pages: 1, walks: 1},
		{page: 30, chunk: 100, plan: 2, chunks: 1, pages: 2, plans: 1, walks: 2},
	}[w.seed/probeEvery%3]
}

// measure runs the calm part.
func (w *World) measure(ctx context.Context, o Options) {
	if w.seed%probeEvery != 0 || o.Calm || o.Plain || o.Fans > 0 || len(w.load.violations) > 0 {
		return
	}
	w.measureAnew()
	w.faults, w.tight, w.targets, w.heldBack = Rates{}, nil, nil, false
	clear(w.armed)
	w.begin(7)
	of := w.sizes()
	w.shape.Page, w.shape.Chunk, w.shape.Plan, w.shape.Held = of.page, of.chunk, of.plan, heldInProbe
	w.pause(clocksMost) // then ids from a fast clock are due
	w.renew(0)
	w.measureDamages(ctx)
	w.measureRestore(ctx)
	w.renew(int64(w.shape.Limit))
	w.measureHomes()
	w.measureFollow()
	post, other := w.measureModes(of)
	w.passMidnight()
	w.measureLikes(post)
	w.measureRefusals(post, other)
	w.measureStop(post)
	w.measurePrune(post)
	w.measurePurge(post)
	w.measureForget(ctx)
	w.checkCounts()
}

// passMidnight makes time pass until there is no midnight in the next two hours. An aggregator
// begins an incarnation at midnight, and a new incarnation reads the ledger once.
func (w *World) passMidnight() {
	for time.Now().YearDay() != time.Now().Add(2*time.Hour).YearDay() {
		w.pause(time.Hour)
	}
}

// renew restarts all processes with a new push limit.
func (w *World) renew(limit int64) {
	w.restart(limit)
	w.work(time.Minute)
	w.measureAnew()
}

// measured makes a user call the API, and returns the duration of all the resulting work.
func (w *World) measured(op *operation, refusals ...*refusal) time.Duration {
	settle := op.settle
	op.settle = func(err error) {
		if err != nil {
			w.load.fail("I6", "in the calm part %s failed: %v", op.name, err)
		}
		settle(err)
	}
	w.measureAnew(refusals...)
	w.load.run(op, w.load.apis[0])
	return w.work(3 * time.Hour)
}

// call makes an operation of the calm part.
func (w *World) call(name string, do func(ctx context.Context, s *domain) error) *operation {
	return &operation{name: name, user: w.load.users[0], do: do, settle: func(error) {}}
}

// measureHomes reads the homes. The reads request lost work, and some readers get a later day or
// return.
func (w *World) measureHomes() {
	before := map[string]*schema.Presence{}
	for _, user := range w.load.users {
		before[user] = w.presenceOf(user)
		w.within("the work after a home read of "+user, w.measured(w.load.wholeHome(user)), 0, atOnce, 0)
	}
	time.Sleep(2 * time.Minute)
	for _, user := range w.load.users {
		for asked := 0; asked < mostAsked && len(w.leftIn(user)) > 0; asked++ { // one read requests a part of the work
			w.measured(w.load.wholeHome(user))
			time.Sleep(10 * time.Minute)
		}
		if left := w.leftIn(user); len(left) > 0 {
			w.load.fail("I6", "in the calm part home reads leave %v", left)
		}
		if w.shape.Days == 0 {
			continue
		}
		ahead := min(7*day, time.Duration(w.shape.Days)*day/2) - time.Hour
		p := w.presenceOf(user)
		if p == nil || p.State != schema.PresenceHere || time.Until(p.Until.Start()) < ahead {
			w.load.fail("I11", "after a home read the presence of %s is %+v, with %d active days", user, p, w.shape.Days)
			continue
		}
		if was := before[user]; was != nil && was.Until == p.Until {
			continue // the worker that enrolled the reader may have died before it dated the edges
		}
		for _, followee := range w.load.users {
			if edge := w.items[schema.FollowerKey(followee, user)]; edge != nil && schema.Day(edge.Int(schema.AttrUntil)) < p.Until {
				w.load.fail("I11", "after a home read the edge of %s to %s has the day %d, its presence is %+v", user, followee, edge.Int(schema.AttrUntil), p)
			}
		}
	}
}

// measureFollow makes a user unfollow and then follow another user.
func (w *World) measureFollow() {
	reader, followee := w.load.users[1], w.load.users[0]
	for _, p := range []pair{{reader, followee}, {followee, reader}} {
		if h := w.load.blocks[p]; h != nil {
			h.doubtful = true // the workload made no such call
		}
		w.within("the end of a block", w.measured(w.call("unblock "+p.author, func(ctx context.Context, s *domain) error {
			return s.Unblock(ctx, p.follower, p.author)
		})), 0, atOnce, 0)
	}
	w.within("an unfollow", w.measured(w.load.followOf(reader, followee, false, 0)), 0, atOnce, 0)
	w.within("a home read after an unfollow", w.measured(w.load.wholeHome(reader)), 0, atOnce, 0)
	if n := w.entriesOf(reader, followee); n > 0 {
		w.load.fail("I11", "after an unfollow %s has %d entries of %s", reader, n, followee)
	}
	mode, err := w.modeOf(followee)
	if err != nil {
		w.load.fail("oracle", "%v", err)
	}
	time.Sleep(time.Second)
	w.within("a follow", w.measured(w.load.followOf(reader, followee, true, 0)), 0, atOnce, 0)
	_, from := w.edge(reader, followee)
	mine := 0
	for _, it := range w.partition(schema.PostsPK(followee)) {
		if post, err := schema.ParsePost(it); err == nil && post.ID >= from && !w.mayHaveExpired(post.ID) {
			mine++
		}
	}
	if mode.State == schema.ModePush && w.entriesOf(reader, followee) < mine {
		w.load.fail("I11", "after a follow %s has %d entries of %s, want %d", reader, w.entriesOf(reader, followee), followee, mine)
	}
	mark := w.items[schema.MarkKey(reader, followee)]
	if mark == nil || mark.Has(table.AttrTTL) != (mode.State == schema.ModePush) {
		w.load.fail("I11", "after a follow the mark of %s for %s, whose mode is %s, is %v", reader, followee, mode.State, mark)
	}
}

// entriesOf returns the number of entries of an author in a home.
func (w *World) entriesOf(user, author string) (n int) {
	for _, it := range w.partition(schema.TimelinePK(user)) {
		if e, err := schema.ParseEntry(it); err == nil && e.Author == author && !w.mayHaveExpired(e.Post) {
			n++
		}
	}
	return n
}

// measurePurge deletes the post with its comments and likes.
func (w *World) measurePurge(post string) {
	for i := range 2 {
		took := w.measured(w.call("comment", func(ctx context.Context, s *domain) error {
			_, err := s.CreateComment(ctx, w.load.users[0], post, "calm "+strconv.Itoa(i))
			return err
		}))
		w.within("a comment", took, 0, atOnce, 0)
	}
	pages := 0
	ref := w.refOf(post)
	lists := []string{schema.CommentsPK(post)}
	for shard := range ref.LikeShards {
		lists = append(lists, schema.LikesPK(post, shard, ref.LikeShards))
	}
	for _, pk := range lists {
		pages += (len(w.partition(pk)) + w.shape.Page - 1) / w.shape.Page
	}
	took := w.measured(w.call("delete", func(ctx context.Context, s *domain) error { return s.DeletePost(ctx, poster, post) }))
	w.within("a purge", took, messages.MaxAhead+time.Minute, messages.MaxAhead+2*time.Minute, 1+(pages-1)/purgedAtOnce)
	left := 0
	for _, pk := range lists {
		left += len(w.partition(pk))
	}
	w.expect("I11", "pages that were purged", w.probe.calls["fanout batch_write comment"]+w.probe.calls["fanout batch_write likelist"], pages)
	w.expect("I11", "comments and likes of a purged post", left, 0)
	count := w.items[schema.LikeCountKey(post)]
	if ttl := time.Unix(count.Int(table.AttrTTL), 0); time.Until(ttl) < timelineTTL+schema.DeliveryKept-time.Hour || time.Until(ttl) > timelineTTL+schema.DeliveryKept {
		w.load.fail("I11", "in the calm part the like count of a purged post expires at %v", ttl)
	}
	w.act(post, 1, 2, false)
	w.expect("I11", "likes of a deleted post written", w.probe.calls["likeagg put likelist"], 0)
}

// measureForget forgets a user, and checks that no record of the user is left.
func (w *World) measureForget(ctx context.Context) {
	l := w.load
	user := l.users[len(l.users)-1]
	if len(w.queue(queue.TopicLikes).dead) > 0 {
		return // a like among the dead letters stays
	}
	took := w.measured(w.call("forget", func(ctx context.Context, s *domain) error {
		_, err := s.AskToForget(ctx, user)
		return err
	}))
	if took < time.Hour || took > time.Hour+10*time.Minute {
		w.load.fail("I8", "in the calm part a user was forgotten after %s", took)
	}
	left := map[string]int{
		"followers": len(w.partition(schema.FollowersPK(user))), "followees": len(w.partition(schema.FollowingPK(user))),
		"posts": len(w.partition(schema.PostsPK(user))),
	}
	if w.items[schema.ProfileKey(user)] != nil {
		left["profile"]++
	}
	index := func(pk string) (n int) {
		for page, err := range w.store.Query(ctx, table.Query{Index: true, PK: pk}) {
			if err != nil {
				l.fail("oracle", "%v", err)
			}
			for _, it := range page.Items { // a purge that no call requested leaves items
				post, _, _ := strings.Cut(strings.TrimPrefix(it.Key.PK, "p#"), "#")
				if ref := w.refOf(post); ref != nil && !ref.Deleted {
					n++
				}
			}
		}
		return n
	}
	left["comments"], left["likes"] = index(schema.UserCommentsPK(user)), index(schema.UserLikesPK(user))
	for _, what := range sorted(left) {
		w.expect("I11", what+" of a forgotten user", left[what], 0)
	}
}
