package follow_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// Pebble may sync the first blocks of a record before it writes the last one. The archive may have these
// blocks, so the logs end behind them.
func TestTheEndOfALogIsBehindAPartOfARecord(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	large := options(mem)
	large.MemTableSize = 1 << 20
	db, err := pebble.Open("store", large)
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("small"), []byte("value"), pebble.Sync))
	before, err := follow.End(mem, "store")
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("large"), bytes.Repeat([]byte("x"), 60_000), pebble.Sync))
	after, err := follow.End(mem, "store")
	require.NoError(t, err)
	require.Greater(t, after.Offset, before.Offset+60_000)
	log := logOf(t, mem, after.Log)
	require.NoError(t, db.Close())

	const block = 32 << 10
	for size, want := range map[uint64]uint64{
		before.Offset:      before.Offset,
		before.Offset + 99: before.Offset, // no whole chunk
		block:              block,
		block + 50:         block,
		after.Offset:       after.Offset,
	} {
		cut := vfs.NewMem()
		require.NoError(t, cut.MkdirAll("store", 0o700))
		f, err := cut.Create("store/000002.log", vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = f.Write(bytes.Clone(log[:size])) // a write of a file in memory may change its argument
		require.NoError(t, errors.Join(err, f.Close()))
		end, err := follow.End(cut, "store")
		require.NoError(t, err)
		assert.Equalf(t, stream.Place{Log: 2, Offset: want}, end, "%d bytes", size)
	}
}

func logOf(t *testing.T, mem *vfs.MemFS, number uint64) []byte {
	t.Helper()
	require.EqualValues(t, 2, number)
	f, err := mem.Open("store/000002.log")
	require.NoError(t, err)
	log, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	return log
}

// A store that has its first log has all of its logs. A store that Pebble opened again has removed a log.
func TestTheOldestLogOfAStore(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	for _, first := range []bool{true, false} {
		db, err := pebble.Open("store", options(mem))
		require.NoError(t, err)
		require.NoError(t, db.Set([]byte("key"), []byte("value"), pebble.Sync))
		require.EventuallyWithT(t, func(t *assert.CollectT) { // Pebble removes a log that it has applied beside its start
			at, err := follow.First(mem, "store")
			require.NoError(t, err)
			assert.Equalf(t, first, at == stream.Place{}, "%v", at)
			assert.Zero(t, at.Offset)
		}, time.Minute, time.Millisecond)
		require.NoError(t, db.Close())
	}
}

func TestADirectoryWithoutLogsEndsNowhere(t *testing.T) {
	t.Parallel()
	for _, place := range []func(vfs.FS, string) (stream.Place, error){follow.End, follow.First} {
		mem := vfs.NewMem()
		at, err := place(mem, "missing")
		require.NoError(t, err)
		assert.Zero(t, at)
		require.NoError(t, mem.MkdirAll("empty", 0o700))
		at, err = place(mem, "empty")
		require.NoError(t, err)
		assert.Zero(t, at)
	}
}
