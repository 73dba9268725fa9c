package throttle

import (
	"sync"
	"time"

	"fanfare/internal/table"
)

const (
	// The entries of an ordinary post make chunks and backfills yield for yieldFor. During that time
	// chunks and backfills write yieldBatch entries at a time. With Rest they write restBatch entries
	// at a time, and after each write they rest for yieldRest times the duration of the write. A rest
	// takes mostRest at most, because a slow disk makes writes long.
	yieldFor   = time.Second
	yieldBatch = 256
	restBatch  = 128
	yieldRest  = 90
	mostRest   = 200 * time.Millisecond
)

// Yield makes the batches of chunks and backfills yield while ordinary posts, which need no
// chunk, are delivered (I8). A table in the process takes processors and a disk from all work, so
// batches rest there. A table behind a network takes processors for each running request, so the
// number of such requests has a bound. The zero value lets nothing yield.
type Yield struct {
	// Rest makes chunks and backfills sleep after each batch.
	Rest bool
	// AtOnce is the maximum number of batches of one Store that run at once, 0 for no maximum.
	// Neither Rest nor AtOnce may change once a Store exists.
	AtOnce int

	mu sync.Mutex
	// posted is the time of the last entries of an ordinary post.
	posted time.Time
}

// yields reports whether a kind of work has to yield to ordinary posts.
func (y *Yield) yields(u Urgency) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.yielding(u, time.Now())
}

// yielding is yields for a caller that holds mu.
func (y *Yield) yielding(u Urgency, now time.Time) bool {
	return (y.Rest || y.AtOnce > 0) && u.large() && now.Sub(y.posted) < yieldFor
}

// batch returns the number of entries that a kind of work writes at once, at most all.
func (y *Yield) batch(u Urgency, all int) int {
	switch {
	case !y.yields(u):
		return all
	case y.Rest:
		return restBatch
	}
	return yieldBatch
}

// done notes an ended write, and returns the time for which the caller rests. A post with chunks is
// planned without a batch, so such a post does not make its own chunks yield.
func (y *Yield) done(r request, took time.Duration) (rest time.Duration) {
	if r.op != table.OpBatchWrite {
		return 0
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	now := time.Now()
	switch {
	case r.u == Posts:
		y.posted = now
	case y.Rest && y.yielding(r.u, now):
		rest = min(yieldRest*took, mostRest)
	}
	return rest
}
