package disk_test

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

// du returns the bytes of the disk that the files below a directory take.
func du(t *testing.T, dir string) (bytes uint64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		bytes += uint64(info.Sys().(*syscall.Stat_t).Blocks) * 512
		return nil
	})
	if err != nil { // Pebble deleted a file after the listing
		return 0
	}
	return bytes
}

// Logs that Pebble keeps for later writes also take room on the disk.
func TestTheSizeOfAStoreIsThatOfItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := disk.Open(nil, dir, zap.NewNop(), &pebble.Options{MemTableSize: 256 << 10}, disk.Format{Key: []byte("format"), Known: 1})
	require.NoError(t, err)
	value := bytes.Repeat([]byte("v"), 64<<10)
	for i := range 100 {
		require.NoError(t, db.Set([]byte{byte(i)}, value, pebble.Sync))
	}
	require.NoError(t, db.Flush())
	disktest.Until(t, func() bool { size := db.Stats().DiskBytes; return size > 0 && size == du(t, dir) })
	assert.Positive(t, db.Metrics().WAL.ObsoleteFiles, "no log is kept for later writes")
	require.NoError(t, db.Close(func() {}))
}
