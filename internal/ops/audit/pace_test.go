package audit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// An auditor finds damage in its next round. It uses one percent of its process's units, or one unit a second
// if that is more.
func TestAnAuditorFindsDamageForItsShareOfTheUnits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used  func(since time.Duration) float64
		bound func(took time.Duration) float64
	}{
		"a busy process": {func(d time.Duration) float64 { return 2000 * d.Seconds() }, func(d time.Duration) float64 { return 20 * d.Seconds() }},
		"an idle one":    {func(time.Duration) float64 { return 0 }, func(d time.Duration) float64 { return d.Seconds() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var mu sync.Mutex
				var spent float64
				memory := tabletest.NewMemory()
				store := table.Measure(memory, func(_ table.Op, u table.Units, _ error) {
					mu.Lock()
					defer mu.Unlock()
					assert.LessOrEqual(t, spent, c.bound(time.Since(began)), "units before a call")
					spent += u.Read + u.Write
				})
				for i := range 600 {
					_, err := memory.Put(t.Context(), table.PutInput{Item: schema.FollowerItem("ann", "fan"+string(rune('A'+i%26))+string(rune('A'+i/26)), time.Now())})
					require.NoError(t, err)
				}
				ctx, stop := context.WithCancel(t.Context())
				found, looked, rounds := 0, 0, 0
				a := &audit.Auditor{
					Config: audit.Config{Store: store, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour)},
					Used:   func() float64 { return c.used(time.Since(began)) },
					Looked: func(items int) { looked += items },
					Found:  func(f audit.Finding) { found++; assert.Equal(t, audit.FollowHalf, f.Kind); assert.False(t, f.Mended) },
					Ended: func(sum audit.Summary) {
						if rounds++; rounds == 2 {
							stop()
						}
						assert.Equal(t, 600, sum.Found[audit.FollowHalf])
					},
				}
				require.NoError(t, a.Run(ctx))
				assert.Equal(t, 2, rounds)
				assert.Equal(t, 1200, found)
				assert.Equal(t, 1200, looked)
			})
		})
	}
}

func TestARateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		spend := audit.Rate(20)
		for range 10 {
			require.NoError(t, spend(t.Context(), table.Units{Read: 3, Write: 1}))
		}
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A timer may end a millisecond late. If each call of a fast walk waited for a part of a millisecond, the
// timers would decide the rate.
func TestAFastWalkWaitsSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, calls = 100_000, 10_000
		began := time.Now()
		spend := audit.Rate(rate)
		for n := range calls {
			before := time.Now()
			require.NoError(t, spend(t.Context(), table.Units{Read: 10}))
			if waited := time.Since(before); waited != 0 {
				require.GreaterOrEqual(t, waited, 10*time.Millisecond)
			}
			require.LessOrEqual(t, float64(10*(n+1)), rate*(time.Since(began)+10*time.Millisecond).Seconds(), "the rate is kept")
		}
		assert.InDelta(t, 10*calls/rate, time.Since(began).Seconds(), 0.01)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, spend(ctx, table.Units{}), context.Canceled)
	})
}
