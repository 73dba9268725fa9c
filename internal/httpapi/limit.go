package httpapi

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets is the number of buckets in one generation.
const maxBuckets = 50_000

// maxServices is that number for services.
const maxServices = 1000

// limiter holds a token bucket for each user. It keeps two generations of buckets and
// drops the older one when the newer one is full, so its memory is bounded (I9). A user
// whose bucket was dropped starts with a full one.
type limiter struct {
	perSecond rate.Limit // 0 for no limit
	burst     int

	mu       sync.Mutex
	young    map[string]*rate.Limiter
	old      map[string]*rate.Limiter
	capacity int
}

// newLimiter allows perSecond requests a second, and ten seconds' worth at once.
func newLimiter(perSecond, capacity int) *limiter {
	return &limiter{perSecond: rate.Limit(perSecond), burst: 10 * perSecond, capacity: capacity, young: map[string]*rate.Limiter{}}
}

// take takes one of user's tokens. If none is left it returns the time until the next one.
func (l *limiter) take(user string, now time.Time) time.Duration {
	if l.perSecond == 0 {
		return 0
	}
	reservation := l.bucket(user).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// unitsOfRequest is the number of capacity units of the table for which a request counts
// once more.
const unitsOfRequest = 100

// charge takes user's tokens for a request that used units of the table, besides the one
// that it took before. The bucket may owe tokens then, so that the next requests wait.
func (l *limiter) charge(user string, units int, now time.Time) {
	if n := min(units/unitsOfRequest, l.burst); n > 0 {
		l.bucket(user).ReserveN(now, n)
	}
}

func (l *limiter) bucket(user string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.young[user]; ok {
		return b
	}
	b, ok := l.old[user]
	if !ok {
		b = rate.NewLimiter(l.perSecond, l.burst)
	}
	if len(l.young) >= l.capacity {
		l.old, l.young = l.young, map[string]*rate.Limiter{}
	}
	l.young[user] = b
	return b
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 { // most requests
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
