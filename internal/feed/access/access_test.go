package access

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func TestTheZeroValueOfASettingIsItsDefault(t *testing.T) {
	c := Config{Store: tabletest.NewMemory(), Now: time.Now}.withDefaults()
	assert.Empty(t, c.RequestID(t.Context()))
	c.Log.Info("goes nowhere")
	random := map[float64]bool{}
	for range 100 {
		r := c.Jitter()
		assert.True(t, r >= 0 && r < 1, "%g", r)
		random[r] = true
	}
	assert.Greater(t, len(random), 90)
}

func TestASettingThatIsGivenStays(t *testing.T) {
	log := zap.NewExample()
	c := Config{
		Store: tabletest.NewMemory(), Now: time.Now, Log: log,
		Jitter: func() float64 { return 0.25 }, RequestID: func(context.Context) string { return "r1" },
	}.withDefaults()
	assert.Same(t, log, c.Log)
	assert.InDelta(t, 0.25, c.Jitter(), 0)
	assert.Equal(t, "r1", c.RequestID(t.Context()))
}

// busy is a table that cancels each transaction for lack of capacity.
type busy struct {
	table.Store
	cancelled func()
}

func (b busy) Transact(context.Context, table.TransactInput) (table.WriteResult, error) {
	b.cancelled()
	return table.WriteResult{}, &table.CancelledError{Reasons: []table.CancelledOp{{Reason: table.CancelThrottled}}}
}

// The caller of a deletion requests a purge unless it knows that the transaction had no effect.
func TestATransactionWhoseCallerLeavesBetweenTwoTriesIsKnownToDoNothing(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	a := New(Config{Store: busy{cancelled: leave}, Now: time.Now})
	err := a.Transact(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	_, known := errors.AsType[*table.CancelledError](err)
	assert.True(t, known, "%v", err)
}
