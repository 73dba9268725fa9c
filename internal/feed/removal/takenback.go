package removal

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/backoff"
)

const (
	// firstTakeBack is the time after which take-backs are sent again: by then, aggregators that keep up
	// have counted them. mostTakeBack is the longest such time.
	firstTakeBack, mostTakeBack = 10 * time.Second, time.Hour
	// mostTakenBack is the number of removals that a process remembers (I9).
	mostTakenBack = 4096
)

// takenBack remembers, by removal, when its take-backs were sent. A like stays in the index until an
// aggregator has counted its take-back, and only another walk shows whether one did. While the
// aggregators are behind, each walk would add the same messages to the queue that has to become empty
// (I11). A process that forgets a removal walks again at once.
type takenBack struct {
	mu   sync.Mutex
	kept *simplelru.LRU[string, takeBacks]
}

// takeBacks are the last take-backs of a removal: the first post, the number of walks in a row that
// began with this post, and the time of the next walk.
type takeBacks struct {
	first string
	walks int
	next  time.Time
}

func newTakenBack() *takenBack {
	kept, err := simplelru.NewLRU[string, takeBacks](mostTakenBack, nil)
	if err != nil {
		panic(err) // unreachable: the only error is for a size below 1, and mostTakenBack is a constant
	}
	return &takenBack{kept: kept}
}

// rest returns the time until the next walk of a removal.
func (t *takenBack) rest(event string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, _ := t.kept.Get(event)
	if rest := last.next.Sub(now); rest > 0 && rest <= mostTakeBack { // more: the clock was set back
		return rest
	}
	return 0
}

// sent records a walk that sent take-backs, first for the post first, and returns the time until the
// next walk.
func (t *takenBack) sent(event, first string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, _ := t.kept.Peek(event)
	if last.first != first { // the aggregators have counted some likes
		last = takeBacks{first: first}
	}
	last.walks++
	wait := backoff.Exponential{First: firstTakeBack, Most: mostTakeBack}.Bound(last.walks)
	last.next = now.Add(wait)
	t.kept.Add(event, last)
	return wait
}
