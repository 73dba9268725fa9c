// Package backoff computes the wait before a retry, and waits. Package backoff must never decide
// whether to retry, because only its callers know which errors time can mend.
package backoff

import (
	"context"
	"time"
)

// Exponential is a wait that doubles with each failure.
type Exponential struct{ First, Most time.Duration }

// Bound returns the maximum wait after a number of consecutive failures. After the first failure the
// bound is First; each further failure doubles the bound, up to Most.
func (e Exponential) Bound(failures int) time.Duration {
	bound := e.First
	for ; failures > 1 && bound < e.Most; failures-- {
		bound *= 2
	}
	return min(bound, e.Most)
}

// Jittered returns a random wait below Bound. random is in [0, 1) and spreads callers that failed
// together ("full jitter" in AWS's article "Exponential Backoff And Jitter").
func (e Exponential) Jittered(failures int, random float64) time.Duration {
	return time.Duration(random * float64(e.Bound(failures)))
}

// Wait returns nil after d. If ctx ends earlier or at the same time, Wait returns the cause of ctx's
// end.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return context.Cause(ctx)
}
