package disk

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MakeDir makes a directory and its parents, and syncs them, so that they survive a crash. If
// fs is nil, MakeDir uses the operating system's file system.
func MakeDir(fs vfs.FS, dir string) error {
	if fs == nil {
		fs = vfs.Default
	}
	if info, err := fs.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := MakeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return SyncDir(fs, parent)
}

// SyncDir brings the names in a directory to the disk: before, a power cut may undo that a file was made, renamed or removed. If
// fs is nil, SyncDir uses the operating system's file system.
func SyncDir(fs vfs.FS, dir string) error {
	if fs == nil {
		fs = vfs.Default
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadFile returns the content of a file.
func ReadFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// WriteFile stores a file that only its owner may read. After a crash the file is complete, and has the previous or the new content.
func WriteFile(fsys vfs.FS, path string, data []byte) error {
	return Replace(fsys, path, func(f io.Writer) error {
		_, err := f.Write(data)
		return err
	})
}

// Replace stores a file as WriteFile does, with the content that write writes.
func Replace(fsys vfs.FS, path string, write func(io.Writer) error) error {
	tmp := path + ".tmp"
	f, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = private(f)
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(tmp)) // a disk that is full needs the room
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return SyncDir(fsys, fsys.PathDir(path))
}

// private lets only the owner read a file.
func private(f vfs.File) error {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		return syscall.Fchmod(int(fd), 0o600)
	}
	return nil
}
