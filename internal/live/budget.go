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

// These constants are the units that reads of each kind take in advance. After a read, the budget
// settles the difference to the used units.
const (
	unitsOfLook    = 3
	unitsOfLikes   = 10
	unitsOfUnread  = 1.5
	unitsOfList    = 5
	unitsOfOpening = 34
)

// budget is the bucket of the units of all reads of a process for its streams. Reads get their units
// in the order of their arrival.
type budget struct {
	// rate is the number of units a second, 0 for no limit.
	rate float64

	mu sync.Mutex
	// paid is the time at which all taken units will be paid for.
	paid time.Time
}

// take takes units, and returns the time for which the caller has to wait for the units. If the wait
// exceeds most, take takes no units.
func (b *budget) take(units float64, most time.Duration) (wait time.Duration, ok bool) {
	if b.rate == 0 {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if full := now.Add(-budgetBurst); b.paid.Before(full) {
		b.paid = full
	}
	if wait = b.paid.Sub(now); wait > most {
		return wait, false
	}
	b.paid = b.paid.Add(time.Duration(units / b.rate * float64(time.Second)))
	return max(0, wait), true
}

// use counts used units that were not taken in advance. A negative number returns units to the budget.
func (b *budget) use(units float64) {
	if b.rate == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid = b.paid.Add(time.Duration(units / b.rate * float64(time.Second)))
}

// wait takes units and waits for the units, but for mostWait at most.
func (b *budget) wait(ctx context.Context, units float64) error {
	wait, _ := b.take(units, time.Duration(1<<62))
	if wait == 0 {
		return nil
	}
	err := backoff.Wait(ctx, min(wait, mostWait))
	if err != nil {
		b.use(-units)
	}
	return err
}
