package sim

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// mostKept is the maximum number of bytes that a seed keeps on the disk of this machine.
const mostKept = 20 << 20

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
