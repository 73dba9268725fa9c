package disk_test

import (
	"strings"
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
