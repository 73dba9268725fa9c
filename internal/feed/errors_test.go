package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func TestAnErrorNamesItsKindItsFieldsAndItsCause(t *testing.T) {
	cause := errors.New("no route")
	for want, err := range map[string]*feed.Error{
		"feed: not found: x":                    {Kind: feed.NotFound, Detail: "x"},
		"feed: forbidden: x":                    {Kind: feed.Forbidden, Detail: "x"},
		"feed: invalid: x; a: is b; c: is d":    {Kind: feed.Invalid, Detail: "x", Fields: []feed.FieldError{{Field: "a", Detail: "is b"}, {Field: "c", Detail: "is d"}}},
		"feed: malformed cursor: x":             {Kind: feed.Malformed, Detail: "x"},
		"feed: profile missing: x":              {Kind: feed.ProfileMissing, Detail: "x"},
		"feed: following limit: x":              {Kind: feed.FollowingLimit, Detail: "x"},
		"feed: mute limit: x":                   {Kind: feed.MuteLimit, Detail: "x"},
		"feed: blocked: x":                      {Kind: feed.Blocked, Detail: "x"},
		"feed: index off: x":                    {Kind: feed.IndexOff, Detail: "x"},
		"feed: unavailable: x: no route":        {Kind: feed.Unavailable, Detail: "x", Err: cause},
		"feed: invalid: x; a: is b: no route":   {Kind: feed.Invalid, Detail: "x", Fields: []feed.FieldError{{Field: "a", Detail: "is b"}}, Err: cause},
		"feed: kind 99: a kind that none knows": {Kind: 99, Detail: "a kind that none knows"},
	} {
		assert.EqualError(t, err, want)
	}
	assert.ErrorIs(t, &feed.Error{Err: cause}, cause)
}

// broken is a table whose batches end in a way of the test's.
type broken struct {
	table.Store
	end func() error
}

func (b *broken) BatchGet(context.Context, table.BatchGetInput) (table.BatchGetResult, error) {
	return table.BatchGetResult{}, b.end()
}

// No retry mends a defect, so nobody is told to try again. All else may be mended.
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
			w := newWorld(t, func(cfg *feed.Config) { cfg.Store = &broken{cfg.Store, c.end} })
			w.users("ann", "bob")
			err := w.Mute(t.Context(), "ann", "bob")
			if c.defect != nil {
				require.ErrorAs(t, err, c.defect)
				assert.NotErrorAs(t, err, new(*feed.Error))
				return
			}
			require.ErrorIs(t, err, c.end())
			e, ok := errors.AsType[*feed.Error](err)
			require.True(t, ok)
			assert.Equal(t, feed.Error{
				Kind: feed.Unavailable, Detail: "the table did not answer in time: try again", RetryAfter: time.Second, Err: c.end(),
			}, *e)
		})
	}
}
