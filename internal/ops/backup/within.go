package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// within reports whether the directory inner is outer, or would be below outer. within
// compares files instead of paths, because a link or a mount gives a directory a second path.
func within(outer, inner string) (bool, error) {
	out, err := os.Stat(outer)
	if err != nil {
		return false, ignoreAbsent(err) // an absent directory contains nothing
	}
	at, err := existing(inner)
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(at); err != nil {
			break
		}
		if same := os.SameFile(out, info); same || at == filepath.Dir(at) {
			return same, nil
		}
		at = filepath.Dir(at)
	}
	return false, err
}

// existing returns the path of a directory without links. If the directory does not exist,
// existing returns the path of its lowest parent that exists.
func existing(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	for err == nil {
		var found string
		if found, err = filepath.EvalSymlinks(at); err == nil {
			return found, nil
		}
		if at == filepath.Dir(at) {
			break
		}
		at, err = filepath.Dir(at), ignoreAbsent(err)
	}
	return "", err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
