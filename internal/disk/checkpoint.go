package disk

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint copies the store into the new directory dir: all writes that were answered before
// the call, and a prefix of the writes during the call, as after a crash. It links sorted files
// if possible, so dir must be on the store's own file system, and nothing may write to the
// linked files. The parent of dir exists and has only checkpoints. A failure, even for lack of
// room, affects only the caller: dir is removed, and the store continues to work. Only one
// checkpoint may be made at a time.
func (db *DB) Checkpoint(dir string) error {
	if err := db.Health(); err != nil {
		return err
	}
	c := &copying{around: db.disk.PathDir(dir)}
	db.disk.copies.Store(c)
	defer db.disk.copies.Store(nil)
	err := db.DB.Checkpoint(dir, pebble.WithFlushedWAL())
	if unsynced := c.unsynced.Load(); err == nil && unsynced != nil {
		err = errors.Join(*unsynced, db.disk.RemoveAll(dir))
	}
	return err
}

// copying is the state of a checkpoint while it is made.
type copying struct {
	around   string // the directory of checkpoints
	unsynced atomic.Pointer[error]
}

// openDir opens a directory of the checkpoint.
func (c *copying) openDir(fs vfs.FS, name string) (vfs.File, error) {
	f, err := fs.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &directory{f, func(err error) { c.unsynced.CompareAndSwap(nil, &err) }}, nil
}

// isCopy reports whether a file or directory belongs to a running checkpoint. The store itself
// does not need these files.
func (d *guard) isCopy(name string) bool {
	c := d.copies.Load()
	return c != nil && (name == c.around || strings.HasPrefix(name, c.around+"/"))
}
