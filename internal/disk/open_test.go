package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

// crashed returns the files of a store that ended without Close, with 100 keys in its log.
func crashed(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	db := open(t, mem)
	for i := range 100 {
		require.NoError(t, db.Set(fmt.Appendf(nil, "key%d", i), bytes.Repeat(fmt.Append(nil, i), 1000), pebble.Sync))
	}
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, db.Close(func() {}))
	return after
}

type opened struct {
	db  *disk.DB
	err error
}

// reopen opens the store in the background. The channel delivers the outcome; the logs are what Open logs.
func reopen(fs vfs.FS, stop <-chan struct{}) (<-chan opened, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	done := make(chan opened, 1)
	go func() {
		db, err := disk.Open(stop, "data", zap.New(core), &pebble.Options{FS: fs}, disk.Format{Key: []byte("format"), Known: 1})
		done <- opened{db, err}
	}()
	return done, logs
}

// The disk becomes full at any point of the recovery. Pebble writes its log, a sorted file and
// the manifest on several goroutines.
func TestOpenOnAFullDiskSaysSoOnceAndGoesOnWithRoom(t *testing.T) {
	t.Parallel()
	for room := int64(0); room <= 20_000; room += 1250 {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			t.Parallel()
			fs := disktest.New(crashed(t))
			var left, refused atomic.Int64
			left.Store(room)
			fs.Set(func(op, _ string, size int) error {
				if op == "create" && left.Load() <= 0 || op == "write" && left.Add(-int64(size)) < 0 {
					refused.Add(1)
					return syscall.ENOSPC
				}
				return nil
			})
			done, logs := reopen(fs, nil)
			var got opened
			disktest.Until(t, func() bool {
				select {
				case got = <-done:
				default:
				}
				return got.db != nil || got.err != nil || refused.Load() >= 4
			})
			full := logs.FilterMessage("cannot answer writes")
			if refused.Load() >= 4 && (full.Len() != 1 || !strings.Contains(fmt.Sprint(full.All()[0].ContextMap()), disk.ErrFull.Error())) || logs.Len() > 1 {
				t.Errorf("the log: %+v, want one line for the full disk", logs.All())
			}
			fs.Set(nil)
			if got.db == nil && got.err == nil {
				got = <-done
			}
			require.NoError(t, got.err)
			for i := range 100 {
				value, closer, err := got.db.Get(fmt.Appendf(nil, "key%d", i))
				if err != nil || !bytes.Equal(value, bytes.Repeat(fmt.Append(nil, i), 1000)) {
					t.Fatalf("key%d: %d bytes, %v", i, len(value), err)
				}
				assert.NoError(t, closer.Close())
			}
			disktest.Until(t, func() bool { return got.db.Health() == nil })
			assert.NoError(t, got.db.Close(func() {}))
		})
	}
}

func TestAStopEndsAnOpenThatWaitsForRoom(t *testing.T) {
	t.Parallel()
	fs := disktest.New(crashed(t))
	fs.Fill(14_000)
	stop := make(chan struct{})
	done, logs := reopen(fs, stop)
	disktest.Until(t, func() bool { return logs.Len() > 0 })
	close(stop)
	if got := <-done; !errors.Is(got.err, disk.ErrFull) || strings.Contains(got.err.Error(), "\n") {
		t.Errorf("Open: %v, want one line of disk.ErrFull", got.err)
	}
}

// A disk that fails for a reason other than room ends Open with the disk's error, even if
// Pebble gets the error on a goroutine of its own.
func TestOpenOnAFailingDiskReturnsItsError(t *testing.T) {
	t.Parallel()
	for _, file := range []string{".sst", "MANIFEST", ".log"} {
		for _, op := range []string{"create", "write", "sync"} {
			t.Run(op+" "+file, func(t *testing.T) {
				t.Parallel()
				fs := disktest.New(crashed(t))
				fs.Set(func(o, name string, _ int) error {
					if o == op && strings.Contains(name, file) {
						return syscall.EIO
					}
					return nil
				})
				done, _ := reopen(fs, nil)
				got := <-done
				if got.err == nil { // the first write of a new log is made by a caller
					got.err = errors.Join(got.db.Health(), got.db.Close(func() {}))
					if file == ".log" && got.err == nil {
						return
					}
				}
				assert.ErrorContains(t, got.err, syscall.EIO.Error())
			})
		}
	}
}

// Pebble panics if it cannot sync its directory. Open returns an error instead.
func TestOpenOfADirectoryThatDoesNotSyncFails(t *testing.T) {
	t.Parallel()
	for _, stored := range []func() vfs.FS{func() vfs.FS { return vfs.NewMem() }, func() vfs.FS { return crashed(t) }} {
		for n, failed := 0, true; failed; n++ {
			bad := disktest.New(stored())
			var syncs atomic.Int64 // Pebble removes files beside its start
			bad.Set(func(op, name string, _ int) error {
				if op == "sync" && name == "data" && syncs.Add(1) > int64(n) {
					return syscall.EIO
				}
				return nil
			})
			done, _ := reopen(bad, nil)
			o := <-done
			bad.Set(nil) // Close syncs the directory, too
			if o.err == nil {
				o.err = o.db.Close(func() {}) // fails if Pebble's own goroutine met the fault after Open returned
			}
			if failed = o.err != nil; !failed {
				require.Positive(t, n, "no sync failed")
				continue
			}
			require.ErrorIs(t, o.err, disk.ErrFailed)
		}
	}
}
