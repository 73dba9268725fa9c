package live

import (
	"context"
	"sync"
	"time"

	"fanfare/internal/backoff"
)

const (
	// budgetBurst is how many units may be used at once above the rate: the units of two
	// seconds.
	budgetBurst = 2 * time.Second
	// mostWait is the longest wait of a read for units. It bounds how late a slow look
	// is.
	mostWait = 15 * time.Second
	// mostOpeningWait is the wait from which an opening is refused. It leaves time for the reads of the
	// opening within the 4.5 s that a call of the API has.
	mostOpeningWait = 3 * time.Second
)

// The units that reads of each kind take in advance. After a read, the difference to its actual
// units is settled.
const (
	unitsOfLook    = 3
	unitsOfLikes   = 10
	unitsOfUnread  = 1.5
	unitsOfList    = 5
	unitsOfOpening = 34
)

// budget is the bucket of the units of all reads of a process for its streams. A read takes its place
// in the queue on arrival, and keeps it.
type budget struct {
	// rate is the number of units a second, 0 for no bound.
	rate float64

	mu sync.Mutex
	// paid is the time at which all taken units are paid for.
	paid time.Time
}

// take takes units, and returns how long the caller has to wait for them. If the wait is above most,
// it takes none.
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

// use counts used units that were not taken in advance. A negative number gives units
// back.
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
