package sim

import (
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mostKept is the maximum number of bytes that a seed keeps on the disk of this machine.
const mostKept = 20 << 20

// sparse is a disk whose files take only the room of their content: Pebble takes 37 MB in advance for each log, which the restores of a seed do
// not need.
type sparse struct{ vfs.FS }

func (s sparse) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return sparseOf(s.FS.Create(name, category))
}

func (s sparse) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return sparseOf(s.FS.ReuseForWrite(from, to, category))
}

func sparseOf(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return sparseFile{f}, nil
}

type sparseFile struct{ vfs.File }

func (sparseFile) Preallocate(int64, int64) error { return nil }

// roomOf returns the number of bytes that the files of a directory take.
func roomOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += stat.Blocks * 512
		}
		return nil
	})
	return bytes, err
}
