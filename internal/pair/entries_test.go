package pair_test

import (
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// entriesFS holds a lock while a process changes the entries of a directory, so that a death sees the entries of one moment. (And
// MemFS.Lock reads the mutex of its file system twice: a CrashClone between the two would wait for ever.)
type entriesFS struct {
	vfs.FS

	mu *sync.Mutex
}

func (f entriesFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.Create(name, category)
}

func (f entriesFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.ReuseForWrite(from, to, category)
}

func (f entriesFS) Link(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.Link(from, to)
}

func (f entriesFS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.Rename(from, to)
}

func (f entriesFS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.Remove(name)
}

func (f entriesFS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.RemoveAll(name)
}

func (f entriesFS) MkdirAll(name string, perm os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.MkdirAll(name, perm)
}

func (f entriesFS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FS.Lock(name)
}

// clone returns the machine's disk after a power loss, or, if all bytes are kept, after the death of the process alone.
func (m *machine) clone(kept int) *vfs.MemFS {
	m.Helper()
	m.entries.Lock()
	defer m.entries.Unlock()
	after := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: m.rng})
	if kept == 100 { // CrashClone brings removed entries back whose directory was not synced
		forget(m, m.mem, after, "data")
	}
	return after
}

// forget removes from a clone the entries that the file system itself does not have.
func forget(t require.TestingT, mem, clone *vfs.MemFS, dir string) {
	names, err := clone.List(dir)
	require.NoError(t, err)
	there, err := mem.List(dir)
	require.NoError(t, err)
	has := map[string]bool{}
	for _, name := range there {
		has[name] = true
	}
	for _, name := range names {
		path := clone.PathJoin(dir, name)
		info, err := clone.Stat(path)
		require.NoError(t, err)
		switch {
		case !has[name]:
			require.NoError(t, clone.RemoveAll(path))
		case info.IsDir():
			forget(t, mem, clone, path)
		}
	}
}
