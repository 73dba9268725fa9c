package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// The faults in this file are about days, ages and clocks: time passes while calls or messages are
// open.

const (
	// mostTransit is the maximum time from a request to its effect. AWS refuses a request that was
	// signed minutes ago, and the connections of a process die while the process sleeps.
	mostTransit = 5 * time.Minute
	// mostSkew is the maximum skew of clocks in most worlds.
	mostSkew = 2 * time.Second
	// noticeSkew is the maximum skew of the clocks that set the places of notifications. None of
	// these clocks is in doubt.
	noticeSkew = time.Minute
	// clocksApart is the maximum skew in a world whose clocks differ by hours.
	clocksApart = 6 * time.Hour
	day         = 24 * time.Hour
)

// edges fires the faults of one step.
func (w *World) edges() {
	w.wake()
	w.finishStops()
	f := w.faults
	w.aboutStep("edges")
	if w.leapAt > 0 && w.steps >= w.leapAt {
		w.leapAt = 0
		w.fire(FaultLeap, w.leap)
	}
	w.fireArmed()
	// There is one draw for all faults, because each fault is rare and most steps have none.
	x := w.rng.Float64()
	for _, of := range []struct {
		kind string
		rate float64
		do   func() bool // reports whether the fault was possible
	}{
		{FaultStop, f.Stop, w.halt},
		{FaultSleep, f.Sleep, func() bool { return w.arm(FaultSleep) }},
		{FaultStep, f.Step, w.setClock},
		{FaultLeap, f.Leap, w.leap},
		{FaultBury, f.Bury, func() bool { return w.arm(FaultBury) }},
		{FaultSweep, f.Sweep, w.sweepOne},
		{FaultHistory, f.History, w.history},
	} {
		if x -= of.rate; x < 0 {
			w.fire(of.kind, of.do)
			return
		}
	}
}

func (w *World) fire(kind string, do func() bool) {
	if !w.off[kind] && do() {
		w.Fired[kind]++
	}
}

// arm postpones a fault until the moment at which it leaves the most work open.
func (w *World) arm(kind string) bool {
	if !w.aged && w.armed[kind] == 0 {
		w.armed[kind] = w.steps + 400
	}
	return false // the fault fires later
}

// fireArmed fires the armed faults whose moment has come. Aggregators die after they have stamped
// likes and before the flush, or sleep before they write a like.
func (w *World) fireArmed() {
	if len(w.armed) == 0 {
		return
	}
	moment := func(class string, is func(in any) bool) *Proc {
		for _, c := range w.ready() {
			if c.proc.role == "likeagg" && c.class == class && c.due == 0 && !c.proc.asleep && !c.proc.ending && is(c.in) {
				return c.proc
			}
		}
		return nil
	}
	if until := w.armed[FaultBury]; until > 0 && (w.steps > until || moment("update likecount", w.leavesMuch) != nil) {
		delete(w.armed, FaultBury)
		w.fire(FaultBury, w.bury)
	}
	if until := w.armed[FaultSleep]; until > 0 {
		first, post := w.readsFirst()
		p := first
		if !w.sleepsOverNotices() {
			p = moment("put likelist", func(any) bool { return true })
		}
		if w.steps > until || p != nil || !w.shape.Ages && !w.sleepsOverNotices() && w.rng.IntN(20) == 0 {
			delete(w.armed, FaultSleep)
			w.fire(FaultSleep, func() bool { return w.suspend(p) && (first == nil || w.deleteBeside(post)) })
		}
	}
}

// sleepsOverNotices reports whether the sleepers of the world are workers that write notifications.
func (w *World) sleepsOverNotices() bool { return w.shape.Notices && w.seed%3 == 0 }

// readsFirst returns a worker that reads a notification which nobody has written yet, and the post
// of the notification. If the worker sleeps after the read and puts the notification later, the
// purge of a deleted post misses that put.
func (w *World) readsFirst() (*Proc, string) {
	if !w.sleepsOverNotices() {
		return nil, ""
	}
	for _, c := range w.ready() {
		read, ok := c.in.(table.BatchGetInput)
		if !ok || c.proc.role != "notify" || c.due != 0 || c.proc.asleep || c.proc.ending {
			continue
		}
		for _, key := range read.Keys {
			target, ok := strings.CutPrefix(key.SK, schema.SortNotice)
			if _, post, _ := strings.Cut(target, "#"); ok && post != "" && w.items[key] == nil {
				return c.proc, post
			}
		}
	}
	return nil, ""
}

// deleteBeside deletes a post while a worker that has read a notification of the post sleeps.
func (w *World) deleteBeside(post string) bool {
	l := w.load
	api := l.apis[w.rng.IntN(len(l.apis))]
	if author := l.owner[post]; author != "" && !l.deleted[post] && l.busy[author] == nil && api.up() {
		l.doubtful[post] = true
		l.run(l.deleteOf(author, post), api)
	}
	return true
}

// leavesMuch reports whether a write of a like count is a flush. In half of the worlds it reports
// only flushes that subtract likes: if such a flush never happens, the unlikes stay open, and their
// items must not expire.
func (w *World) leavesMuch(write any) bool {
	in, ok := write.(table.UpdateInput)
	return ok && len(in.Add) > 0 && (w.seed%4 < 2 || in.Add[0].Value.Int() < 0)
}

// awake returns the running processes of a role, or of all roles for "", whose role has another running process.
func (w *World) awake(role string) []*Proc {
	var all []*Proc
	roles := map[string]int{}
	for _, p := range w.procs {
		if !p.dead && !p.ending && !p.asleep && !p.wrong {
			roles[p.role]++
			if role == "" || p.role == role {
				all = append(all, p)
			}
		}
	}
	return slices.DeleteFunc(all, func(p *Proc) bool { return roles[p.role] < 2 })
}

// halt stops a process as a deployment does: the process accepts no further work, and has some time
// to finish.
func (w *World) halt() bool {
	all := w.awake("")
	if len(all) == 0 {
		return false
	}
	p := all[w.rng.IntN(len(all))]
	w.note("stop %s", p.Name)
	p.ending = true
	p.stop()
	return true
}

// finishStops ends the stopping processes that hold no work any more.
func (w *World) finishStops() {
	for _, p := range w.procs {
		w.mu.Lock()
		ended := p.ending && p.life.running == 0
		w.mu.Unlock()
		if ended {
			w.note("stopped %s", p.Name)
			w.end(p)
		}
	}
}

// suspend makes a process sleep for hours or days. If p is nil, suspend draws the process, most
// often a process that waits for an answer. Requests in progress take effect before the sleep, or
// never.
func (w *World) suspend(p *Proc) bool {
	all := slices.DeleteFunc(w.awake(""), func(p *Proc) bool { return w.hours && p.Name == "notify-0" })
	busy := slices.DeleteFunc(w.ready(), func(c *call) bool { return !slices.Contains(all, c.proc) })
	if len(all) == 0 || p != nil && !slices.Contains(all, p) {
		return false
	}
	switch {
	case p != nil:
	case len(busy) > 0 && w.rng.IntN(4) > 0:
		p = busy[choose(w.rng, busy, nameOf)].proc
	default:
		p = all[w.rng.IntN(len(all))]
	}
	lasts := time.Duration(1+w.rng.IntN(12*60)) * time.Minute
	switch x := w.rng.IntN(6); {
	case x < 3 && w.shape.Ages || x == 0:
		lasts = time.Duration(31+w.rng.IntN(15)) * day
	case x < 5:
		lasts = time.Duration(1+w.rng.IntN(20*24)) * time.Hour
	}
	p.asleep, p.paused = true, time.Now().Add(lasts)
	w.note("%s sleeps for %s", p.Name, lasts)
	w.endDoubts(p)
	w.mu.Lock()
	parked := slices.Clone(w.parked)
	w.mu.Unlock()
	for _, c := range parked {
		if c.proc == p && c.due == 0 && (p.role == "notify" || w.rng.IntN(2) == 0) {
			c.answered = c.effect(1)
			c.due = max(w.steps, c.whole)
			w.note("effect %s before a sleep: %v", c.label, c.answered)
		}
	}
	if p.role == "api" { // the clients of the API give up
		for _, user := range w.load.clients {
			if op := w.load.busy[user]; op != nil && op.api == p {
				delete(w.load.busy, user)
				w.note("end %s %s: its API sleeps", user, op.name)
				op.settle(errDown)
			}
		}
	}
	return true
}

// wake ends the sleeps whose time has come.
func (w *World) wake() {
	for _, p := range w.procs {
		if p.asleep && !time.Now().Before(p.paused) {
			w.note("%s wakes up", p.Name)
			p.asleep = false
		}
	}
}

// setClock sets the clock of a process.
func (w *World) setClock() bool {
	p := w.procs[w.rng.IntN(len(w.procs))]
	before := p.skew.Swap(int64(w.apart(p)))
	if p.skew.Load() < before {
		p.back = time.Now()
	}
	w.note("the clock of %s is set to %s", p.Name, time.Duration(p.skew.Load()))
	return true
}

// apart draws the skew of the clock of a process.
func (w *World) apart(p *Proc) time.Duration {
	most := mostSkew
	switch {
	case p.role == "notify" && (!w.hours || p.Name == "notify-0"): // some process has to give places
		most = noticeSkew
	case w.hours:
		most = clocksApart
	}
	if p == w.audited {
		most = auditSkew
	}
	return time.Duration(w.rng.Int64N(int64(2*most))) - most
}

// leap makes hours pass in which neither the table nor the queues answer.
func (w *World) leap() bool {
	if w.leaps++; w.leaps > 3 {
		return false
	}
	w.pause(time.Duration(1+w.rng.IntN(30)) * time.Hour)
	return true
}

// pause makes time pass. Entries that a home has shown may expire meanwhile.
func (w *World) pause(d time.Duration) {
	w.mature(true)
	time.Sleep(d)
	w.note("time passes")
	clear(w.load.seen)
}

// binds reports whether the idempotency key of a post is certainly still bound. A key is bound for
// 24 hours by the clock of an API.
func (w *World) binds(post string) bool {
	at, err := id.Time(post)
	return err == nil && time.Since(at) < day-2*clocksApart
}

// bury kills all aggregators that are awake, and makes all messages in the queue of likes dead letters for
// some days.
func (w *World) bury() bool {
	if w.off[FaultCrash] || w.off[FaultDays] || w.heldBack {
		return false
	}
	for _, p := range w.procs {
		if p.role == "likeagg" && !p.dead && !p.asleep {
			w.crash(p, "bury")
		}
	}
	q := w.queue(queue.TopicLikes)
	for len(q.messages) > 0 {
		w.backstop(queue.TopicLikes, q.messages[0])
	}
	w.heldBack = true
	return true
}

// sweepOne deletes an expired item.
func (w *World) sweepOne() bool {
	expired := w.expired()
	if len(expired) == 0 {
		return false
	}
	if err := w.sweep(expired[w.rng.IntN(len(expired))]); err != nil {
		w.load.fail("oracle", "%v", err)
	}
	return true
}

// early returns the time by which the clock of the sweep is ahead.
func (w *World) early() time.Duration {
	if w.off[FaultEarly] {
		return 0
	}
	return w.shape.Early
}

// pastTTL reports whether the table may have deleted an item with a TTL, zero for none.
func (w *World) pastTTL(ttl time.Time) bool {
	return !ttl.IsZero() && !time.Now().Add(w.early()).Before(ttl)
}

// write puts an item into the table, without the ports.
func (w *World) write(it table.Item) {
	_, err := w.store.Put(context.Background(), table.PutInput{Item: it})
	w.did(err, it.Key)
}

func (w *World) did(err error, key table.Key) {
	if err == nil {
		err = w.wrote(key)
	}
	if err != nil {
		w.load.fail("oracle", "%v", err)
	}
}

// untilMidnight makes time pass until shortly before a midnight.
func (w *World) untilMidnight() {
	if !w.shape.Midnight || w.off[FaultMidnight] {
		return
	}
	w.Fired[FaultMidnight]++
	w.about("midnight %d", w.phase)
	next := time.Now().Truncate(day).Add(day)
	w.pause(time.Until(next) - time.Duration(w.rng.IntN(3000*w.shape.Pace))*time.Millisecond)
}
