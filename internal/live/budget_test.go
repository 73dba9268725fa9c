package live

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
)

// Looks use more units than the rate allows, for an hour. Looks wait for mostWait at most, so they exceed
// the rate; but the debt must end with the load, and not refuse new streams long afterwards.
func TestADebtOfLooksEndsSoonAfterTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{rate: 200} // a tenth of the product's rate, for a tenth of its homes
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 800 {
			all.Go(func() {
				for ctx.Err() == nil {
					if b.wait(ctx, unitsOfLook) != nil {
						return
					}
					b.use(10 - unitsOfLook)
					_ = backoff.Wait(ctx, leastGap) // the loop ends with the context
				}
			})
		}
		<-time.After(time.Hour)
		_, err := b.join(time.Time{})
		assert.Error(t, err, "the units are used up") // the test still has to stop the looks
		stop()
		all.Wait()
		<-time.After(mostWait)
		_, err = b.join(time.Time{})
		assert.NoError(t, err, "the process reads nothing any more")
	})
}

// Users reconnect all the time, each within the user's own share. Another user's opening does not wait for all of them.
func TestAnOpeningOfASeldomUserDoesNotWaitForUsersWhoReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := &budget{rate: DefaultUnits}, shares{paid: map[string]time.Time{}}
		ctx, stop := context.WithCancel(t.Context())
		open := func(user string) (wait time.Duration, err error) {
			began := time.Now()
			turn, err := b.join(s.last(user))
			if err != nil {
				return 0, err
			}
			defer turn.end()
			if err = turn.wait(ctx); err == nil {
				b.use(unitsOfOpening)
				s.use(user, unitsOfOpening, 0)
			}
			return time.Since(began), err
		}
		opened := 0
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := open(fmt.Sprint("user", i%40)); err != nil {
						_ = backoff.Wait(ctx, time.Second) // the loop ends with the context
						continue
					}
					b.mu.Lock()
					opened++
					b.mu.Unlock()
				}
			})
		}
		for range 5 {
			<-time.After(15 * time.Second)
			wait, err := open("seldom")
			require.NoError(t, err)
			assert.Less(t, wait, 100*time.Millisecond)
		}
		stop()
		all.Wait()
		assert.InDelta(t, DefaultUnits*75/unitsOfOpening, opened, 200, "the line uses the whole rate")
		assert.Empty(t, b.line)
	})
}
