package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// measuredFollower returns the name of a follower of the measured author.
func measuredFollower(i int) string { return fmt.Sprintf("measured%02d", i) }

// awayInProbe reports whether fan-out has to skip a follower of the measured author.
func (w *World) awayInProbe(i int) bool { return w.shape.Days > 0 && i%4 == 0 }

// measureModes makes an author with followers post. The number of followers crosses the push limit
// upwards and then downwards, by one follower each time. measureModes returns the author's first
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
		if i == 2 { // the author is pulled, and stays pulled for a step
			w.measureHeads()
		}
	}
	if of.page > inProbe {
		w.measureShortage()
	}
	return first, last
}

// measureHeads makes a follower of the pulled author read the follower's home through an API that
// shares the author's newest posts. The home shows a post after headAge at most, and never after
// the post's deletion.
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
		post, err = s.CreatePost(ctx, poster, feed.PostInput{Content: feed.Content{Text: "calm"}})
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

// measureAgain delivers the messages of the previous work again. The handlers find that the work is
// done: they write only an attempt, and planners send each other the rest of the chain.
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

// measureShortage makes the table refuse a page of entries: first both parts of the page, and then
// all entries in one part. The message is redelivered, its page is written one part at a time, and
// the next page has two parts again.
func (w *World) measureShortage() {
	for _, step := range []struct{ refuse, again, calls int }{{3, 1, 4}, {0, 0, 2}, {2, 0, 3}, {0, 0, 2}} {
		time.Sleep(time.Second)
		op := w.call("post", func(ctx context.Context, s *domain) error {
			_, err := s.CreatePost(ctx, poster, feed.PostInput{Content: feed.Content{Text: "calm"}})
			return err
		})
		took := w.measured(op, &refusal{class: "fanout batch_write timeline", n: step.refuse, err: unavailable("table.batch_write")})
		w.within("a delivery while the table is short", took, 0, time.Duration(step.again)*30*time.Second+atOnce, step.again)
		w.expect("I9", "writes of a page, refused ones included", w.probe.calls["fanout batch_write timeline"], step.calls)
		w.expect("I9", "parts of a page at once", w.probe.most["fanout batch_write timeline"], 2)
	}
}

// measurePost makes the author post, and checks the delivery of the post.
func (w *World) measurePost(of sizes, pulled bool) string {
	var post feed.Post
	took := w.measured(w.call("post", func(ctx context.Context, s *domain) (err error) {
		post, err = s.CreatePost(ctx, poster, feed.PostInput{Content: feed.Content{Text: "calm"}})
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

// walked returns the number of pages of followers that a mark walk has read since the last reset.
func (w *World) walked(of sizes) int {
	if w.probe.calls["fanout put home"] == 0 {
		return 0
	}
	return of.walks
}
