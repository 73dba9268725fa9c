package embedded

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func open(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
	})
	return s
}

func TestStoreKeepsTheContract(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) table.Store {
		t.Helper()
		return open(t, t.TempDir(), Options{})
	})
}

func TestStoreUnderStaleReadsKeepsTheContract(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) table.Store {
		t.Helper()
		return tabletest.Stale(open(t, "data", Options{FS: vfs.NewMem()}), 1)
	})
}

// sorted returns an item with its attributes in the order of their names.
func sorted(it table.Item) table.Item {
	it.Attrs = slices.Clone(it.Attrs)
	slices.SortFunc(it.Attrs, func(a, b table.Attr) int { return strings.Compare(a.Name, b.Name) })
	return it
}
