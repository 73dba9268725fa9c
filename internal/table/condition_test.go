package table_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/table"
)

// The suite tabletest checks the meaning of each kind of condition on every backend.
// TestConditionsKeepTheLawsOfLogic checks the laws that connect the kinds.
func TestConditionsKeepTheLawsOfLogic(t *testing.T) {
	value := rapid.OneOf(rapid.Map(rapid.Int64Range(-2, 2), table.N), rapid.Map(rapid.SampledFrom([]string{"", "a", "b"}), table.S))
	name := rapid.SampledFrom([]string{"a", "b", table.AttrPK, table.AttrSK})
	leaf := rapid.Custom(func(t *rapid.T) table.Cond {
		n, v := name.Draw(t, "name"), value.Draw(t, "value")
		return rapid.SampledFrom([]table.Cond{
			table.Absent{}, table.Exists{}, table.AttrAbsent{Name: n},
			table.Equal{Name: n, Value: v}, table.Less{Name: n, Value: v},
		}).Draw(t, "cond")
	})
	state := rapid.Custom(func(t *rapid.T) *table.Item {
		if rapid.Bool().Draw(t, "absent") {
			return nil
		}
		it := &table.Item{Key: table.Key{PK: "a", SK: "b"}}
		for _, n := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, "has "+n) {
				it.Attrs = append(it.Attrs, attr(n, value.Draw(t, n)))
			}
		}
		return it
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, it := leaf.Draw(t, "a"), leaf.Draw(t, "b"), state.Draw(t, "it")
		n, v := name.Draw(t, "n"), value.Draw(t, "v")
		for law, holds := range map[string]bool{
			"nil holds":         table.Holds(nil, it),
			"all":               table.Holds(table.All{a, b}, it) == (table.Holds(a, it) && table.Holds(b, it)),
			"any":               table.Holds(table.Any{a, b}, it) == (table.Holds(a, it) || table.Holds(b, it)),
			"absent or exists":  table.Holds(table.Absent{}, it) != table.Holds(table.Exists{}, it),
			"no item, no value": it != nil || !table.Holds(table.Any{table.Equal{Name: n, Value: v}, table.Less{Name: n, Value: v}}, it),
			"attribute":         !table.Holds(table.All{table.AttrAbsent{Name: n}, table.Any{table.Equal{Name: n, Value: v}, table.Less{Name: n, Value: v}}}, it),
			"less or equal":     !table.Holds(table.All{table.Less{Name: n, Value: v}, table.Equal{Name: n, Value: v}}, it),
		} {
			assert.Truef(t, holds, "law %q is broken for %#v, %#v on %+v", law, a, b, it)
		}
		assert.NoError(t, table.ValidateCond(table.All{a, table.Any{b}}))
	})
}

func TestUpdatesApplyToACopy(t *testing.T) {
	old := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: []table.Attr{attr("keep", table.S("k")), attr("n", table.N(1)), attr("gone", table.N(2))}}
	before := slices.Clone(old.Attrs)
	in := table.UpdateInput{
		Key: old.Key, Set: []table.Attr{attr("set", table.S("x"))},
		Add: []table.Attr{attr("n", table.N(2)), attr("new", table.N(-1))}, Remove: []string{"gone", "absent"},
	}
	after, err := in.Apply(&old)
	require.NoError(t, err)
	want := []table.Attr{attr("keep", table.S("k")), attr("n", table.N(3)), attr("set", table.S("x")), attr("new", table.N(-1))}
	assert.Truef(t, slices.Equal(after.Attrs, want), "after = %v, want %v", after.Attrs, want)
	assert.Truef(t, slices.Equal(old.Attrs, before), "the old item became %v", old.Attrs)
}

func TestAdditionsStayInTheirRange(t *testing.T) {
	for _, tt := range []struct{ have, add int64 }{{math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, -1}, {-1, math.MinInt64}} {
		old := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: []table.Attr{attr("n", table.N(tt.have))}}
		_, err := table.UpdateInput{Key: old.Key, Add: []table.Attr{attr("n", table.N(tt.add))}}.Apply(&old)
		assert.ErrorAsf(t, err, new(*table.InvalidError), "%d + %d", tt.have, tt.add)
	}
	old := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: []table.Attr{attr("n", table.N(math.MinInt64))}}
	after, err := table.UpdateInput{Key: old.Key, Add: []table.Attr{attr("n", table.N(math.MaxInt64))}}.Apply(&old)
	assert.NoError(t, err)
	assert.Equal(t, int64(-1), after.Int("n"), "lowest + highest")
}

func TestCancelledErrorsSayWhoAndWhetherToRetry(t *testing.T) {
	conflict := &table.CancelledError{Reasons: []table.CancelledOp{{}, {Key: table.Key{PK: "p", SK: "s"}, Reason: table.CancelConflict}, {Reason: table.CancelThrottled}}}
	if !conflict.Retryable() || conflict.Failed(0) || conflict.Failed(1) || conflict.Failed(9) {
		t.Errorf("a conflict: retryable %v, failed %v", conflict.Retryable(), conflict.Failed(1))
	}
	assert.Equal(t, "table: transaction cancelled; conflict on p / s; throttled at  / ", conflict.Error())
	failed := &table.CancelledError{Reasons: []table.CancelledOp{{Reason: table.CancelCondition}, {Reason: table.CancelConflict}}}
	if failed.Retryable() || !failed.Failed(0) {
		t.Errorf("a failed condition: retryable %v, failed %v", failed.Retryable(), failed.Failed(0))
	}
}
