package disk

import (
	"strings"

	"github.com/cockroachdb/pebble/v2"
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
	around := db.disk.PathDir(dir)
	db.disk.copies.Store(&around)
	defer db.disk.copies.Store(nil)
	return db.DB.Checkpoint(dir, pebble.WithFlushedWAL())
}

// isCopy reports whether a file or directory belongs to a running checkpoint: the store
// does not need it.
func (d *guard) isCopy(name string) bool {
	around := d.copies.Load()
	return around != nil && (name == *around || strings.HasPrefix(name, *around+"/"))
}
