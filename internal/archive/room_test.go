package archive_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects"
)

// filling is a disk of which less than a tenth is free once it is full.
type filling struct {
	vfs.FS
	full *atomic.Bool
}

func (f filling) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if f.full.Load() {
		return vfs.DiskUsage{AvailBytes: 9 << 30, TotalBytes: 100 << 30}, nil
	}
	return vfs.DiskUsage{AvailBytes: 50 << 30, TotalBytes: 100 << 30}, nil
}

// onFilling runs a test with a machine on a disk that fills up. The checkpoints of the machine have a file of this size.
func onFilling(t *testing.T, size int, test func(t *testing.T, o *office, full *atomic.Bool)) {
	t.Helper()
	full := &atomic.Bool{}
	full.Store(true)
	m := newMachine()
	m.during = func() { m.put("data/base", "table/large.sst", strings.Repeat("x", size)) }
	m.fs = filling{m.fs, full}
	inOfficeOf(t, m, func(t *testing.T, _ objects.Store, o *office) {
		sleep(5 * time.Minute)
		test(t, o, full)
		left, err := o.fs.List("data")
		require.NoError(t, err)
		assert.Empty(t, left, "the checkpoint is still there")
		sound(t, o.archive)
	})
}

// large is a disk of 2 TiB of which 150 GiB are free.
type large struct{ vfs.FS }

func (large) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 150 << 30, TotalBytes: 2 << 40}, nil
}

func TestALargeDiskNeedsNoTenth(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.during = func() { m.put("data/base", "table/large.sst", strings.Repeat("x", largeBase)) }
	m.fs = large{m.fs}
	inOfficeOf(t, m, func(t *testing.T, _ objects.Store, o *office) {
		sleep(5 * time.Minute)
		assert.Len(t, bases(t, o.archive), 1)
	})
}

const smallBase, largeBase = 15 << 20, 17 << 20

// A small data directory gets its base although the disk is nearly full.
func TestASmallBaseNeedsLittleRoom(t *testing.T) {
	t.Parallel()
	onFilling(t, smallBase, func(t *testing.T, o *office, _ *atomic.Bool) {
		assert.Len(t, bases(t, o.archive), 1)
	})
}

// A checkpoint keeps files that compactions would delete, so a large base waits for room on the disk. Once the keeper knows the
// size, it makes no checkpoint meanwhile.
func TestALargeBaseWaitsForRoom(t *testing.T) {
	t.Parallel()
	onFilling(t, largeBase, func(t *testing.T, o *office, full *atomic.Bool) {
		assert.Empty(t, bases(t, o.archive))
		assert.NotEmpty(t, o.logs.FilterMessageSnippet("cannot be kept").All())
		full.Store(false)
		sleep(2 * time.Hour)
		require.Len(t, bases(t, o.archive), 1)
		full.Store(true)
		made := o.made()
		o.write(baseLog)
		sleep(2 * time.Hour)
		assert.Equal(t, made, o.made(), "checkpoints")
		full.Store(false)
		sleep(2 * time.Hour)
		assert.Len(t, bases(t, o.archive), 2)
	})
}
