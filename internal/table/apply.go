package table

import (
	"fmt"
	"math"
)

// The functions of this file compute the effect of a write on an item, for backends that
// compute effects themselves.

// Apply returns the item after the update of old; nil stands for an absent item. It returns an InvalidError
// for an Add to a string, for an Add beyond the range of a number, and for a result that is too large.
// Apply ignores the condition.
func (in UpdateInput) Apply(old *Item) (*Item, error) {
	after := Item{Key: in.Key}
	if old != nil {
		after.Attrs = make([]Attr, 0, len(old.Attrs)+len(in.Set)+len(in.Add))
		after.Attrs = append(after.Attrs, old.Attrs...)
	}
	for _, a := range in.Set {
		after.set(a)
	}
	for _, a := range in.Add {
		sum, err := add(after.Get(a.Name), a)
		if err != nil {
			return nil, err
		}
		after.set(Attr{a.Name, sum})
	}
	for _, name := range in.Remove {
		after.remove(name)
	}
	if err := after.Validate(); err != nil {
		return nil, err
	}
	return &after, nil
}

func add(old Value, by Attr) (Value, error) {
	if old.Kind() == KindString {
		return Value{}, &InvalidError{fmt.Sprintf("attribute %q is a string: nothing can be added to it", by.Name)}
	}
	a, b := old.Int(), by.Value.Int()
	if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
		return Value{}, &InvalidError{fmt.Sprintf("attribute %q would leave the range of 64 bits", by.Name)}
	}
	return N(a + b), nil
}

func (it *Item) set(a Attr) {
	for i := range it.Attrs {
		if it.Attrs[i].Name == a.Name {
			it.Attrs[i].Value = a.Value
			return
		}
	}
	it.Attrs = append(it.Attrs, a)
}

func (it *Item) remove(name string) {
	for i := range it.Attrs {
		if it.Attrs[i].Name == name {
			it.Attrs = append(it.Attrs[:i], it.Attrs[i+1:]...)
			return
		}
	}
}

// Key returns the key of the operation's item.
func (op TransactOp) Key() Key {
	switch {
	case op.Put != nil:
		return op.Put.Item.Key
	case op.Update != nil:
		return op.Update.Key
	case op.Delete != nil:
		return op.Delete.Key
	case op.Check != nil:
		return op.Check.Key
	}
	return Key{}
}

// Cond returns the operation's condition.
func (op TransactOp) Cond() Cond {
	switch {
	case op.Put != nil:
		return op.Put.If
	case op.Update != nil:
		return op.Update.If
	case op.Delete != nil:
		return op.Delete.If
	case op.Check != nil:
		return op.Check.If
	}
	return nil
}

// Apply returns the item after the operation on old; nil stands for an absent item. The
// result may share memory with the operation.
func (op TransactOp) Apply(old *Item) (*Item, error) {
	switch {
	case op.Put != nil:
		return &op.Put.Item, nil
	case op.Update != nil:
		return op.Update.Apply(old)
	case op.Delete != nil:
		return nil, nil
	}
	return old, nil
}
