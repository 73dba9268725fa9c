package dynamo

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/table"
)

// expr collects the names and values of one request's expressions. The expressions use
// placeholders (#0, :0), so that an attribute's name may be a reserved word. This package does
// not use the SDK's expression builder: there are only seven conditions, and the builder
// encodes values by reflection, and the reflection would be most of the work.
type expr struct {
	names  map[string]string
	values map[string]types.AttributeValue
	// order has the names, in the order of the numbers of their placeholders.
	order []string
}

func (e *expr) name(name string) string {
	for i, other := range e.order {
		if other == name {
			return "#" + strconv.Itoa(i)
		}
	}
	if e.names == nil {
		e.names = make(map[string]string)
	}
	placeholder := "#" + strconv.Itoa(len(e.order))
	e.order = append(e.order, name)
	e.names[placeholder] = name
	return placeholder
}

func (e *expr) value(v table.Value) string {
	if e.values == nil {
		e.values = make(map[string]types.AttributeValue)
	}
	placeholder := ":" + strconv.Itoa(len(e.values))
	e.values[placeholder] = encodeValue(v)
	return placeholder
}

// projection returns the projection of the key and the named attributes, or of all attributes if names is nil.
func (e *expr) projection(names []string) *string {
	if names == nil {
		return nil
	}
	return e.list(append([]string{table.AttrPK, table.AttrSK}, names...))
}

// list returns a projection of attributes.
func (e *expr) list(names []string) *string {
	var parts []string
	for _, name := range names {
		if part := e.name(name); !slices.Contains(parts, part) { // DynamoDB refuses a repeated attribute
			parts = append(parts, part)
		}
	}
	return new(strings.Join(parts, ", "))
}

// condition translates a condition that table.ValidateCond has accepted. It returns nil for no condition.
func (e *expr) condition(c table.Cond) *string {
	if c == nil {
		return nil
	}
	return new(e.cond(c))
}

func (e *expr) cond(c table.Cond) string {
	switch c := c.(type) {
	case table.Absent:
		return "attribute_not_exists(" + e.name(table.AttrPK) + ")"
	case table.Exists:
		return "attribute_exists(" + e.name(table.AttrPK) + ")"
	case table.AttrAbsent:
		return "attribute_not_exists(" + e.name(c.Name) + ")"
	case table.Equal:
		return e.name(c.Name) + " = " + e.value(c.Value)
	case table.Less:
		return e.name(c.Name) + " < " + e.value(c.Value)
	case table.All:
		return e.join(c, " AND ")
	case table.Any:
		return e.join(c, " OR ")
	}
	return "" // not reached: ValidateCond accepts no other kind
}

func (e *expr) join(cs []table.Cond, operator string) string {
	if len(cs) == 1 {
		return e.cond(cs[0])
	}
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = e.part(c)
	}
	return strings.Join(parts, operator)
}

// part translates a condition within a larger condition. Only part writes parentheses, because
// DynamoDB refuses double parentheses.
func (e *expr) part(c table.Cond) string {
	switch c.(type) {
	case table.All, table.Any:
		return "(" + e.cond(c) + ")"
	}
	return e.cond(c)
}

// update translates the changes of an update. There is at least one change.
func (e *expr) update(in table.UpdateInput) *string {
	var b strings.Builder
	clause := func(keyword string, n int, part func(i int) string) {
		for i := range n {
			switch {
			case i > 0:
				b.WriteString(", ")
			case b.Len() > 0:
				b.WriteString(" " + keyword)
			default:
				b.WriteString(keyword)
			}
			b.WriteString(part(i))
		}
	}
	clause("SET ", len(in.Set), func(i int) string { return e.name(in.Set[i].Name) + " = " + e.value(in.Set[i].Value) })
	clause("ADD ", len(in.Add), func(i int) string { return e.name(in.Add[i].Name) + " " + e.value(in.Add[i].Value) })
	clause("REMOVE ", len(in.Remove), func(i int) string { return e.name(in.Remove[i]) })
	return new(b.String())
}
