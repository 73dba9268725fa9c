package embedded

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

// A batch that does not change the item's index keys writes no hint. So the batch must not read the item
// while another call deletes the item with its hint.
func TestABatchBesideADeleteLeavesNoItemWithoutItsHint(t *testing.T) {
	t.Parallel()
	s, err := Create("table", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	item := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: []table.Attr{{Name: table.AttrGSI1PK, Value: table.S("index")}, {Name: table.AttrGSI1SK, Value: table.S("s")}}}
	for range 1000 {
		_, err := s.Put(t.Context(), table.PutInput{Item: item})
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() {
			_, err := s.BatchWrite(t.Context(), []table.BatchWrite{{Put: &item}})
			assert.NoError(t, err)
		})
		both.Go(func() {
			_, err := s.Delete(t.Context(), table.DeleteInput{Key: item.Key})
			assert.NoError(t, err)
		})
		both.Wait()
		got, err := s.Get(t.Context(), table.GetInput{Key: item.Key, Consistent: true})
		require.NoError(t, err)
		listed, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: "index", Index: true}), 0)
		require.NoError(t, err)
		require.Equal(t, got.Item != nil, len(listed) == 1)
	}
}
