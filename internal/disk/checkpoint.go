package disk

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint copies the store into the new directory dir: all writes that were answered
// before the call, and a prefix of the writes during the call, as after a crash. It links
// sorted files if it can, so dir belongs on the store's own file system; nothing may write
// to these files. The parent of dir exists and holds only checkpoints. A failure, even for
// lack of room, affects only the caller: dir is removed, and the store continues. Only one
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

// copying is a checkpoint that is being made.
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

// isCopy reports whether a file or directory belongs to a running checkpoint: the store
// does not need it.
func (d *guard) isCopy(name string) bool {
	c := d.copies.Load()
	return c != nil && (name == c.around || strings.HasPrefix(name, c.around+"/"))
}
