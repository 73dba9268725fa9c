package table

import "strings"

// Cond is a condition on one item, which is checked atomically with the item's write. The set
// of conditions is closed: Holds evaluates each condition, and a backend with expressions
// translates each condition.
type Cond interface{ holds(it *Item) bool }

// Holds reports whether c holds on an item; nil stands for an absent item. A nil
// condition always holds.
func Holds(c Cond, it *Item) bool { return c == nil || c.holds(it) }

type (
	// Absent holds if there is no item.
	Absent struct{}
	// Exists holds if there is an item.
	Exists struct{}
	// AttrAbsent holds if there is no item, or if the item lacks the attribute.
	AttrAbsent struct{ Name string }
	// Equal holds if the item has the attribute with this value.
	Equal struct {
		Name  string
		Value Value
	}
	// Less holds if the item has the attribute with a value that has the given value's kind and
	// is below the given value. Numbers are compared by size, strings by their UTF-8 bytes.
	Less struct {
		Name  string
		Value Value
	}
	// All holds if each of its conditions holds.
	All []Cond
	// Any holds if at least one of its conditions holds.
	Any []Cond
)

func (Absent) holds(it *Item) bool { return it == nil }
func (Exists) holds(it *Item) bool { return it != nil }

func (c AttrAbsent) holds(it *Item) bool { return attr(it, c.Name).IsZero() }
func (c Equal) holds(it *Item) bool      { return attr(it, c.Name) == c.Value }

func (c Less) holds(it *Item) bool {
	v := attr(it, c.Name)
	return v.Kind() == c.Value.Kind() && compare(v, c.Value) < 0
}

func (c All) holds(it *Item) bool {
	for _, sub := range c {
		if !sub.holds(it) {
			return false
		}
	}
	return true
}

func (c Any) holds(it *Item) bool {
	for _, sub := range c {
		if sub.holds(it) {
			return true
		}
	}
	return false
}

// attr returns an attribute as expressions see the item: PK and SK are attributes, too.
func attr(it *Item, name string) Value {
	switch {
	case it == nil:
		return Value{}
	case name == AttrPK:
		return S(it.Key.PK)
	case name == AttrSK:
		return S(it.Key.SK)
	}
	return it.Get(name)
}

func compare(a, b Value) int {
	if a.Kind() == KindString {
		return strings.Compare(a.Str(), b.Str())
	}
	switch {
	case a.Int() < b.Int():
		return -1
	case a.Int() > b.Int():
		return 1
	}
	return 0
}
