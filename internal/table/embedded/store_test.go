package embedded

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/planttest"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func open(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Create(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
	})
	return s
}

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	tabletest.Run(t, func(t *testing.T) table.Store {
		t.Helper()
		return open(t, t.TempDir(), Options{})
	})
}

func TestStoreUnderStaleReadsKeepsTheContract(t *testing.T) {
	t.Parallel()
	tabletest.Run(t, func(t *testing.T) table.Store {
		t.Helper()
		return tabletest.Stale(open(t, "data", Options{FS: vfs.NewMem()}), 1)
	})
}

// The contract must find entries that get the attributes of another batch or of another write.
func TestTheContractShowsAttributesOfOthers(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]planttest.Edit{
		"kept after the call": {Old: "space.forget()", New: ""},
		"of another length":   {Old: "len(attrs) == len(e.attrs)", New: "len(e.attrs) > 0"},
	} {
		t.Run(name, func(t *testing.T) {
			planttest.MustFail(t, plant(t, "write.go", edit), "TestStoreKeepsTheContract/Batch", "FAIL: TestStoreKeepsTheContract/Batch/WriteTakesAttributesAsTheyAreNow", 1)
		})
	}
}

// sorted returns an item with its attributes in the order of their names.
func sorted(it table.Item) table.Item {
	it.Attrs = slices.Clone(it.Attrs)
	slices.SortFunc(it.Attrs, func(a, b table.Attr) int { return strings.Compare(a.Name, b.Name) })
	return it
}

// A fan-out reads pages of followers with the day of each edge.
func TestAProjectedPageAllocatesNothingForASingleItem(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	s := open(t, t.TempDir(), Options{SweepEvery: -1})
	items := make([]table.Item, 1000)
	writes := make([]table.BatchWrite, len(items))
	for i := range items {
		items[i] = table.Item{Key: table.Key{PK: "p", SK: fmt.Sprintf("%04d", i)}, Attrs: []table.Attr{{Name: "since", Value: table.S("x")}, {Name: "until", Value: table.N(int64(i))}}}
		writes[i].Put = &items[i]
	}
	_, err := s.BatchWrite(t.Context(), writes)
	require.NoError(t, err)
	read := func() {
		got, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: "p", Project: []string{"until"}, Consistent: true}), 0)
		require.NoError(t, err)
		require.Len(t, got, len(items))
		require.EqualValues(t, 999, got[999].Int("until"))
	}
	// Other code allocates at the same time: the store's own goroutines, and the race detector at random.
	least := math.Inf(1)
	for range 50 {
		least = min(least, testing.AllocsPerRun(1, read))
	}
	assert.Less(t, least, 200.0)
}

// Items counts only the items, whatever hints the index has.
func TestItemsAreCounted(t *testing.T) {
	t.Parallel()
	s := open(t, "data", Options{FS: vfs.NewMem()})
	for i := range 300 {
		item := table.Item{Key: table.Key{PK: fmt.Sprint("p", i%7), SK: fmt.Sprint("s", i)}}
		if i%2 == 0 {
			item.Attrs = []table.Attr{{Name: table.AttrGSI1PK, Value: table.S("g")}, {Name: table.AttrGSI1SK, Value: table.S(fmt.Sprint(i))}}
		}
		_, err := s.Put(t.Context(), table.PutInput{Item: item})
		require.NoError(t, err)
	}
	n, err := s.Items(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(300), n)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Items(ended)
	assert.ErrorIs(t, err, context.Canceled)
}
