package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// broken is a table whose batches end as the test decides.
type broken struct {
	table.Store
	end func() error
}

func (b *broken) BatchGet(context.Context, table.BatchGetInput) (table.BatchGetResult, error) {
	return table.BatchGetResult{}, b.end()
}

// No retry mends a defect, so the error of a defect does not ask for a retry. A retry may mend any
// other failure.
func TestADefectIsNotUnavailable(t *testing.T) {
	cause := errors.New("cause")
	for name, c := range map[string]struct {
		end    func() error
		defect any
	}{
		"a request that is not valid": {func() error { return &table.InvalidError{Problem: "x"} }, new(*table.InvalidError)},
		"data that cannot be read":    {func() error { return &schema.ParseError{Problem: "x"} }, new(*schema.ParseError)},
		"a panic":                     {func() error { panic("x") }, new(*panics.Error)},
		"a table that is down":        {func() error { return errDown }, nil},
		"an unknown error":            {func() error { return cause }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(cfg *config) { cfg.Store = &broken{cfg.Store, c.end} })
			w.users("ann", "bob")
			err := w.Mute(t.Context(), "ann", "bob")
			if c.defect != nil {
				require.ErrorAs(t, err, c.defect)
				assert.NotErrorAs(t, err, new(*fault.Error))
				return
			}
			require.ErrorIs(t, err, c.end())
			e, ok := errors.AsType[*fault.Error](err)
			require.True(t, ok)
			assert.Equal(t, fault.Error{
				Kind: fault.Unavailable, Detail: "the table did not answer in time: try again", RetryAfter: time.Second, Err: c.end(),
			}, *e)
		})
	}
}
