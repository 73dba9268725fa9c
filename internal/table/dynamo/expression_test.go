package dynamo

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/table"
)

func TestConditionsBecomeExpressions(t *testing.T) {
	t.Parallel()
	a, n := table.Equal{Name: "a", Value: table.S("x")}, table.Less{Name: "n", Value: table.N(3)}
	for _, tt := range []struct {
		cond table.Cond
		want string
	}{
		{table.Absent{}, "attribute_not_exists(#0)"},
		{table.Exists{}, "attribute_exists(#0)"},
		{a, "#0 = :0"},
		{table.All{a}, "#0 = :0"},
		{table.All{a, n}, "#0 = :0 AND #1 < :1"},
		{table.Any{table.All{a, n}, a}, "(#0 = :0 AND #1 < :1) OR #0 = :2"},
		{table.All{table.Any{table.All{a, n}}}, "#0 = :0 AND #1 < :1"},
		{table.Any{table.All{table.Any{a, n}, a}, n}, "((#0 = :0 OR #1 < :1) AND #0 = :2) OR #1 < :3"},
	} {
		var e expr
		assert.Equalf(t, tt.want, *e.condition(tt.cond), "%#v", tt.cond)
	}
}

func TestUpdatesBecomeExpressions(t *testing.T) {
	t.Parallel()
	one, two := table.Attr{Name: "a", Value: table.N(1)}, table.Attr{Name: "b", Value: table.N(2)}
	for _, tt := range []struct {
		in   table.UpdateInput
		want string
	}{
		{table.UpdateInput{Set: []table.Attr{one}}, "SET #0 = :0"},
		{table.UpdateInput{Set: []table.Attr{one, two}}, "SET #0 = :0, #1 = :1"},
		{table.UpdateInput{Add: []table.Attr{one}, Remove: []string{"b", "c"}}, "ADD #0 :0 REMOVE #1, #2"},
		{table.UpdateInput{Set: []table.Attr{one}, Add: []table.Attr{two}, Remove: []string{"c"}}, "SET #0 = :0 ADD #1 :1 REMOVE #2"},
	} {
		var e expr
		assert.Equalf(t, tt.want, *e.update(tt.in), "%+v", tt.in)
	}
}

// trim needs an attribute that the key condition also names, so the projection has to include the attribute.
func TestAProjectionHasEachAttributeOnce(t *testing.T) {
	t.Parallel()
	var e expr
	e.name(table.AttrGSI1SK)
	assert.Equal(t, "#1, #2, #0, #3", *e.projection([]string{table.AttrGSI1SK, "text", table.AttrSK, "text"}))
}
