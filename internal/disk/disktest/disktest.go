// Package disktest is a file system in trouble, for tests of what keeps data on a
// disk: it fails, fills up or holds up what is written to it.
package disktest

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Fault decides about an operation (mkdir, create, write or sync) on a file; size is
// that of a write.
type Fault func(op, name string, size int) error

// FS is a file system in trouble once it is told to be. Held, Gate holds up syncs.
type FS struct {
	vfs.FS
	Gate  sync.RWMutex
	fault atomic.Pointer[Fault]
}

// New returns fs without trouble.
func New(fs vfs.FS) *FS { return &FS{FS: fs} }

// Set makes operations fail as fault says; nil: none does.
func (fs *FS) Set(fault Fault) {
	if fault == nil {
		fs.fault.Store(nil)
		return
	}
	fs.fault.Store(&fault)
}

// Fill lets room more bytes be written, and then none.
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

// Write writes a part before it fails, as a disk that fills up does.
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
	if err := f.fs.check("sync", f.name, 0); err != nil {
		return err
	}
	return op()
}
