package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

// While the disk delays syncs, a lazy transaction is answered, and a read of its items waits.
func TestALazyTransactionIsAnsweredBeforeItIsDurableAndShownAfter(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	s := open(t, "data", Options{FS: fs, SweepEvery: -1})
	it := table.Item{Key: table.Key{PK: "p", SK: "s"}, Attrs: []table.Attr{{Name: "n", Value: table.N(1)}}}
	_, partition := s.hash.of(it.Key)
	fs.Gate.Lock()
	_, err := s.Transact(t.Context(), table.TransactInput{Lazy: true, Ops: []table.TransactOp{{Put: &table.PutInput{Item: it, If: table.Absent{}}}}})
	assert.NoError(t, err)
	pending := s.commits.pending(slotOf(partition))
	read := make(chan table.GetResult, 1)
	go func() {
		res, err := s.Get(t.Context(), table.GetInput{Key: it.Key})
		assert.NoError(t, err)
		if pending != nil {
			select {
			case <-pending.done:
			default:
				assert.Fail(t, "it was shown before it was durable")
			}
		}
		read <- res
	}()
	fs.Gate.Unlock()
	assert.NotNil(t, pending, "it is durable before the disk synced")
	res := <-read
	require.NotNil(t, res.Item)
	assert.Equal(t, int64(1), res.Item.Int("n"))

	_, err = s.Transact(t.Context(), table.TransactInput{Lazy: true, Ops: []table.TransactOp{{Put: &table.PutInput{Item: it, If: table.Absent{}}}}})
	var cancelled *table.CancelledError
	assert.ErrorAs(t, err, &cancelled, "a failed condition is answered as ever")
}
