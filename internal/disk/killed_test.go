package disk_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// killedFS takes a copy of a store before and after each change of its names: what kill -9 leaves at that moment. changing is held during a
// change, so the names of a copy are of one moment.
type killedFS struct {
	vfs.FS
	t        *testing.T
	changing sync.Mutex
	answered int // the number of the keys whose writes were answered
	images   []killed
}

type killed struct {
	fs       vfs.FS
	answered int
	when     string
}

// change makes a change of names.
func (k *killedFS) change(what string, change func() error) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	k.take("before " + what)
	err := change()
	k.take("after " + what)
	return err
}

func (k *killedFS) take(when string) {
	image := vfs.NewMem()
	answered := k.answered
	if _, err := vfs.Clone(k.FS, image, "db", "db"); assert.NoError(k.t, err) {
		k.images = append(k.images, killed{image, answered, when})
	}
}

func (k *killedFS) Remove(name string) error {
	return k.change("the removal of "+name, func() error { return k.FS.Remove(name) })
}

func (k *killedFS) Rename(from, to string) error {
	return k.change("the rename of "+from, func() error { return k.FS.Rename(from, to) })
}

func (k *killedFS) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = k.change("the creation of "+name, func() error {
		f, err = k.FS.Create(name, category)
		return err
	})
	return f, err
}

func (k *killedFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = k.change("the reuse of "+from, func() error {
		f, err = k.FS.ReuseForWrite(from, to, category)
		return err
	})
	return f, err
}

// set writes a key, and notes the answer.
func (k *killedFS) set(db interface {
	Set(key, value []byte, o *pebble.WriteOptions) error
},
) {
	require.NoError(k.t, db.Set(fmt.Appendf(nil, "key %d", k.answered), []byte("answered"), pebble.Sync))
	k.changing.Lock()
	defer k.changing.Unlock()
	k.answered++
}

// A store that was killed at any moment starts, with each answered write: it gives no log up that its list still names, and its list names no
// file that is not there yet.
func TestAStoreStartsWheneverItWasKilled(t *testing.T) {
	t.Parallel()
	fs := &killedFS{FS: vfs.NewMem(), t: t}
	require.NoError(t, fs.MkdirAll("db", 0o700))
	for _, exists := range []bool{false, true, true} {
		db, err := openExisting(fs, exists)
		require.NoError(t, err)
		for range storedKeys {
			fs.set(db)
			require.NoError(t, db.Flush())
		}
		fs.set(db) // only the log has it
		require.NoError(t, db.Close(func() {}))
	}
	fs.changing.Lock() // Pebble removes files in the background
	images := fs.images
	fs.changing.Unlock()
	for _, image := range images {
		db, err := openExisting(image.fs, image.answered > 0)
		require.NoError(t, err, image.when)
		for i := range image.answered {
			_, closer, err := db.Get(fmt.Appendf(nil, "key %d", i))
			require.NoError(t, err, "%s: key %d", image.when, i)
			require.NoError(t, closer.Close())
		}
		require.NoError(t, db.Close(func() {}))
	}
}
