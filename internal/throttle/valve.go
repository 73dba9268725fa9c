package throttle

import (
	"math"
	"time"

	"fanfare/internal/table"
)

const (
	// A refusal lowers a limit to limitCut of it, or of the units that were written in a second if
	// that is less, once a limitRest. The limit grows by limitGrowth each second, and ends after
	// limitCalm without a refusal.
	limitCut    = 0.7
	limitRest   = time.Second
	limitGrowth = 1.2
	limitCalm   = time.Minute
	// leastLimit is the lowest limit: the least capacity that a table can have. A limit below a batch
	// a second is too low to be found by the units of one second, so it falls by limitCut alone.
	leastLimit = 1
	// peakFade is the part of its peak that a tally keeps each second.
	peakFade = 0.96
	// shortestWait is the least time for which a write waits.
	shortestWait = 5 * time.Millisecond
)

// tally counts units by the second.
type tally struct {
	// now is the units of the second that has begun, and last the units of the second before. peak
	// is the most of a second, and fades.
	began           time.Time
	now, last, peak float64
}

// pass begins another second if the last one is over.
func (t *tally) pass(now time.Time) {
	if passed := now.Sub(t.began).Seconds(); passed >= 1 {
		t.last, t.now, t.began = t.now/passed, 0, now
		t.peak = max(t.last, t.peak*math.Pow(peakFade, passed))
	}
}

// recent is the units of the last two seconds at most.
func (t *tally) recent() float64 { return t.now + t.last }

// rate is the units of one second.
func (t *tally) rate() float64 { return max(t.now, t.last) }

// valve limits units a second, and finds the limit as TCP finds its own: refusals lower it, and
// time raises it. Its owner holds Throttle.mu.
type valve struct {
	// limit is in units a second, 0 for none. credit is the units that may be written now. It is
	// negative after a large write.
	limit, credit float64
	// at is the time of both, refused the time of the last refusal, lowered the time of the last
	// lower limit.
	at, refused, lowered time.Time
	// written is the units that were written through the valve.
	written tally
	// waiting are the writes that wait.
	waiting [urgencies][]*request
}

// pass brings the valve up to now.
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

// lower lowers the limit for a refusal, once a limitRest. A first limit is least or more.
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

// wait returns how long a write has to wait before it looks again. The most urgent go first, and of these
// each goes once the credit covers the units of all that came before it, so that none waits for ever.
func (v *valve) wait(r *request) time.Duration {
	if v.limit == 0 {
		return 0
	}
	wait := time.Duration(-v.credit / v.limit * float64(time.Second))
	for _, more := range v.waiting[:r.u] {
		if len(more) > 0 { // these take all units
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
