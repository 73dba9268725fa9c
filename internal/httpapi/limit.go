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

// maxServices is the number of buckets of services in one generation.
const maxServices = 1000

// limiter holds a token bucket for each user. It keeps two generations of buckets and
// drops the older generation when the newer one is full, so its memory is bounded (I9).
// If a user's bucket was dropped, the user starts with a full bucket.
type limiter struct {
	perSecond rate.Limit // 0 means no limit
	burst     int

	mu       sync.Mutex
	young    map[string]*bucket
	old      map[string]*bucket
	capacity int
}

// bucket holds the tokens of a user. units are the used units without a charge; their value is below one
// token. limiter.mu guards the tokens and the units.
type bucket struct {
	*rate.Limiter

	units float64
}

// newLimiter allows perSecond requests a second, and a burst of ten seconds.
func newLimiter(perSecond, capacity int) *limiter {
	return &limiter{perSecond: rate.Limit(perSecond), burst: 10 * perSecond, capacity: capacity, young: map[string]*bucket{}}
}

// take takes one of user's tokens. If the bucket is empty, take returns the time until the bucket has the
// next token.
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

// unitsOfRequest is the number of capacity units that cost as much as one request. A request pays for the
// units that it used, and for the units of the work that follows from the request.
const unitsOfRequest = 20

// charge takes user's tokens for a request that used units of the table. The request has already paid one
// token, which covers the units below unitsOfRequest. charge may leave the bucket in debt, so that the
// next requests wait. A request costs a full bucket at most.
func (l *limiter) charge(user string, units float64, now time.Time) {
	if n := min(int(units/unitsOfRequest), l.burst); n > 0 {
		l.carry(user, float64(n*unitsOfRequest), now)
	}
}

// carry takes user's tokens for units that no request has paid. It keeps a rest below the value of one
// token for the next call. carry returns the time until the bucket has no debt.
func (l *limiter) carry(user string, units float64, now time.Time) (owed time.Duration) {
	if l.perSecond == 0 {
		return 0
	}
	b := l.bucket(user)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.units += units
	for b.units >= unitsOfRequest {
		n := min(int(b.units/unitsOfRequest), l.burst) // the limiter reserves at most a burst at once
		b.units -= float64(n * unitsOfRequest)
		b.ReserveN(now, n)
	}
	return max(0, time.Duration(-b.TokensAt(now)/float64(l.perSecond)*float64(time.Second)))
}

func (l *limiter) bucket(user string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.young[user]; ok {
		return b
	}
	b, ok := l.old[user]
	if !ok {
		b = &bucket{Limiter: rate.NewLimiter(l.perSecond, l.burst)}
	}
	if len(l.young) >= l.capacity {
		l.old, l.young = l.young, map[string]*bucket{}
	}
	l.young[user] = b
	return b
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 { // most requests have nothing to sort
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
