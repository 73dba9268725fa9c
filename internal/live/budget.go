package live

import (
	"context"
	"sync"
	"time"

	"fanfare/internal/backoff"
)

const (
	// budgetBurst bounds the units that may be used at once above the rate: the units of two seconds.
	budgetBurst = 2 * time.Second
	// mostWait is the maximum wait of a read for units. mostWait bounds the delay of a slow look.
	mostWait = 15 * time.Second
	// mostOpeningWait is the wait from which an opening is refused. A call of the API has 4.5 s, so an
	// opening still has time for its reads after such a wait.
	mostOpeningWait = 3 * time.Second
)

// These constants are the units that reads of each kind take in advance. A look takes at least as many
// units as the home's last look used. After a read, the budget settles the difference to the used units.
const (
	unitsOfLook    = 3
	unitsOfLikes   = 10
	unitsOfUnread  = 1.5
	unitsOfList    = 5
	unitsOfEdited  = 4
	unitsOfOpening = 34
)

// budget is the bucket of the units of all reads of a process for its streams. Looks get their units
// in the order of their arrival, and openings by their users.
type budget struct {
	// rate is the number of units a second, 0 for no limit.
	rate float64

	mu sync.Mutex
	// paid is the time at which all taken units will be paid for.
	paid time.Time
	// line has the openings that wait. Each opening but the first is behind the openings of users who read less.
	line []*opening
}

// reserve takes units, and returns the time for which the caller has to wait for the units. The caller holds mu.
func (b *budget) reserve(units float64) (wait time.Duration) {
	now := time.Now()
	if full := now.Add(-budgetBurst); b.paid.Before(full) {
		b.paid = full
	}
	wait = b.paid.Sub(now)
	b.add(now, units)
	return max(0, wait)
}

// time returns the time that pays for units.
func (b *budget) time(units float64) time.Duration {
	return time.Duration(units / b.rate * float64(time.Second))
}

// add counts units. Reads wait for mostWait at most, so looks that need more units than the rate would
// let the debt grow without end, and openings would be refused for as long after the load. A debt above
// mostWait delays no read any more, so add drops that part of the debt.
func (b *budget) add(now time.Time, units float64) {
	b.paid = b.paid.Add(b.time(units))
	if most := now.Add(mostWait); b.paid.After(most) {
		b.paid = most
	}
}

// use counts used units that were not taken in advance. A negative number returns units to the budget.
func (b *budget) use(units float64) {
	if b.rate == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(time.Now(), units)
}

// wait takes units and waits for the units, but for mostWait at most.
func (b *budget) wait(ctx context.Context, units float64) error {
	if b.rate == 0 {
		return nil
	}
	b.mu.Lock()
	wait := b.reserve(units)
	b.mu.Unlock()
	if wait == 0 {
		return nil
	}
	err := backoff.Wait(ctx, min(wait, mostWait))
	if err != nil {
		b.use(-units)
	}
	return err
}
