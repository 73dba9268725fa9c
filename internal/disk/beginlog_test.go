package disk_test

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

// A store without a write begins a log, too. A call during or after Close does not harm it.
func TestAnIdleStoreBeginsALog(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewMem(), newRecorder()
	db := openTapped(t, mem, tap)
	newest := func() uint64 {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		return tap.newest()
	}
	for range 3 {
		before := newest()
		require.NoError(t, db.BeginLog())
		disktest.Until(t, func() bool { return newest() > before })
	}
	require.NoError(t, db.Set([]byte("a"), []byte("value"), pebble.Sync))
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			if err := db.BeginLog(); err != nil {
				assert.ErrorIs(t, err, disk.ErrClosed)
			}
		})
	}
	require.NoError(t, db.Close(func() {}))
	calls.Wait()
	require.ErrorIs(t, db.BeginLog(), disk.ErrClosed)
	tap.check(t)
	db = openTapped(t, mem, newRecorder())
	value, closer, err := db.Get([]byte("a"))
	require.NoError(t, err)
	assert.Equal(t, "value", string(value))
	require.NoError(t, closer.Close())
	require.NoError(t, db.Close(func() {}))
}
