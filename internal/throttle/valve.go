package throttle

import (
	"math"
	"time"

	"fanfare/internal/table"
)

const (
	// A refusal lowers a limit, at most once in each limitRest: to limitCut of the limit, or to
	// limitCut of the units written in a second if these are fewer. The limit grows by limitGrowth
	// each second, and ends after limitCalm without a refusal.
	limitCut    = 0.7
	limitRest   = time.Second
	limitGrowth = 1.2
	limitCalm   = time.Minute
	// leastLimit is the lowest limit: the least capacity that a table can have. A limit below a batch
	// a second falls only by limitCut, because the units of one second cannot show such a limit.
	leastLimit = 1
	// peakFade is the part of its peak that a tally keeps each second.
	peakFade = 0.96
	// shortestWait is the least time for which a write waits.
	shortestWait = 5 * time.Millisecond
)

// tally counts units by the second.
type tally struct {
	// now counts the units of the current second, and last has the units of the previous second. peak
	// is the highest number of units in a second, and fades.
	began           time.Time
	now, last, peak float64
}

// pass begins another second if the current one is over.
func (t *tally) pass(now time.Time) {
	if passed := now.Sub(t.began).Seconds(); passed >= 1 {
		t.last, t.now, t.began = t.now/passed, 0, now
		t.peak = max(t.last, t.peak*math.Pow(peakFade, passed))
	}
}

// recent returns the units of the current and the previous second.
func (t *tally) recent() float64 { return t.now + t.last }

// rate returns the units of the current or the previous second: the larger number.
func (t *tally) rate() float64 { return max(t.now, t.last) }

// valve limits units a second, and finds the limit as TCP does: refusals lower it, and time
// raises it. Its owner holds Throttle.mu.
type valve struct {
	// limit is in units a second, 0 for no limit. credit is the number of units that may be written
	// now, and is negative after a large write.
	limit, credit float64
	// at is the time of limit and credit, refused is the time of the last refusal, and lowered is the
	// time when the limit was lowered last.
	at, refused, lowered time.Time
	// written counts the units that were written through the valve.
	written tally
	// waiting has the writes that wait.
	waiting [urgencies][]*request
}

// pass updates the valve to the time now.
func (v *valve) pass(now time.Time) {
	passed := now.Sub(v.at).Seconds()
	v.at = now
	v.written.pass(now)
	if now.Sub(v.refused) >= limitCalm {
		v.limit, v.credit = 0, 0
	}
	if v.limit > 0 {
		v.limit *= math.Pow(limitGrowth, passed)
		v.credit = min(v.credit+v.limit*passed, max(table.MaxBatchWrite, v.limit/10))
	}
}

// lower lowers the limit after a refusal, at most once in each limitRest. A first limit has at
// least the value of the parameter least.
func (v *valve) lower(now time.Time, least float64) {
	v.refused = now
	if now.Sub(v.lowered) < limitRest {
		return
	}
	v.lowered = now
	if v.limit == 0 {
		v.limit = max(limitCut*max(v.written.rate(), v.written.peak), least)
	} else {
		v.limit = max(limitCut*min(v.limit, max(v.written.rate(), table.MaxBatchWrite)), leastLimit)
	}
	v.credit = min(v.credit, 0)
}

// spend takes units from the credit.
func (v *valve) spend(units float64) {
	if v.limit > 0 {
		v.credit -= units
	}
}

// wait returns the time for which a write waits before it tries again. The most urgent writes go
// first. Each of the most urgent writes goes once the credit covers the units of all earlier
// writes, so that no write waits forever.
func (v *valve) wait(r *request) time.Duration {
	if v.limit == 0 {
		return 0
	}
	wait := time.Duration(-v.credit / v.limit * float64(time.Second))
	for _, more := range v.waiting[:r.u] {
		if len(more) > 0 { // the more urgent writes take all units
			return max(wait, time.Duration(table.MaxBatchWrite/v.limit*float64(time.Second)), shortestWait)
		}
	}
	ahead := 0
	for _, other := range v.waiting[r.u] {
		if other != r && other.came.Before(r.came) {
			ahead += other.units
		}
	}
	if v.credit > float64(ahead) {
		return 0
	}
	return max(wait, shortestWait)
}
