package sim

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// act makes the followers in a range of numbers like or unlike a post. It returns the time until
// the count includes all these actions.
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

// counts checks the like count of a post.
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

// measureFence kills an aggregator between its likes and their flush. Another aggregator returns
// the messages to the queue for two and then four windows, and then fences the flush.
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

// measureRefusals makes the table refuse likes, and then makes the table fail with an unknown
// error.
func (w *World) measureRefusals(post, other string) {
	const put = "likeagg put likelist"
	// The waits between tries are at most 50, 100, 200, 400 and 800 ms.
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
	// A partition that refuses writes delays no likes in other partitions.
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
	// A user whose partition of the index is full delays no likes of other users.
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

// measureStop stops an aggregator in the middle of a window, as a deployment does. On the next day aggregators
// count likes again. Each incarnation notes its end.
func (w *World) measureStop(post string) {
	const note = "likeagg put like end"
	w.act(post, 32, 33, true)
	time.Sleep(day)
	w.act(post, 33, 34, true)
	first := w.probe.calls[note]
	if first < 1 || first > 2 { // the first note of a process also has the time of the first note of all processes
		w.expect("I11", "notes of ends on the next day", first, 1)
	}
	w.measureAnew()
	w.send(post, 34, 36, true)
	w.workUntil(time.Minute, func() bool { return true }) // waits until the message is delivered
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

// measurePrune adds entries of weeks to the ledger of a post, all of which may be pruned. An hour
// after the first read of the notes for these entries, a flush prunes the entries.
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
