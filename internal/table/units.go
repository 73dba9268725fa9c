package table

import (
	"iter"
	"math"
	"math/bits"
)

// The functions of this file implement DynamoDB's size rules, for backends that compute the
// units of a call:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html

// Size returns the billed size of an item in bytes: the names and values of all attributes, including the key.
func Size(it Item) int {
	n := len(AttrPK) + len(it.Key.PK) + len(AttrSK) + len(it.Key.SK)
	for _, a := range it.Attrs {
		n += len(a.Name) + sizeOfValue(a.Value)
	}
	return n
}

func sizeOfValue(v Value) int {
	switch v.Kind() {
	case KindString:
		return len(v.Str())
	case KindNumber:
		return SizeOfNumber(v.Int())
	case KindNone:
	}
	return 0
}

// SizeOfNumber returns the billed size of a number: one byte for every two significant digits,
// one more byte, and another byte if the number is negative.
func SizeOfNumber(n int64) int {
	if n == 0 {
		return 1
	}
	size, rest := 1, uint64(n)
	if n < 0 {
		size, rest = 2, -rest
	}
	for rest%10 == 0 {
		rest /= 10
	}
	// log10(2) is a little more than 1233/4096, so digits is the number of digits or one less.
	digits := bits.Len64(rest) * 1233 >> 12
	if rest >= powersOfTen[digits] {
		digits++
	}
	return size + (digits+1)/2
}

// powersOfTen has 10^0 to 10^19, because no uint64 has more digits.
var powersOfTen = [...]uint64{ //nolint:gochecknoglobals // a table that does not change
	1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// WriteUnits returns the cost of one write of size bytes: one unit for each started KB, and at least one unit.
func WriteUnits(size int) float64 { return max(1, math.Ceil(float64(size)/1024)) }

// ReadUnits returns the cost of one read of size bytes: one unit for each started 4 KB, and at
// least one unit. An eventually consistent read costs half as much.
func ReadUnits(size int, consistent bool) float64 {
	n := max(1, math.Ceil(float64(size)/4096))
	if !consistent {
		n /= 2
	}
	return n
}

// WriteCost returns the cost of a write outside a transaction that turns before into after; nil
// stands for an absent item. It is the cost of the larger item plus the index's share.
func WriteCost(before, after *Item) Units {
	return Units{Write: tableCost(before, after) + indexCost(before, after)}
}

// TransactCost returns the cost of such a write in a transaction. The table's share costs twice
// as much. The index's share does not, because the index is written after the transaction.
func TransactCost(before, after *Item) Units {
	return Units{Write: 2*tableCost(before, after) + indexCost(before, after)}
}

// FailedCost returns the cost of a write outside a transaction whose condition did not hold:
// the cost of the larger of the old item and the new item, which was not written.
func FailedCost(op TransactOp, old *Item) Units {
	after, err := op.Apply(old)
	if err != nil { // there is no new item
		after = nil
	}
	return Units{Write: tableCost(old, after)}
}

func tableCost(before, after *Item) float64 {
	size := 0
	if before != nil {
		size = Size(*before)
	}
	if after != nil {
		size = max(size, Size(*after))
	}
	return WriteUnits(size)
}

// indexCost returns the share of GSI1, which projects every attribute. An item that is not in
// the index, or does not change, costs nothing. An item that enters the index, leaves the index
// or changes in the index costs one write. An item that moves in the index costs two writes.
func indexCost(before, after *Item) float64 {
	was, is := InIndex(before), InIndex(after)
	switch {
	case !was && !is:
		return 0
	case !was:
		return WriteUnits(Size(*after))
	case !is:
		return WriteUnits(Size(*before))
	}
	if before.Str(AttrGSI1PK) != after.Str(AttrGSI1PK) || before.Str(AttrGSI1SK) != after.Str(AttrGSI1SK) {
		return WriteUnits(Size(*before)) + WriteUnits(Size(*after))
	}
	if sameAttrs(*before, *after) {
		return 0
	}
	return WriteUnits(max(Size(*before), Size(*after)))
}

// InIndex reports whether an item is in GSI1: whether the item has both index keys.
func InIndex(it *Item) bool {
	return it != nil && it.Get(AttrGSI1PK).Kind() == KindString && it.Get(AttrGSI1SK).Kind() == KindString
}

func sameAttrs(a, b Item) bool {
	if len(a.Attrs) != len(b.Attrs) {
		return false
	}
	for _, at := range a.Attrs {
		if b.Get(at.Name) != at.Value {
			return false
		}
	}
	return true
}

// Collect reads all pages of a query, or stops at limit items if limit is above 0. It is for
// partitions whose size is bounded in any case.
func Collect(pages iter.Seq2[Page, error], limit int) ([]Item, Units, error) {
	var items []Item
	var units Units
	for page, err := range pages {
		if err != nil {
			return nil, units, err
		}
		units = units.Plus(page.Units)
		items = append(items, page.Items...)
		if limit > 0 && len(items) >= limit {
			return items[:limit], units, nil
		}
	}
	return items, units, nil
}
