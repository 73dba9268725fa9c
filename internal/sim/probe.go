package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// One of probeEvery seeds ends with a calm part. Its processes are new and have right clocks, on the
// table after the storms. A town is damaged and repaired, and likes are restored from a copy. Users
// read their homes, follow and unfollow. An author with many followers posts, and is pulled and
// pushed again; its post is liked and deleted; and a user is forgotten. Each work has a bound in time
// and calls, and no message is delivered twice.

const (
	probeEvery = 6
	// heldInProbe bounds the messages of a process, so half of them close a window.
	heldInProbe = 24
	// inProbe is the number of followers of the author that posts. The settings below match
	// this number. For every fourth follower the day has passed.
	inProbe = 40
	// atOnce is the time of a work without waits.
	atOnce = 10 * tick
	poster = "measured"
	// purgedAtOnce is the number of pages that one receive of a message removes.
	purgedAtOnce = 20
)

// sizes are settings of the workers, with the calls that one post takes.
type sizes struct {
	page, chunk, plan int
	// chunks, pages and plans are the stored chunks, the pages of followers and the plan
	// messages of a post, sums the moves of its summary, walks the pages of a mark walk.
	chunks, pages, plans, sums, walks int
}

func (w *World) sizes() sizes {
	return []sizes{
		{page: 3, chunk: 5, plan: 3, chunks: 8, pages: 16, plans: 3, sums: 2, walks: 14},
		{page: 60, chunk: 60, plan: 3, chunks: 1, pages: 1, walks: 1},
		{page: 30, chunk: 100, plan: 2, chunks: 1, pages: 2, plans: 1, walks: 2},
	}[w.seed/probeEvery%3]
}

// measure is the calm part.
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
	w.pause(clocksMost) // ids from ahead are due
	w.renew(0)
	w.measureDamages(ctx)
	w.measureRestore(ctx)
	w.renew(int64(w.shape.Limit))
	w.measureHomes()
	w.measureFollow()
	post, other := w.measureModes(of)
	w.measureLikes(post)
	w.measureRefusals(post, other)
	w.measureStop(post)
	w.measurePrune(post)
	w.measurePurge(post)
	w.measureForget(ctx)
	w.checkCounts()
}

// renew restarts all processes with a push limit.
func (w *World) renew(limit int64) {
	w.restart(limit)
	w.work(time.Minute)
	w.measureAnew()
}

// measured makes a user call the API, and returns how long all the resulting work takes.
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

// measureHomes reads the homes: lost work is asked for, and readers are dated or return.
func (w *World) measureHomes() {
	before := map[string]*schema.Presence{}
	for _, user := range w.load.users {
		before[user] = w.presenceOf(user)
		w.within("the work after a home read of "+user, w.measured(w.load.wholeHome(user)), 0, atOnce, 0)
	}
	time.Sleep(2 * time.Minute)
	for _, user := range w.load.users {
		for asked := 0; asked < mostAsked && len(w.leftIn(user)) > 0; asked++ { // a read reminds of some marks, and once in a while
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
			continue // the worker that enrolled it may have died before it dated the edges
		}
		for _, followee := range w.load.users {
			if edge := w.items[schema.FollowerKey(followee, user)]; edge != nil && schema.Day(edge.Int(schema.AttrUntil)) < p.Until {
				w.load.fail("I11", "after a home read the edge of %s to %s has the day %d, its presence is %+v", user, followee, edge.Int(schema.AttrUntil), p)
			}
		}
	}
}

// measureFollow makes a user unfollow another one and follow it again.
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

// measuredFollower names a follower of the author that posts.
func measuredFollower(i int) string { return fmt.Sprintf("measured%02d", i) }

// away reports whether fan-out has to skip a follower of the author that posts.
func (w *World) awayInProbe(i int) bool { return w.shape.Days > 0 && i%4 == 0 }

// measureModes makes an author with followers post. The number of followers passes the push
// limit upwards and then downwards, by one follower each time. It returns the author's first
// and last post.
func (w *World) measureModes(of sizes) (first, last string) {
	now := time.Now()
	w.write(schema.Profile{User: poster, Name: poster, CreatedAt: now}.Item())
	w.write(table.Item{Key: schema.FollowerCountKey(poster, poster), Attrs: []table.Attr{{Name: schema.AttrN, Value: table.N(inProbe)}}})
	for i := range inProbe {
		until := schema.Day(0)
		if i%4 == 0 {
			until = schema.DayOf(now) - 2
		}
		w.write(schema.DatedFollowerItem(poster, measuredFollower(i), now, until))
	}
	for i, step := range []struct {
		limit  int64
		wait   time.Duration
		pulled bool
		after  schema.ModeState
	}{
		{limit: inProbe, after: schema.ModePush},
		{limit: inProbe - 1, after: schema.ModePull},
		{limit: inProbe - 1, pulled: true, after: schema.ModePull},
		{limit: inProbe*10/8 + 1, pulled: true, after: schema.ModePull}, // too soon
		{limit: inProbe * 10 / 8, wait: modeRest, pulled: true, after: schema.ModePull},
		{limit: inProbe*10/8 + 1, after: schema.ModePush},
	} {
		time.Sleep(step.wait + time.Second)
		w.renew(step.limit)
		before, err := w.modeOf(poster)
		if err != nil {
			w.load.fail("oracle", "%v", err)
		}
		post := w.measurePost(of, step.pulled)
		if last = post; first == "" {
			first = post
		}
		mode, err := w.modeOf(poster)
		if err != nil || mode.State != step.after {
			w.load.fail("I11", "after post %d with the limit %d the mode is %+v, want %s: %v", i+1, step.limit, mode, step.after, err)
			return first, last
		}
		if mode.V != before.V {
			w.expect("I11", "messages of the walk", w.probe.calls["fanout publish backfills"], (of.walks+of.plan-1)/of.plan)
			w.expect("I11", "marks written", w.probe.calls["fanout put home"], inProbe)
			w.expect("I9", "marks written at once", w.probe.most["fanout put home"], min(of.page, 16))
			w.expect("I11", "steps of the walk", w.probe.calls["fanout update user"], of.walks)
		} else {
			w.expect("I11", "messages of walks", w.probe.calls["fanout publish backfills"], 0)
		}
		w.measureAgain(of, i+1, step.pulled)
		if i == 2 { // the author is pulled, and stays so for a step
			w.measureHeads()
		}
	}
	if of.page > inProbe {
		w.measureShortage()
	}
	return first, last
}

// measureHeads makes a follower of the pulled author read its home, whose API shares the
// author's newest posts. A post shows after headAge, and not after its deletion.
func (w *World) measureHeads() {
	if !w.shape.Heads || w.shape.Days > 0 { // a reader without a presence would return
		return
	}
	var post feed.Post
	shown := func(before func(ctx context.Context, s *domain) error) (is bool) {
		w.measured(w.call("home", func(ctx context.Context, s *domain) error {
			if err := before(ctx, s); err != nil {
				return err
			}
			page, err := s.Home(ctx, measuredFollower(1), home.Query{}, page.Request{})
			is = slices.ContainsFunc(page.Items, func(it feed.HomeItem) bool { return it.Post.ID == post.ID })
			return err
		}))
		return is
	}
	nothing := func(context.Context, *domain) error { return nil }
	shown(nothing)
	w.measured(w.call("post", func(ctx context.Context, s *domain) (err error) {
		post, err = s.CreatePost(ctx, poster, feed.PostInput{Text: "calm"})
		return err
	}))
	time.Sleep(headAge)
	if !shown(nothing) {
		w.load.fail("I7", "in the calm part a home lacks a post that a pulled author made %s ago", headAge)
	}
	if shown(func(ctx context.Context, s *domain) error { return s.DeletePost(ctx, poster, post.ID) }) {
		w.load.fail("I2", "in the calm part a home shows a deleted post of a pulled author")
	}
}

// measureAgain delivers the messages of the last work again. The handlers find the work
// done: only an attempt is written, and planners send each other the rest of the chain.
func (w *World) measureAgain(of sizes, post int, pulled bool) {
	what, plans := fmt.Sprintf("of post %d", post), 0
	if of.plans > 1 && !pulled {
		plans = of.plans * (of.plans + 1) / 2
	}
	handed := w.probe.handed
	w.measureAnew()
	for i, m := range handed {
		name := fmt.Sprintf("again %d %d", w.steps, i)
		w.put(m.topic, m.id, name, m.payload)
	}
	w.within("the messages again "+what, w.work(time.Minute), 0, atOnce, 0)
	for _, class := range sorted(w.probe.calls) {
		switch _, call, _ := strings.Cut(class, " "); {
		case class == "fanout update delivery":
			w.expect("I11", "attempts "+what, w.probe.calls[class], 1)
		case class == "fanout publish chunks":
			w.expect("I11", call+" "+what, w.probe.calls[class], plans)
		case !strings.HasPrefix(call, "get ") && !strings.HasPrefix(call, "query ") && !strings.HasPrefix(call, "batch_get ") && call != "put delivery" && call != "send events":
			w.expect("I11", call+" for messages that come again "+what, w.probe.calls[class], 0)
		}
	}
}

// measureShortage makes the table refuse a page of entries: its parts, and then all of them in
// one part. The message is redelivered with one part at a time, and the next page has two
// parts again.
func (w *World) measureShortage() {
	for _, step := range []struct{ refuse, again, calls int }{{3, 1, 4}, {0, 0, 2}, {2, 0, 3}, {0, 0, 2}} {
		time.Sleep(time.Second)
		op := w.call("post", func(ctx context.Context, s *domain) error {
			_, err := s.CreatePost(ctx, poster, feed.PostInput{Text: "calm"})
			return err
		})
		took := w.measured(op, &refusal{class: "fanout batch_write timeline", n: step.refuse, err: unavailable("table.batch_write")})
		w.within("a delivery while the table is short", took, 0, time.Duration(step.again)*30*time.Second+atOnce, step.again)
		w.expect("I9", "writes of a page, refused ones included", w.probe.calls["fanout batch_write timeline"], step.calls)
		w.expect("I9", "parts of a page at once", w.probe.most["fanout batch_write timeline"], 2)
	}
}

// measurePost makes the author post, and checks the delivery.
func (w *World) measurePost(of sizes, pulled bool) string {
	var post feed.Post
	took := w.measured(w.call("post", func(ctx context.Context, s *domain) (err error) {
		post, err = s.CreatePost(ctx, poster, feed.PostInput{Text: "calm"})
		return err
	}))
	w.within("a delivery", took, 0, atOnce, 0)
	met, skipped := 0, 0
	for i := range inProbe {
		away := w.awayInProbe(i)
		if away {
			skipped++
		}
		entry := w.items[table.Key{PK: schema.TimelinePK(measuredFollower(i)), SK: schema.EntrySK(post.ID, poster)}]
		if entry != nil {
			met++
		}
		if (entry != nil) != (!pulled && !away) {
			w.load.fail("I1", "in the calm part a follower has an entry: %v, the post is pulled: %v, the follower away: %v", entry != nil, pulled, away)
			return post.ID
		}
	}
	var plan schema.Plan
	var chain schema.Chain
	for _, it := range w.partition(schema.DeliveryPK(post.ID)) {
		if p, err := schema.ParsePlan(it); err == nil {
			plan = p
		} else if c, err := schema.ParseChunk(it); err == nil {
			chain.Add(c)
		}
	}
	if pulled {
		w.expect("I6", "planned of a pulled post", int(plan.Planned), 1)
		w.expect("I11", "writes of a delivery record", w.probe.calls["fanout put delivery"]+w.probe.calls["fanout update delivery"], 1)
		w.expect("I11", "pages of followers", w.probe.calls["fanout query follower"]-w.walked(of), 0)
		return post.ID
	}
	if w.shape.Days == 0 {
		skipped = 0
	}
	w.expect("I6", "planned", int(plan.Planned), 1+inProbe)
	w.expect("I6", "attempts", int(plan.Attempts), 1)
	w.expect("I1", "delivered", int(chain.Delivered), met)
	w.expect("I1", "skipped", int(chain.Skipped), skipped)
	w.expect("I9", "entries that were observed", w.probe.written, met)
	w.expect("I9", "followers that were observed as skipped", w.probe.skipped, skipped)
	w.expect("I11", "chunks", int(chain.Total), of.chunks)
	w.expect("I11", "plans and chunks written", w.probe.calls["fanout put delivery"], 1+of.chunks)
	done := of.sums
	if of.plans > 0 {
		done += of.chunks
	}
	w.expect("I11", "chunks done and moves of the summary", w.probe.calls["fanout update delivery"], done)
	w.expect("I11", "chunks in the summary", int(plan.Sum.Total), of.sums*of.plan)
	return post.ID
}

// walked is the number of pages of followers that a walk read since the last reset.
func (w *World) walked(of sizes) int {
	if w.probe.calls["fanout put home"] == 0 {
		return 0
	}
	return of.walks
}

// act makes the followers of a range of numbers like or unlike a post, and returns the time
// until the count has their actions.
func (w *World) act(post string, from, to int, liked bool, refusals ...*refusal) time.Duration {
	w.measureAnew(refusals...)
	w.send(post, from, to, liked)
	return w.work(time.Hour)
}

func (w *World) send(post string, from, to int, liked bool) {
	for i := from; i < to; i++ {
		r := draws(w.seed, w.steps, i)
		w.load.send(r, "calm "+strconv.Itoa(w.steps)+" "+strconv.Itoa(i), post, measuredFollower(i), map[bool]string{true: schema.KindLike}[liked])
	}
}

// counts checks the count of a post.
func (w *World) counts(post string, want int) {
	w.expect("I3", "likes", int(w.likesOf(post)), want)
}

// measureLikes makes followers act on a post.
func (w *World) measureLikes(post string) {
	const window = likeWindow + tick
	w.within("a window", w.act(post, 0, 8, true), likeWindow, window, 0)
	w.counts(post, 8)
	w.expect("I11", "likes written", w.probe.calls["likeagg put likelist"], 8)
	w.expect("I11", "likes read", w.probe.calls["likeagg get likelist"], 0)
	w.expect("I11", "updates of the count", w.probe.calls["likeagg update likecount"], 1)
	w.expect("I9", "likes written at once", w.probe.most["likeagg put likelist"], 4)
	w.expect("I11", "windows", len(w.probe.outcomes), 1)
	for _, o := range w.probe.outcomes {
		if o.Messages != 8 || o.Applied != 8 || o.Lag < likeWindow || o.Lost || o.Fences > 0 {
			w.load.fail("I9", "in the calm part a window of 8 likes had the outcome %+v", o)
		}
	}
	w.within("half of the messages that may be held", w.act(post, 8, 8+heldInProbe/2, true), 0, atOnce, 0)
	w.counts(post, 20)
	w.expect("I11", "updates of the count", w.probe.calls["likeagg update likecount"], 1)
	w.within("unlikes", w.act(post, 0, 4, false), likeWindow, window, 0)
	w.counts(post, 16)
	w.expect("I11", "likes written", w.probe.calls["likeagg put likelist"], 4)
	w.expect("I11", "likes read", w.probe.calls["likeagg get likelist"], 4)
	w.expect("I11", "ledgers read", w.probe.calls["likeagg get likecount"], 0)
	w.within("the same again", w.act(post, 0, 4, false), likeWindow, window, 0)
	w.renew(w.probe.limit)
	w.within("likes by other incarnations", w.act(post, 0, 4, true), likeWindow, window, 0)
	w.counts(post, 20)
	w.expect("I11", "ledgers read", w.probe.calls["likeagg get likecount"], 1)
	w.expect("I11", "notes of ends read", w.probe.calls["likeagg batch_get like end"], 0)
	w.measureFence(post)
}

// measureFence kills an aggregator between its likes and their flush. Another aggregator
// leaves the messages for two and four windows, and then fences the flush.
func (w *World) measureFence(post string) {
	w.measureAnew()
	w.send(post, 20, 21, true)
	for w.steps < 2*mostSteps {
		w.steps++
		w.settle()
		w.collect()
		ready := w.ready()
		if len(ready) > 0 && ready[0].class == "update likecount" {
			w.end(ready[0].proc)
			break
		}
		switch {
		case len(ready) > 0:
			w.letGo(ready[0])
		case !w.handOut():
			w.tickOn()
		}
	}
	took := w.work(time.Hour)
	least := visibility + (1+2+1+4+1)*likeWindow - likeWindow
	w.within("a like whose aggregator died", took, least, least+2*likeWindow, 2)
	w.counts(post, 21)
	fences := 0
	for _, o := range w.probe.outcomes {
		fences += o.Fences
	}
	w.expect("I9", "fences", fences, 1)
}

// measureRefusals makes the table refuse likes, and fail with an unknown error.
func (w *World) measureRefusals(post, other string) {
	const put = "likeagg put likelist"
	// Between two tries there are up to 50, 100, 200, 400 and 800 ms.
	took := w.act(post, 21, 22, true, &refusal{class: put, n: 5, err: unavailable("table.put")})
	w.within("a like that was refused five times", took, likeWindow+tick, likeWindow+1550*time.Millisecond+5*tick, 0)
	w.expect("I11", "likes written", w.probe.calls[put], 6)
	took = w.act(post, 22, 23, true, &refusal{class: put, n: 4, err: errDown})
	w.within("a like that failed four times", took, likeWindow, 2*likeWindow, 0)
	w.act(post, 23, 24, true, &refusal{class: put, n: 5, err: errDown})
	w.expect("I9", "messages of a window that was lost", len(w.probe.again), 1)
	w.expect("I9", "windows, one of them lost", len(w.probe.outcomes), 2)
	if len(w.probe.outcomes) > 0 && !w.probe.outcomes[0].Lost {
		w.load.fail("I9", "in the calm part a lost window had the outcome %+v", w.probe.outcomes[0])
	}
	w.counts(post, 24)
	// A partition that refuses writes delays no other user.
	short := &refusal{class: put, pk: "p#" + post + "#", n: 1 << 30, err: unavailable("table.put")}
	w.measureAnew(short)
	w.send(post, 24, 32, true)
	w.send(other, 0, 1, true)
	is := func() bool { return w.likesOf(other) == 1 }
	if took := w.workUntil(time.Minute, is); took > likeWindow+tick {
		w.load.fail("I8", "in the calm part a like waits for %s, as another post's are refused", took)
	}
	short.n = 0
	w.work(time.Minute)
	w.counts(post, 32)
	// A user whose partition of the index is full delays no other user either.
	full := &refusal{class: put, pk: indexPartition(schema.UserLikesPK(measuredFollower(1))), n: 1 << 30, err: &table.UnavailableError{
		Op: "table.put", Err: errThrottled, Reason: table.ShortKeyRange, Index: true, Undone: true,
	}}
	w.measureAnew(full)
	w.send(other, 1, 6, true)
	is = func() bool { return w.likesOf(other) == 5 }
	if took := w.workUntil(time.Minute, is); took > likeWindow+750*time.Millisecond+5*tick {
		w.load.fail("I8", "in the calm part likes wait for %s, as another user's are refused", took)
	}
	full.n = 0
	w.work(time.Minute)
	w.counts(other, 6)
}

// measureStop stops an aggregator as a deployment does, in the middle of a window. On the next
// day likes are counted again. Each incarnation notes its end.
func (w *World) measureStop(post string) {
	const note = "likeagg put like end"
	w.act(post, 32, 33, true)
	time.Sleep(day)
	w.act(post, 33, 34, true)
	first := w.probe.calls[note]
	if first < 1 || first > 2 { // the first note of a process has the time of the first note of all with it
		w.expect("I11", "notes of ends on the next day", first, 1)
	}
	w.measureAnew()
	w.send(post, 34, 36, true)
	w.workUntil(time.Minute, func() bool { return true }) // handed out
	for _, p := range w.procs {
		if p.role == "likeagg" {
			p.ending = true
			p.stop()
		}
	}
	took := w.workUntil(time.Minute, func() bool { return len(w.queue(queue.TopicLikes).messages) == 0 })
	w.within("a stop in a window", took, 0, atOnce, 0)
	w.work(time.Minute)
	w.counts(post, 36)
	if n := w.probe.calls[note]; n < 1 {
		w.expect("I11", "notes of ends at a stop", n, 1)
	}
}

func (w *World) likesOf(post string) int64 {
	return schema.ParseLikeCount(w.items[schema.LikeCountKey(post)]).Likes()
}

// measurePrune gives the ledger of a post the entries of weeks, all of which may be pruned:
// an hour after the first read of their notes, a flush prunes them.
func (w *World) measurePrune(post string) {
	in := table.UpdateInput{Key: schema.LikeCountKey(post)}
	for i := range 70 {
		inc := fmt.Sprintf("cal%08d", i)
		w.write(schema.LikeEnd{Inc: inc, Lost: map[string]bool{}}.Item())
		in.Set = append(in.Set, table.Attr{Name: schema.AttrFlushed(inc), Value: table.N(1)})
	}
	_, err := w.store.Update(context.Background(), in)
	w.did(err, in.Key)
	w.renew(w.probe.limit)
	w.act(post, 36, 37, true)
	w.expect("I11", "updates of the count", w.probe.calls["likeagg update likecount"], 1)
	w.expect("I11", "notes of ends read", w.probe.calls["likeagg batch_get like end"], 1)
	time.Sleep(noteSettled - time.Minute)
	w.act(post, 37, 38, true)
	w.expect("I11", "updates of the count before the notes are settled", w.probe.calls["likeagg update likecount"], 1)
	time.Sleep(2 * time.Minute)
	w.act(post, 38, 39, true)
	w.expect("I11", "updates of the count with a prune", w.probe.calls["likeagg update likecount"], 2)
	w.counts(post, 39)
	if size := table.Size(*w.items[in.Key]); size > 512 {
		w.load.fail("I9", "in the calm part a ledger has %d bytes after its prune", size)
	}
	w.act(post, 39, 40, true)
	w.expect("I11", "updates of a small count", w.probe.calls["likeagg update likecount"], 1)
	w.expect("I11", "notes of ends read for a small count", w.probe.calls["likeagg batch_get like end"], 0)
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

// measureForget forgets a user, and checks that nothing of it is left.
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
			for _, it := range page.Items { // a purge that was never asked for leaves the rest
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
