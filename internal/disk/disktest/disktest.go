// Package disktest helps to test stores. On request its file system fails, becomes full or
// delays syncs. The product must never import the package.
package disktest

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// Fault returns the error of an operation (mkdir, create, write or sync) on a file, nil
// for none. size is the number of bytes of a write.
type Fault func(op, name string, size int) error

// ErrLie is the error with which a Fault makes a sync do nothing and report success.
var ErrLie = errors.New("the disk reports a sync that it did not make")

// FS is a file system whose operations fail as Set requires. While a test holds Gate, syncs
// wait for the release of Gate.
type FS struct {
	vfs.FS
	Gate  sync.RWMutex
	fault atomic.Pointer[Fault]
}

// New returns an FS on fs that does not fail yet.
func New(fs vfs.FS) *FS { return &FS{FS: fs} }

// Set makes operations fail with the errors of fault. If fault is nil, no operation fails.
func (fs *FS) Set(fault Fault) {
	if fault == nil {
		fs.fault.Store(nil)
		return
	}
	fs.fault.Store(&fault)
}

// Fail makes the given operations fail with err.
func (fs *FS) Fail(err error, ops ...string) {
	fs.Set(func(op, _ string, _ int) error {
		if slices.Contains(ops, op) {
			return err
		}
		return nil
	})
}

// Fill makes the file system accept room more bytes, and then no more.
func (fs *FS) Fill(room int64) {
	var left atomic.Int64
	left.Store(room)
	fs.Set(func(op, _ string, size int) error {
		if op == "create" && left.Load() <= 0 || op == "write" && left.Add(-int64(size)) < 0 {
			return syscall.ENOSPC
		}
		return nil
	})
}

func (fs *FS) check(op, name string, size int) error {
	if fault := fs.fault.Load(); fault != nil {
		return (*fault)(op, name, size)
	}
	return nil
}

func (fs *FS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: f, fs: fs, name: name}, nil
}

// Create implements vfs.FS.
func (fs *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.check("create", name, 0); err != nil {
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	return fs.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (fs *FS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.check("create", newname, 0); err != nil {
		return nil, err
	}
	f, err := fs.FS.ReuseForWrite(oldname, newname, c)
	return fs.wrap(newname, f, err)
}

// OpenDir implements vfs.FS.
func (fs *FS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	return fs.wrap(name, f, err)
}

// MkdirAll implements vfs.FS.
func (fs *FS) MkdirAll(dir string, perm os.FileMode) error {
	if err := fs.check("mkdir", dir, 0); err != nil {
		return err
	}
	return fs.FS.MkdirAll(dir, perm)
}

type file struct {
	vfs.File
	fs   *FS
	name string
}

// Write writes half of p before it fails, as a disk that fills up may do.
func (f *file) Write(p []byte) (int, error) {
	if err := f.fs.check("write", f.name, len(p)); err != nil {
		n, werr := f.File.Write(p[:len(p)/2])
		return n, errors.Join(err, werr)
	}
	return f.File.Write(p)
}

func (f *file) Sync() error     { return f.sync(f.File.Sync) }
func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

func (f *file) sync(op func() error) error {
	f.fs.Gate.RLock()
	defer f.fs.Gate.RUnlock()
	err := f.fs.check("sync", f.name, 0)
	switch {
	case errors.Is(err, ErrLie):
		return nil
	case err != nil:
		return err
	}
	return op()
}

// Until polls until done returns true, while a store does its background work.
func Until(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the condition did not come true within two minutes")
		}
	}
}

// Unzip returns a new directory with the files of a zip archive.
func Unzip(t *testing.T, archive string) (dir string) {
	t.Helper()
	files, err := zip.OpenReader(archive)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, errors.Join(os.CopyFS(dir, files), files.Close()))
	return dir
}

// Damage is one flipped bit of a file, or a cut of its end.
type Damage struct {
	File     string
	At, Size int
	Cut      bool
}

// LooksTorn reports whether a log with this damage looks like a log after a power cut: the
// log was cut, or is damaged in its last two blocks. Pebble then continues without the end
// of the log.
func (d Damage) LooksTorn() bool {
	const block = 32 << 10
	return strings.HasSuffix(d.File, ".log") && (d.Cut || d.At/block >= (d.Size-1)/block-1)
}

// EachDamage calls check with a copy of dir for each damage: one flipped bit at several places
// of each file, and each file cut at its blocks. The number of places is bounded, with -short
// to six. check returns the outcome, and EachDamage logs how often each outcome occurred for a
// file.
func EachDamage(t *testing.T, fs vfs.FS, dir string, check func(vfs.FS, Damage) (outcome string)) {
	t.Helper()
	places := 1000
	if testing.Short() {
		places = 6
	}
	names, err := fs.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		data := readAll(t, fs, path)
		outcomes := map[string]int{}
		damage := func(at int, data []byte, cut bool, size int) {
			copied := vfs.NewMem()
			if _, err := vfs.Clone(fs, copied, dir, dir); err != nil {
				t.Fatal(err)
			}
			Write(t, copied, path, data)
			outcomes[check(copied, Damage{name, at, size, cut})]++
		}
		for i := range min(places, len(data)) {
			at := len(data) * i / min(places, len(data))
			flipped := slices.Clone(data)
			flipped[at] ^= 1 << (i % 8)
			damage(at, flipped, false, len(data))
		}
		const block = 4096
		for end := 0; end < len(data); end += max(block, len(data)/places/block*block) {
			damage(end, data[:end], true, len(data))
		}
		t.Log(name, outcomes)
	}
}

// Read returns the content of a file.
func Read(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

func readAll(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	data, err := Read(fs, path)
	require.NoError(t, err)
	return data
}

// Write writes a file, which outlives a power cut.
func Write(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, "test")
	require.NoError(t, err)
	_, err = f.Write(slices.Clone(data)) // with the tag invariants a vfs.MemFS changes the bytes that it gets
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	dir, err := fs.OpenDir(fs.PathDir(path))
	require.NoError(t, err)
	require.NoError(t, errors.Join(dir.Sync(), dir.Close()))
}
