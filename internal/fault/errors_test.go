package fault_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/fault"
	"fanfare/internal/table"
)

func TestAnErrorNamesItsKindItsFieldsAndItsCause(t *testing.T) {
	cause := errors.New("no route")
	for want, err := range map[string]*fault.Error{
		"feed: not found: x":                 {Kind: fault.NotFound, Detail: "x"},
		"feed: forbidden: x":                 {Kind: fault.Forbidden, Detail: "x"},
		"feed: invalid: x; a: is b; c: is d": {Kind: fault.Invalid, Detail: "x", Fields: []fault.FieldError{{Field: "a", Detail: "is b"}, {Field: "c", Detail: "is d"}}},
		"feed: malformed cursor: x":          {Kind: fault.Malformed, Detail: "x"},
		"feed: profile missing: x":           {Kind: fault.ProfileMissing, Detail: "x"},
		"feed: mute limit: x":                {Kind: fault.Limit, Of: "mute", Detail: "x"},
		"feed: blocked: x":                   {Kind: fault.Blocked, Detail: "x"},
		"feed: index off: x":                 {Kind: fault.IndexOff, Detail: "x"},
		"feed: too soon: x":                  {Kind: fault.TooSoon, Detail: "x"},
		"feed: unavailable: x: no route":     {Kind: fault.Unavailable, Detail: "x", Err: cause},
		"feed: table: get: unavailable, try again: no route": {
			Kind: fault.Unavailable, Detail: "x", Err: &table.UnavailableError{Op: "get", Err: cause},
		},
		"feed: table: get: no capacity (index, key_range), try again: no route": {
			Kind: fault.Unavailable, Detail: "x", Err: &table.UnavailableError{Op: "get", Err: cause, Reason: table.ShortKeyRange, Index: true},
		},
		"feed: invalid: x; a: is b: no route":   {Kind: fault.Invalid, Detail: "x", Fields: []fault.FieldError{{Field: "a", Detail: "is b"}}, Err: cause},
		"feed: kind 99: a kind that none knows": {Kind: 99, Detail: "a kind that none knows"},
	} {
		assert.EqualError(t, err, want)
	}
	assert.ErrorIs(t, &fault.Error{Err: cause}, cause)
}
