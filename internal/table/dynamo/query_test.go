package dynamo

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/table"
)

// want reports whether a sort key is in a query's range by the rules of package table.
func want(q table.Query, sk string) bool {
	if sk < q.Low || (q.High != "" && sk > q.High) {
		return false
	}
	if q.After == "" {
		return true
	}
	if q.Descending {
		return sk < q.After
	}
	return sk > q.After
}

// got reports whether DynamoDB returns a sort key for the range that the adapter requests.
func got(q table.Query, r keyRange, sk string) bool {
	in := !r.empty
	switch {
	case r.low != "" && r.high != "":
		in = in && r.low <= sk && sk <= r.high
	case r.low != "":
		in = in && (sk > r.low || (sk == r.low && !r.open))
	case r.high != "":
		in = in && (sk < r.high || (sk == r.high && !r.open))
	}
	if r.start != "" {
		in = in && ((q.Descending && sk < r.start) || (!q.Descending && sk > r.start))
	}
	return in && sk != r.skip
}

func TestARangeHoldsWhatThePortPromises(t *testing.T) {
	t.Parallel()
	bounds := []string{"", "b", "c", "d", "e"}
	keys := []string{"a", "b", "bb", "c", "cc", "d", "dd", "e", "f"}
	for _, index := range []bool{false, true} {
		for _, descending := range []bool{false, true} {
			for _, low := range bounds {
				for _, high := range bounds {
					for _, after := range append(bounds, "a", "f") {
						q := table.Query{Index: index, PK: "p", Low: low, High: high, After: after, Descending: descending}
						r := rangeOf(q)
						check(t, q, r, keys)
					}
				}
			}
		}
	}
}

func check(t *testing.T, q table.Query, r keyRange, keys []string) {
	t.Helper()
	name := fmt.Sprintf("%+v as %+v", q, r)
	for _, sk := range keys {
		assert.Equalf(t, want(q, sk), got(q, r, sk), "%s: %q is in", name, sk)
	}
	if r.empty {
		return
	}
	// DynamoDB refuses the following requests.
	if r.low != "" && r.high != "" && r.low > r.high {
		t.Errorf("%s: BETWEEN with bounds the wrong way round", name)
	}
	if r.start != "" && (r.start < r.low || (r.high != "" && r.start > r.high)) {
		t.Errorf("%s: the start key is outside of the bounds", name)
	}
	if q.Index && r.start != "" {
		t.Errorf("%s: the index has no start key of a sort key alone", name)
	}
}
