package disk_test

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

func TestACheckpointHasWhatWasAnsweredBefore(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	db := open(t, mem)
	require.NoError(t, <-write(db, "before"))
	require.NoError(t, disk.MakeDir(mem, "copies"))
	require.NoError(t, db.Checkpoint("copies/one"))
	require.NoError(t, <-write(db, "after"))
	copied, err := disk.Open(nil, "copies/one", zap.NewNop(), &pebble.Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})}, disk.Format{Key: []byte("format"), Known: 1})
	require.NoError(t, err)
	_, closer, err := copied.Get([]byte("before"))
	require.NoError(t, err)
	require.NoError(t, closer.Close())
	_, _, err = copied.Get([]byte("after"))
	require.ErrorIs(t, err, pebble.ErrNotFound)
	for _, db := range []*disk.DB{db, copied} {
		assert.NoError(t, db.Close(func() {}))
	}
}

// Each operation on the copy fails in turn. The store itself never reports a trouble, and the copy is removed.
func TestACheckpointWithoutRoomHarmsNothing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	fs := disktest.New(mem)
	db := open(t, fs)
	require.NoError(t, <-write(db, "before"))
	require.NoError(t, mem.MkdirAll("copies", 0o700))
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		for n := 0; ; n++ {
			left := n
			fs.Set(func(_, name string, _ int) error {
				if !strings.HasPrefix(name, "copies") {
					return nil
				}
				if left--; left < 0 {
					return cause
				}
				return nil
			})
			err := db.Checkpoint("copies/one")
			fs.Set(nil)
			if err == nil {
				require.GreaterOrEqual(t, n, 10, "too few operations failed")
				break
			}
			require.ErrorIs(t, err, cause)
			_, err = mem.Stat("copies/one")
			require.Error(t, err)
			require.NoError(t, db.Health())
			require.NoError(t, <-write(db, "after"))
		}
		require.NoError(t, mem.RemoveAll("copies/one"))
	}
	require.NoError(t, db.Close(func() {}))
}

// A start ends at any of its operations. After the next start, which may find no log to apply, a checkpoint is a store.
func TestACheckpointAfterAStartThatWasCutIsAStore(t *testing.T) {
	t.Parallel()
	mem := crashed(t)
	fs := disktest.New(mem)
	var mu sync.Mutex
	var cut []*vfs.MemFS
	fs.Set(func(string, string, int) error {
		mu.Lock()
		defer mu.Unlock()
		cut = append(cut, mem.CrashClone(vfs.CrashCloneCfg{}))
		return nil
	})
	require.NoError(t, open(t, fs).Close(func() {}))
	require.Greater(t, len(cut), 10)
	for i, mem := range cut {
		db := open(t, mem)
		require.NoError(t, disk.MakeDir(mem, "copies"))
		require.NoError(t, db.Checkpoint("copies/one"))
		copied, err := disk.Open(nil, "copies/one", zap.NewNop(), &pebble.Options{FS: mem}, disk.Format{Key: []byte("format"), Known: 1})
		require.NoError(t, err, "a start that was cut at operation %d of %d", i, len(cut))
		_, closer, err := copied.Get([]byte("key99"))
		require.NoError(t, err)
		require.NoError(t, errors.Join(closer.Close(), copied.Close(func() {}), db.Close(func() {})))
	}
}
