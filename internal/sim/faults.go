package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/internal/table"
)

// Rates are the odds of each fault at each opportunity. The zero value is a calm world.
type Rates struct {
	Fail    float64 // a call fails and has no effect
	Unsent  float64 // a send of events fails: the queue is the operator's queue, and fails more often
	Lost    float64 // a call takes effect, but its answer is lost
	Late    float64 // a call times out, and takes effect later
	Partial float64 // a batch takes effect in part, and fails
	Stale   float64 // an eventually consistent read is stale
	Torn    float64 // the items of a transaction become visible one by one
	Split   float64 // a batch or a page is read at two moments
	Halve   float64 // a batch is written at two moments
	Crash   float64 // a process is killed before or after the effect of a call
	Pause   float64 // a process stands still for a while (a zombie)
	Dup     float64 // a message is delivered, and stays visible
	Expire  float64 // the visibility of a message ends while a process handles the message
	AckLost float64 // the removal of a message fails
	// Throttle begins a stretch in which the table refuses the calls of a partition,
	// or all calls.
	Throttle float64
	// Heat fills a partition of the table or of its index for seconds, as one busy user can.
	Heat     float64
	Conflict float64 // a transaction conflicts with another write of one of its items
	Hold     bool    // all calls of one kind are slow
	// Backstop makes a message a dead letter although the message has no defect.
	Backstop float64
	Slow     float64 // the answer of a call arrives after the effects of later calls
	Stop     float64 // a process is stopped, and finishes its work
	Sleep    float64 // a process is suspended for hours or days
	Step     float64 // the clock of a process is set
	Leap     float64 // neither the table nor the queues answer for hours
	Bury     float64 // all aggregators die, and all likes become dead letters for days
	Sweep    float64 // an expired item is deleted
	History  float64 // the ledgers get the entries of weeks
}

// Stormy returns the rates of a faulty run.
func Stormy() Rates {
	return Rates{
		Fail: .02, Unsent: .3, Lost: .015, Late: .03, Partial: .1, Stale: .4, Torn: .15, Split: .04, Halve: .5,
		Crash: .0015, Pause: .0015, Dup: .04, Expire: .002, AckLost: .03, Backstop: .004,
		Throttle: .003, Heat: .008, Conflict: .02, Hold: true,
		Slow: .05, Stop: .001, Sleep: .0008, Step: .001, Leap: .0002, Bury: .0003, Sweep: .01, History: .0006,
	}
}

// Counters count events by name.
type Counters map[string]int

// The kinds of fault, with their names in Counters.
const (
	FaultFail    = "failed call"
	FaultLost    = "lost answer"
	FaultLate    = "late effect"
	FaultPartial = "partial batch"
	FaultCrash   = "crash"
	FaultPause   = "zombie"
	FaultDup     = "duplicate delivery"
	FaultReorder = "reordered delivery"
	FaultExpire  = "visibility expired"
	FaultAckLost = "lost ack"
	FaultTimeout = "deadline passed"
	FaultSkew    = "clock skew"
	FaultAhead   = "clock far ahead"
	FaultDays    = "days passed"
	FaultTTL     = "expired item deleted late"
	FaultRedrive = "dead letter redriven"

	FaultThrottle = "throttled call"
	FaultHot      = "call to a full partition"
	FaultConflict = "conflicting transaction"
	FaultHold     = "held call"

	FaultSlow     = "answer after later effects"
	FaultStop     = "graceful stop"
	FaultSleep    = "sleeper"
	FaultStep     = "clock step"
	FaultHours    = "clock skew of hours"
	FaultMidnight = "midnight in a storm"
	FaultLeap     = "outage of hours"
	FaultBury     = "likes buried for days"
	FaultOld      = "too old message"
	FaultSweep    = "expired item deleted beside traffic"
	FaultEarly    = "item deleted early"
	FaultHistory  = "ledger of weeks"
	FaultNights   = "days passed in a storm"
)

// Faults returns every kind of fault.
func Faults() []string {
	return append([]string{
		FaultFail, FaultLost, FaultLate, FaultPartial, FaultStale, FaultCrash, FaultPause, FaultDup, FaultReorder,
		FaultExpire, FaultAckLost, FaultTimeout, FaultSkew, FaultAhead, FaultDays, FaultTTL, FaultRedrive,
		FaultThrottle, FaultConflict, FaultHold,
		FaultSlow, FaultStop, FaultSleep, FaultStep, FaultHours, FaultMidnight, FaultLeap, FaultBury, FaultOld, FaultSweep,
		FaultEarly, FaultHistory, FaultNights,
		FaultHot,
	}, append(unkindnesses(), lifeFaults()...)...)
}

func (w *World) chance(rate float64) bool { return rate > 0 && w.rng.Float64() < rate }

// strikes draws whether a fault happens. It also draws for a kind of fault that is switched off, so
// that later draws stay the same.
func (w *World) strikes(kind string, rate float64) bool {
	if !w.chance(rate) || w.off[kind] {
		return false
	}
	w.Fired[kind]++
	return true
}

// tighten begins and ends stretches of throttling. Most stretches affect a partition in use.
func (w *World) tighten(ready []*call) {
	w.tight = slices.DeleteFunc(w.tight, func(s stretch) bool { return s.over(w.steps) })
	w.heat(ready)
	if !w.chance(w.faults.Throttle) || len(ready) == 0 || w.off[FaultThrottle] {
		return
	}
	s := stretch{until: w.steps + 5 + w.rng.IntN(40)}
	if c := ready[choose(w.rng, ready, nameOf)]; len(c.pks) > 0 && w.rng.IntN(4) > 0 {
		s.pk = c.pks[0]
	} else {
		s.side = []side{"", sideTable, sideIndex}[w.rng.IntN(3)]
	}
	s.only = []side{"", "", sideReads, sideWrites}[w.rng.IntN(4)]
	w.tight = append(w.tight, s)
	w.note("throttle %q of side %q for %q until step %d", s.pk, s.side, s.only, s.until)
}

// heat fills a partition in use.
func (w *World) heat(ready []*call) {
	if w.chance(w.faults.Heat) && len(ready) > 0 {
		w.fill(ready[choose(w.rng, ready, nameOf)])
	}
}

// fill fills a partition of a call, in the table or in its index, for up to 40 seconds.
func (w *World) fill(c *call) {
	if len(c.pks) == 0 || w.off[FaultHot] {
		return
	}
	s := stretch{pk: c.pks[w.rng.IntN(len(c.pks))], hot: time.Now().Add(time.Duration(1+w.rng.IntN(40_000)) * time.Millisecond)}
	s.only = []side{"", sideWrites, sideWrites, sideReads}[w.rng.IntN(4)]
	w.tight = append(w.tight, s)
	w.note("full %q for %q until %s", s.pk, s.only, s.hot.Format("15:04:05.000"))
}

// fillAfter fills, in some worlds, a partition of a call whose answer was lost, because the caller
// will retry.
func (w *World) fillAfter(c *call) {
	if w.faults.Heat > 0 && w.rng.IntN(4) == 0 {
		w.fill(c)
	}
}

// faultAt returns the fault of a call for the draw x, "" for none.
func (w *World) faultAt(x float64) string {
	f := w.faults
	for _, of := range []struct {
		kind string
		rate float64
	}{{FaultCrash, f.Crash}, {FaultFail, f.Fail}, {FaultLost, f.Lost}, {FaultLate, f.Late}} {
		if x -= of.rate; x < 0 {
			if w.off[of.kind] {
				return ""
			}
			return of.kind
		}
	}
	return ""
}

func unavailable(kind string) error {
	if strings.HasPrefix(kind, "table.") {
		return &table.UnavailableError{Op: kind, Err: errDown}
	}
	return fmt.Errorf("%s: %w", kind, errDown)
}

// throttled returns the answer to a call for which there is no capacity. Only a batch still has an effect: it
// writes the part for which there is capacity.
func (w *World) throttled(c *call) error {
	if len(c.ops) > 0 {
		return cancelled(c.ops, table.CancelThrottled, func(i int) bool { return slices.ContainsFunc(w.sidesOf(c.ops[i]), w.short) })
	}
	if c.spare != nil {
		if err := c.spare(w.short); err != nil {
			w.note("effect %s: %v", c.label, err)
		}
	}
	return &table.UnavailableError{Op: c.kind, Err: errThrottled, Reason: table.ShortUnknown, Undone: !c.batch}
}

// cancelled returns the error of a transaction that was cancelled for the reason why. The function
// is reports which operations failed.
func cancelled(ops []table.TransactOp, why table.CancelReason, is func(i int) bool) error {
	e := &table.CancelledError{Reasons: make([]table.CancelledOp, len(ops))}
	for i, op := range ops {
		e.Reasons[i].Key = op.Key()
		if is(i) {
			e.Reasons[i].Reason = why
		}
	}
	return e
}

func isUnavailable(err error) bool {
	_, ok := errors.AsType[*table.UnavailableError](err)
	return ok || errors.Is(err, errDown)
}
