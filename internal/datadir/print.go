package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Print is the part of a data directory that a copy of its files lacks: the birth of its lock file, which Open makes once and no
// tool can copy, and where the directory was seen last.
type Print struct {
	// Born is the time of the birth of the lock file in nanoseconds since 1970, 0 if the file system does not keep it.
	Born int64 `json:"born"`
	// Inode is the number of the lock file in its file system, which has the number Device.
	Inode  uint64 `json:"inode"`
	Device uint64 `json:"device"`
	// Boot names the boot of the machine, empty if it is not known.
	Boot string `json:"boot"`
}

// Likeness is the result of a comparison of two prints.
type Likeness int

const (
	// Original means that the directory is the one that was printed.
	Original Likeness = iota
	// Alike means that the directory may be the printed one, after a boot or on another machine, or a copy of its whole disk.
	Alike
	// Copied means that the directory is a copy of the files of the printed one.
	Copied
)

// PrintOf returns the print of the data directory at path, nil before Open has made its lock file.
func PrintOf(path string) (*Print, error) {
	p, err := printOf(filepath.Join(path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a directory that no process has opened has no print
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	return &p, nil
}

// Compare compares a stored print with the present one. Without one of the two there is nothing to compare.
//
// A new boot, another device number and another number of the file decide nothing: each of them changes without a copy, and a copy of
// the whole disk keeps the birth.
func Compare(stored, now *Print) Likeness {
	switch {
	case stored == nil || now == nil:
		return Original
	case stored.Born != now.Born:
		return Copied
	case *stored == *now && now.Boot != "":
		return Original
	}
	return Alike
}
