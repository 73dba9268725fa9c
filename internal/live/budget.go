package live

import (
	"context"
	"sync"
	"time"

	"fanfare/internal/backoff"
)

const (
	// budgetBurst is how many units may be used at once beyond the rate: of two seconds.
	budgetBurst = 2 * time.Second
	// mostWait is the most time for which a read waits for units. It bounds how late a slow look is.
	mostWait = 15 * time.Second
	// mostOpeningWait is the wait from which an opening is refused. It leaves time for the reads of the
	// opening within the 4.5 s that a call of the API has.
	mostOpeningWait = 3 * time.Second
)

// The units that reads of each kind take before they are made. The difference to the units that they
// used is settled after them.
const (
	unitsOfLook    = 3
	unitsOfLikes   = 10
	unitsOfUnread  = 1.5
	unitsOfList    = 5
	unitsOfOpening = 34
)

// budget is the bucket of the units of all reads of a process for its streams. A read takes its place
// in the queue when it comes, and keeps it.
type budget struct {
	// rate is the number of units a second, 0 for no bound.
	rate float64

	mu sync.Mutex
	// paid is the time at which all units are paid for that were taken.
	paid time.Time
}

// take takes units, and returns how long their taker has to wait for them. If that is above most, it
// takes none.
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

// use counts units that were used and not taken before, or fewer than were taken.
func (b *budget) use(units float64) {
	if b.rate == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid = b.paid.Add(time.Duration(units / b.rate * float64(time.Second)))
}

// wait takes units and waits for them, for mostWait at most.
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
