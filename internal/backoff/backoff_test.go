package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/backoff"
)

func TestBoundDoublesUpToMost(t *testing.T) {
	e := backoff.Exponential{First: 10 * time.Millisecond, Most: 60 * time.Millisecond}
	for failures, want := range map[int]time.Duration{
		-1: 10 * time.Millisecond, 0: 10 * time.Millisecond, 1: 10 * time.Millisecond,
		2: 20 * time.Millisecond, 3: 40 * time.Millisecond, 4: 60 * time.Millisecond, 1 << 40: 60 * time.Millisecond,
	} {
		assert.Equalf(t, want, e.Bound(failures), "Bound(%d)", failures)
	}
	assert.Equal(t, 10*time.Millisecond, e.Jittered(2, 0.5))
}

func TestWaitEndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := backoff.Wait(t.Context(), time.Second); err != nil || time.Since(start) != time.Second {
			t.Errorf("Wait = %v after %v, want nil after 1s", err, time.Since(start))
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if err := backoff.Wait(ctx, time.Hour); !errors.Is(err, stop) || time.Since(start) != 2*time.Second {
			t.Errorf("Wait = %v after %v, want the cause after 2s", err, time.Since(start))
		}
	})
}
