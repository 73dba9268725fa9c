package sim

import (
	"slices"
	"time"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

// In some worlds one worker of each role has a wrong clock in some of its lives: up to two months
// ahead or behind. The worker gets the right time from the replies of the table, so the worker
// doubts its clock (docs/decisions/0019). Such a worker must make nothing final by age, and send
// nothing with an id of its clock. Another worker does the work, and all other oracles hold.

// FaultDoubt is a life of a process in which the clock is in doubt.
const FaultDoubt = "clock in doubt in a life"

// workers returns the roles whose processes watch their clocks in these worlds. An API in doubt
// makes ids by its clock.
func workers() []string { return []string{"fanout", "likeagg", "notify"} }

// watchClock gives a process the clock of the life that begins. The clock is wrong in half of the
// lives of one worker of each role.
func (w *World) watchClock(p *Proc) {
	p.clock = nil
	if !w.shape.Doubts || !slices.Contains(workers(), p.role) {
		return
	}
	wrong := !w.right && !w.off[FaultDoubt] && p.Name == p.role+"-1" && w.rng.IntN(2) == 0 && w.worksBeside(p)
	switch {
	case wrong:
		w.Fired[FaultDoubt]++
		hours := 1 + w.rng.IntN(60*24)
		if w.rng.IntN(2) == 0 {
			hours = -hours
		}
		p.skew.Store(int64(time.Duration(hours) * time.Hour))
		w.note("the clock of %s is wrong by %s", p.Name, time.Duration(p.skew.Load()))
	case p.wrong:
		p.skew.Store(int64(w.apart(p)))
	}
	p.wrong = wrong
	p.clock = clock.New(p.Now)
	p.clock.Observe(time.Now(), 0)
}

// worksBeside reports whether another worker of the role is not asleep, and its clock is not wrong.
func (w *World) worksBeside(p *Proc) bool {
	return slices.ContainsFunc(w.procs, func(o *Proc) bool { return o != p && o.role == p.role && !o.asleep && !o.wrong })
}

// endDoubts ends the lives with a wrong clock if no other worker of a role does the work while p sleeps.
func (w *World) endDoubts(p *Proc) {
	for _, o := range w.procs {
		if o.role == p.role && o.wrong && !o.dead && !w.worksBeside(o) {
			w.note("the clock of %s is set right, because %s sleeps", o.Name, p.Name)
			w.end(o)
		}
	}
}

// inDoubt reports whether the clock of a process is in doubt.
func (p *Proc) inDoubt() bool { return p.clock.Doubt() != nil }

// byDoubt reports whether the process of a call has a wrong clock in this life.
func (c *call) byDoubt() bool { return c != nil && c.wrong }

// checkSentInDoubt checks that a process whose clock is in doubt sends no event with an id of that
// clock, because other workers would refuse the event for good.
func (w *World) checkSentInDoubt(p *Proc, topic string, payload []byte) {
	e := decoded(payload)
	if e == nil || !p.wrong || !p.inDoubt() || topic == queue.TopicNotices {
		return // a worker's event for notifications has the id of a like, a follow or a post, which an API made
	}
	if repost, ok := e.(*messages.Reposted); ok && repost.EventID == repost.RepostID {
		return // an API made this id, too
	}
	if at, err := id.Time(e.Head().EventID); err != nil || time.Until(at) > clocksDiffer {
		w.load.fail("I6", "the clock of %s is in doubt, and it sends a %s to %s with an id of %s", p.Name, messages.KindOf(e), topic, at.Format(time.DateTime))
	}
}

// checkBuriedInDoubt checks that a process whose clock is in doubt makes no message a dead letter
// because of its age.
func (w *World) checkBuriedInDoubt(p *Proc, letter queue.DeadLetter) {
	if p.wrong && p.inDoubt() && (letter.Has(messages.ReasonTooOld) || letter.Has(messages.ReasonFarAhead)) {
		w.load.fail("I6", "the clock of %s is in doubt, and it makes a dead letter: %s", p.Name, letter.Reason)
	}
}
