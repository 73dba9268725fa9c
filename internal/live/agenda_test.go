package live

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The look may have read the home before the write that the second hint is of.
func TestAHintWithoutAPostThatComesDuringALookBringsAnotherLook(t *testing.T) {
	for _, name := range []string{aWrite, somePost} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgenda(time.Hour, 2*time.Hour, func() float64 { return 0 })
			a.hint(name, 0, nearTry)
			<-time.After(nearTry) // virtual
			look, began := a.begin()
			a.hint(name, 0, nearTry)
			a.answer(nil, look, began)
			a.looked(look, began, 0)
			assert.Equal(t, nearTry, time.Until(a.next()))
			<-time.After(nearTry)
			look, began = a.begin()
			a.answer(nil, look, began)
			a.looked(look, began, 0)
			assert.Equal(t, time.Hour, time.Until(a.next()), "no look is left but the slow one")
		})
	}
}

// A read that has waited for its units has used them. One that gave up has not.
func TestReadsThatWaitForUnitsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{rate: 10}
		began := time.Now()
		wait := func(ctx context.Context) error { return b.wait(ctx, 10) }
		for range 8 { // two are free, and the third one is taken before it is paid for
			require.NoError(t, wait(t.Context()))
		}
		assert.Equal(t, 5*time.Second, time.Since(began))
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range 100 {
			require.Error(t, wait(gone))
		}
		require.NoError(t, wait(t.Context()))
		assert.Equal(t, 6*time.Second, time.Since(began))
	})
}
