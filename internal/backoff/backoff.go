// Package backoff computes the wait before a retry, and waits. It must never decide
// whether to retry: its callers know which errors time can mend.
package backoff

import (
	"context"
	"time"
)

// Exponential is a wait that doubles with each failure.
type Exponential struct{ First, Most time.Duration }

// Bound returns the longest wait after a number of consecutive failures, from 1 on:
// First, doubled for each failure after the first one, and Most at most.
func (e Exponential) Bound(failures int) time.Duration {
	bound := e.First
	for ; failures > 1 && bound < e.Most; failures-- {
		bound *= 2
	}
	return min(bound, e.Most)
}

// Jittered returns a wait below Bound. random is in [0, 1): it spreads callers that
// failed together ("full jitter" in AWS's article "Exponential Backoff And Jitter").
func (e Exponential) Jittered(failures int, random float64) time.Duration {
	return time.Duration(random * float64(e.Bound(failures)))
}

// Wait returns nil after d. It returns the cause of ctx's end if ctx ends before or at the same time.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return context.Cause(ctx)
}
