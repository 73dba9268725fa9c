package disk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

func openFormat(fs vfs.FS, format disk.Format) (*disk.DB, error) {
	return disk.Open(nil, "data", zap.NewNop(), &pebble.Options{FS: fs}, format)
}

func open(t *testing.T, fs vfs.FS) *disk.DB {
	t.Helper()
	db, err := openFormat(fs, disk.Format{Key: []byte("format"), Known: 1})
	require.NoError(t, err)
	return db
}

// write sets a key in the background. The channel delivers Pebble's answer.
func write(db *disk.DB, key string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- db.Set([]byte(key), []byte("value"), pebble.Sync) }()
	return done
}

func TestAWriteIsAnsweredOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	fs := disktest.New(mem)
	db := open(t, fs)
	fs.Fill(0)
	done := write(db, "a")
	if _, err := disk.Await(t.Context(), db, done); !errors.Is(err, disk.ErrFull) || !errors.Is(db.Health(), disk.ErrFull) {
		t.Fatalf("error = %v, health %v, want disk.ErrFull", err, db.Health())
	}
	trouble, _ := db.State()
	<-trouble
	fs.Set(nil)
	require.NoError(t, <-done)
	after := open(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	if _, closer, err := after.Get([]byte("a")); err != nil || closer.Close() != nil {
		t.Errorf("after a crash: %v", err)
	}
	for _, db := range []*disk.DB{db, after} {
		assert.NoError(t, db.Close(func() {}))
	}
}

// The disk becomes full while the owner makes its last writes.
func TestCloseGivesUpOverAFullDisk(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	db := open(t, fs)
	fs.Fill(0)
	for range 2 {
		err := db.Close(func() {
			assert.NoError(t, <-write(db, "a"))
		})
		assert.ErrorIs(t, err, disk.ErrFull)
	}
	fs.Set(nil)
	// A store that has given up does not recover.
	_, err := disk.Await(t.Context(), db, make(chan error))
	assert.ErrorIs(t, err, disk.ErrFull)
}

func TestAwaitPrefersTheOutcomeAndHeedsItsContext(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	db := open(t, fs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := disk.Await(ctx, db, make(chan error))
	assert.ErrorIs(t, err, context.Canceled)
	fs.Fill(0)
	_, err = disk.Await(t.Context(), db, write(db, "a"))
	assert.ErrorIs(t, err, disk.ErrFull)
	outcome := make(chan int, 1)
	outcome <- 7
	if n, err := disk.Await(t.Context(), db, outcome); n != 7 || err != nil {
		t.Errorf("Await = %d, %v, want the outcome that was there", n, err)
	}
	assert.ErrorIs(t, db.Close(func() {}), disk.ErrFull)
}

func TestADirectoryAndItsParentsSurviveACrash(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"a/b/c", "/a/b"} {
		mem := vfs.NewCrashableMem()
		require.NoError(t, errors.Join(disk.MakeDir(mem, dir), disk.MakeDir(mem, dir)))
		_, err := mem.CrashClone(vfs.CrashCloneCfg{}).Stat(dir)
		assert.NoError(t, err, "after a crash")
	}
}

func TestADirectoryIsOpenOnlyOnce(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	db := open(t, fs)
	_, err := openFormat(fs, disk.Format{})
	assert.ErrorIs(t, err, disk.ErrInUse)
	assert.NoError(t, db.Close(func() {}))
}

// sized is a file system of a given size.
type sized struct {
	vfs.FS
	free, total uint64
}

func (s sized) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: s.free, TotalBytes: s.total, UsedBytes: s.total - s.free}, nil
}

func TestLittleRoomIsNamedBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		free, total uint64
		low         bool
	}{
		{100 << 20, 120 << 20, true}, {400 << 20, 2 << 30, true}, {600 << 20, 2 << 30, false},
		{4 << 30, 50 << 30, true}, {6 << 30, 50 << 30, false}, {9 << 30, 10 << 40, true}, {11 << 30, 10 << 40, false},
	} {
		db := open(t, sized{vfs.NewMem(), tt.free, tt.total})
		err := db.Room()
		assert.Equalf(t, tt.low, err != nil, "%d of %d MiB free: %v", tt.free>>20, tt.total>>20, err)
		if s := db.Stats(); s.FreeBytes != tt.free || s.TotalBytes != tt.total || s.DiskBytes == 0 || s.MemtableBytes == 0 || s.NearlyFull != tt.low || s.Damaged {
			t.Errorf("stats %+v", s)
		}
		assert.NoError(t, db.Close(func() {}))
	}
}
