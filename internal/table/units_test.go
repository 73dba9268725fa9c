package table_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/table"
)

func attr(name string, v table.Value) table.Attr { return table.Attr{Name: name, Value: v} }

// withSize returns an item whose size is n bytes by the size rules.
func withSize(n int, attrs ...table.Attr) *table.Item {
	it := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: append([]table.Attr{attr("pad", table.S(""))}, attrs...)}
	it.Attrs[0].Value = table.S(strings.Repeat("x", n-table.Size(it)))
	return &it
}

func inIndex(n int, pk, sk string) *table.Item {
	return withSize(n, attr(table.AttrGSI1PK, table.S(pk)), attr(table.AttrGSI1SK, table.S(sk)))
}

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
func TestSizesFollowTheDocumentedRules(t *testing.T) {
	for _, tt := range []struct {
		name string
		item table.Item
		want int
	}{
		// "Strings are Unicode with UTF-8 binary encoding. The size of a string is
		// (length of attribute name) + (number of UTF-8-encoded bytes)."
		{"key only", table.Item{Key: table.Key{PK: "u#1", SK: "info"}}, 2 + 3 + 2 + 4},
		{"string", table.Item{Attrs: []table.Attr{attr("shirt-color", table.S("R"))}}, 4 + 12},
		{"string of many bytes", table.Item{Attrs: []table.Attr{attr("é", table.S("👩"))}}, 4 + 2 + 4},
		{"empty string", table.Item{Attrs: []table.Attr{attr("name", table.S(""))}}, 4 + 4},
	} {
		assert.Equal(t, tt.want, table.Size(tt.item), tt.name)
	}
	// "The size of a number is approximately (length of attribute name) + (1 byte
	// per two significant digits) + (1 byte)"; leading and trailing zeros are
	// trimmed, and a sign takes a byte.
	for n, want := range map[int64]int{
		0: 1, 1: 2, 9: 2, 10: 2, 12: 2, 27: 2, -27: 3, 123: 3, 1234: 3, 12345: 4, 1_000_000: 2, 1_000_001: 5, -100: 3,
		1_800_000_000: 2, 1_763_700_000_123: 8, 1<<63 - 1: 11, -1 << 63: 12,
	} {
		assert.Equalf(t, want, table.SizeOfNumber(n), "size of %d", n)
	}
	for n := int64(1); n <= math.MaxInt64/10; n *= 10 {
		for _, n := range []int64{n - 1, n, n + 1} {
			digits := len(strings.TrimRight(strconv.FormatInt(n, 10), "0"))
			assert.Equalf(t, 1+(digits+1)/2, table.SizeOfNumber(n), "size of %d", n)
		}
	}
}

func TestReadUnitsAreByFourKilobytesBegun(t *testing.T) {
	for _, tt := range []struct {
		size                 int
		consistent, eventual float64
	}{{0, 1, 0.5}, {1, 1, 0.5}, {3 * 1024, 1, 0.5}, {4096, 1, 0.5}, {4097, 2, 1}, {8 * 1024, 2, 1}, {10 * 1024, 3, 1.5}, {400 * 1024, 100, 50}} {
		assert.Equalf(t, tt.consistent, table.ReadUnits(tt.size, true), "consistent read of %d", tt.size)
		assert.Equalf(t, tt.eventual, table.ReadUnits(tt.size, false), "eventual read of %d", tt.size)
	}
}

func TestWriteCostIsTheLargerItemAndTheIndex(t *testing.T) {
	for _, tt := range []struct {
		name             string
		before, after    *table.Item
		want, inTransact float64
	}{
		{"nothing", nil, nil, 1, 2},
		{"new, 1 KB", nil, withSize(1024), 1, 2},
		{"new, a byte more", nil, withSize(1025), 2, 4},
		// "if you change a 3.5 KB item": DynamoDB rounds up to 4 KB.
		{"3.5 KB", withSize(3584), withSize(3584), 4, 8},
		{"shrinks", withSize(5000), withSize(100), 5, 10},
		{"grows", withSize(100), withSize(5000), 5, 10},
		{"deleted", withSize(2500), nil, 3, 6},
		{"into the index", withSize(100), inIndex(1500, "g", "1"), 2 + 2, 4 + 2},
		{"new in the index", nil, inIndex(1500, "g", "1"), 2 + 2, 4 + 2},
		{"out of the index", inIndex(1500, "g", "1"), withSize(100), 2 + 2, 4 + 2},
		{"deleted from the index", inIndex(1500, "g", "1"), nil, 2 + 2, 4 + 2},
		{"moved", inIndex(1500, "g", "1"), inIndex(2500, "g", "2"), 3 + 2 + 3, 6 + 2 + 3},
		{"moved to another partition", inIndex(100, "g", "1"), inIndex(100, "h", "1"), 1 + 2, 2 + 2},
		{"changed in place", inIndex(100, "g", "1"), inIndex(101, "g", "1"), 1 + 1, 2 + 1},
		{"the same again", inIndex(1500, "g", "1"), inIndex(1500, "g", "1"), 2, 4},
		{"half of the keys", nil, withSize(100, attr(table.AttrGSI1PK, table.S("g"))), 1, 2},
	} {
		got := table.WriteCost(tt.before, tt.after)
		assert.Equalf(t, table.Units{Write: tt.want}, got, "%s: %+v, want %g", tt.name, got, tt.want)
		got = table.TransactCost(tt.before, tt.after)
		assert.Equalf(t, table.Units{Write: tt.inTransact}, got, "%s in a transaction: %+v, want %g", tt.name, got, tt.inTransact)
	}
}

func TestCollectStopsAtItsLimitAndAtAnError(t *testing.T) {
	failed := errors.New("failed")
	read := 0
	pages := func(yield func(table.Page, error) bool) {
		for range 3 {
			read++
			if !yield(table.Page{Items: make([]table.Item, 2), Units: table.Units{Read: 1}}, nil) {
				return
			}
		}
		yield(table.Page{}, failed)
	}
	items, units, err := table.Collect(pages, 3)
	if len(items) != 3 || units.Read != 2 || err != nil || read != 2 {
		t.Errorf("Collect to 3 = %d items, %v, %v after %d pages", len(items), units, err, read)
	}
	if items, units, err = table.Collect(pages, 0); items != nil || units.Read != 3 || !errors.Is(err, failed) {
		t.Errorf("Collect to an error = %d items, %v, %v", len(items), units, err)
	}
}
