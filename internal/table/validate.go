package table

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// The checks of requests are the same for every backend. Otherwise an emulator that is more
// lenient than DynamoDB could hide a bug. Each check returns nil or an *InvalidError.

// These are the limits, in bytes, of keys (including the keys of the index) and of a transaction's puts.
const (
	MaxPKBytes       = 2048
	MaxSKBytes       = 1024
	MaxTransactBytes = 4 << 20
)

func invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// Validate checks a key: no part may be empty or too long.
func (k Key) Validate() error {
	if err := validKeyPart(AttrPK, k.PK, MaxPKBytes); err != nil {
		return err
	}
	return validKeyPart(AttrSK, k.SK, MaxSKBytes)
}

func (k Key) less(than Key) bool {
	return k.PK < than.PK || k.PK == than.PK && k.SK < than.SK
}

func validKeyPart(name, v string, limit int) error {
	switch {
	case v == "":
		return invalid("%s is empty", name)
	case len(v) > limit:
		return invalid("%s has %d bytes, more than %d", name, len(v), limit)
	case !utf8.ValidString(v):
		return invalid("%s is not UTF-8", name)
	}
	return nil
}

// Validate checks an item that is to be written: its key, its size, and its attributes, whose
// names must not repeat.
func (it Item) Validate() error {
	if err := it.Key.Validate(); err != nil {
		return err
	}
	if err := validAttrs(it.Attrs); err != nil {
		return err
	}
	return validSize(it.Key, Size(it))
}

func validAttrs(attrs []Attr) error {
	for i, a := range attrs {
		if err := validAttr(a); err != nil {
			return err
		}
		for _, b := range attrs[:i] {
			if a.Name == b.Name {
				return invalid("attribute %q occurs twice", a.Name)
			}
		}
	}
	return nil
}

func validSize(k Key, size int) error {
	if size > MaxItemBytes {
		return invalid("item %s / %s has %d bytes, more than %d", k.PK, k.SK, size, MaxItemBytes)
	}
	return nil
}

func validAttr(a Attr) error {
	if err := validName(a.Name); err != nil {
		return err
	}
	switch {
	case a.Value.IsZero():
		return invalid("attribute %q has no value", a.Name)
	case a.Name == AttrGSI1PK:
		return validIndexKey(a, MaxPKBytes)
	case a.Name == AttrGSI1SK:
		return validIndexKey(a, MaxSKBytes)
	case !utf8.ValidString(a.Value.Str()):
		return invalid("attribute %q is not UTF-8", a.Name)
	}
	return nil
}

func validIndexKey(a Attr, limit int) error {
	if a.Value.Kind() != KindString {
		return invalid("%s is a number", a.Name)
	}
	return validKeyPart(a.Name, a.Value.Str(), limit)
}

func validName(name string) error {
	switch {
	case name == "":
		return invalid("an attribute has no name")
	case name == AttrPK || name == AttrSK:
		return invalid("%s is part of the key, not an attribute to write", name)
	case len(name) > 255 || !utf8.ValidString(name):
		return invalid("attribute name %q is not UTF-8 of at most 255 bytes", name)
	}
	return nil
}

// ValidateCond checks a condition: each attribute must have a name, each comparison a value,
// and each All and Any a part.
func ValidateCond(c Cond) error {
	switch c := c.(type) {
	case nil, Absent, Exists:
		return nil
	case AttrAbsent:
		return condName(c.Name)
	case Equal:
		return condValue(c.Name, c.Value)
	case Less:
		return condValue(c.Name, c.Value)
	case All:
		return condParts(c)
	case Any:
		return condParts(c)
	}
	return invalid("condition %T is not known", c)
}

func condName(name string) error {
	if name == "" {
		return invalid("a condition names no attribute")
	}
	return nil
}

func condValue(name string, v Value) error {
	if v.IsZero() {
		return invalid("the condition on %q has no value", name)
	}
	return condName(name)
}

func condParts(parts []Cond) error {
	if len(parts) == 0 {
		return invalid("a condition has no parts")
	}
	for _, c := range parts {
		if c == nil {
			return invalid("a part of a condition is nil")
		}
		if err := ValidateCond(c); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks a request.
func (in GetInput) Validate() error { return in.Key.Validate() }

// Validate checks a request.
func (in BatchGetInput) Validate() error {
	seen := make(map[Key]struct{}, len(in.Keys))
	for _, k := range in.Keys {
		if err := k.Validate(); err != nil {
			return err
		}
		seen[k] = struct{}{}
	}
	if len(seen) != len(in.Keys) {
		return invalid("a batch get names a key twice")
	}
	return nil
}

// Validate checks a request.
func (q Query) Validate() error {
	switch {
	case q.Index && q.Consistent:
		return invalid("an index cannot be read consistently")
	case q.EndsOnly && (q.Index || q.Project != nil):
		return invalid("EndsOnly excludes Index and Project")
	case q.PageSize < 0:
		return invalid("page size %d is negative", q.PageSize)
	}
	return validKeyPart(AttrPK, q.PK, MaxPKBytes)
}

// Validate checks a request.
func (in ScanInput) Validate() error {
	if in.PageSize < 0 {
		return invalid("page size %d is negative", in.PageSize)
	}
	if in.After == (Key{}) {
		return nil
	}
	return in.After.Validate()
}

// Validate checks a request.
func (in PutInput) Validate() error {
	if err := in.Item.Validate(); err != nil {
		return err
	}
	return ValidateCond(in.If)
}

// Validate checks a request.
func (in UpdateInput) Validate() error {
	if err := in.Key.Validate(); err != nil {
		return err
	}
	names := make([]string, 0, len(in.Set)+len(in.Add)+len(in.Remove))
	for _, a := range in.Set {
		if err := validAttr(a); err != nil {
			return err
		}
		names = append(names, a.Name)
	}
	for _, a := range in.Add {
		if a.Value.Kind() != KindNumber {
			return invalid("the number to add to attribute %q is not a number", a.Name)
		}
		if err := validAttr(a); err != nil {
			return err
		}
		names = append(names, a.Name)
	}
	for _, name := range in.Remove {
		if err := validName(name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return invalid("an update changes nothing")
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return invalid("an update names attribute %q twice", name)
		}
	}
	return ValidateCond(in.If)
}

// Validate checks a request.
func (in DeleteInput) Validate() error {
	if err := in.Key.Validate(); err != nil {
		return err
	}
	return ValidateCond(in.If)
}

// Validate checks one write of a batch. ValidateBatch checks all writes, and also that no key occurs twice.
func (w BatchWrite) Validate() error {
	if w.Put != nil {
		if w.Delete != (Key{}) {
			return invalid("one write of a batch both puts and deletes")
		}
		return w.Put.Validate()
	}
	return w.Delete.Validate()
}

// ValidateBatch checks the writes of a batch.
func ValidateBatch(writes []BatchWrite) error {
	ascending := true
	var last Key
	var checked *Item // the last item that was checked completely
	size := 0         // the size of this item without the partition key
	for i := range writes {
		key, put := writes[i].Delete, writes[i].Put
		if put != nil {
			key = put.Key
		}
		if put != nil && checked != nil && key.SK == checked.Key.SK && slices.Equal(put.Attrs, checked.Attrs) && writes[i].Delete == (Key{}) {
			// The entries of one post differ only in their partition key.
			if err := validKeyPart(AttrPK, key.PK, MaxPKBytes); err != nil {
				return err
			}
			if err := validSize(key, size+len(key.PK)); err != nil {
				return err
			}
		} else if err := writes[i].Validate(); err != nil {
			return err
		} else if put != nil {
			checked, size = put, Size(*put)-len(key.PK)
		}
		ascending = ascending && last.less(key) // no key is empty
		last = key
	}
	if ascending { // the keys of a fan-out ascend, so no key can occur twice
		return nil
	}
	seen := make(map[Key]struct{}, len(writes))
	for _, w := range writes {
		seen[w.Key()] = struct{}{}
	}
	if len(seen) != len(writes) {
		return invalid("a batch writes a key twice")
	}
	return nil
}

// Validate checks a request.
func (in TransactInput) Validate() error {
	if n := len(in.Ops); n == 0 || n > MaxTransact {
		return invalid("a transaction has %d operations, not 1 to %d", n, MaxTransact)
	}
	seen := make(map[Key]struct{}, len(in.Ops))
	size := 0
	for i, op := range in.Ops {
		if err := op.validate(); err != nil {
			return err
		}
		if op.Put != nil {
			size += Size(op.Put.Item)
		}
		key := op.Key()
		if _, twice := seen[key]; twice {
			return invalid("operation %d: the transaction names key %s / %s twice", i, key.PK, key.SK)
		}
		seen[key] = struct{}{}
	}
	if size > MaxTransactBytes {
		return invalid("a transaction has %d bytes, more than %d", size, MaxTransactBytes)
	}
	return nil
}

func (op TransactOp) validate() error {
	var errs []error
	if op.Put != nil {
		errs = append(errs, op.Put.Validate())
	}
	if op.Update != nil {
		errs = append(errs, op.Update.Validate())
		if op.Update.ReturnNew {
			errs = append(errs, invalid("a transaction returns no items"))
		}
	}
	if op.Delete != nil {
		errs = append(errs, op.Delete.Validate())
	}
	if op.Check != nil {
		errs = append(errs, op.Check.Key.Validate(), ValidateCond(op.Check.If))
		if op.Check.If == nil {
			errs = append(errs, invalid("a check has no condition"))
		}
	}
	if len(errs) == 0 {
		return invalid("an operation of a transaction is empty")
	}
	if kinds := btoi(op.Put != nil) + btoi(op.Update != nil) + btoi(op.Delete != nil) + btoi(op.Check != nil); kinds > 1 {
		return invalid("an operation of a transaction is of %d kinds", kinds)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
