// Package datadir owns the directory in which the embedded engine keeps its data. It makes
// the directory, holds the lock that excludes a second process, checks the format of the
// layout, keeps the secret that signs dev tokens, and marks a directory during a restore.
//
// Package datadir must never remove anything, and never read the directories of the table and the queue.
package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"fanfare/internal/disk"
)

// format is the format of the directory and of all data in the directory. This version
// writes and reads only this format. Development versions before v0.1.0 wrote lower formats.
// Later versions than v0.1.0 can read each format since v0.1.0.
const format = 2

// Names in the directory.
const (
	lockFile   = "LOCK"
	formatFile = "FORMAT"
)

// The directories of the stores, and the file of the secret. Together with the format, they
// are the whole state.
const (
	Table      = "table"
	Queue      = "queue"
	SecretFile = "dev-secret"
)

// restoring is the format of a directory while a restore fills it, so that no version reads
// its files as data.
const restoring = "restoring"

// Dir is a data directory that this process owns.
type Dir struct {
	path string
	lock *os.File
}

// Open takes the lock of the data directory at path, and makes the directory if it is
// missing. Errors of Open name the path and the remedy.
func Open(path string) (*Dir, error) {
	if err := disk.MakeDir(nil, path); err != nil {
		return nil, fmt.Errorf("data directory %s cannot be made: choose another: %w", path, err)
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Dir{path, lock}, nil
}

func takeLock(path string) (lock *os.File, err error) {
	lock, err = os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, notWritable(path, err)
	}
	// The lock belongs to the open file. So the lock also excludes a second instance in
	// this process, and it always ends with the process.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("data directory %s is in use by another process: stop that one, or choose another directory", path)
		} else {
			err = fmt.Errorf("data directory %s cannot be locked: %w", path, err)
		}
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// State is the state of a data directory.
type State struct {
	// Exists reports whether the directory exists. InUse reports whether a process has the directory open.
	Exists, InUse bool
}

// Look returns the state of the data directory at path, and changes nothing. It returns the
// same errors as Open, except for a directory in use.
func Look(path string) (State, error) {
	lock, err := os.Open(filepath.Join(path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, lookAbove(path)
	}
	if err != nil {
		return State{}, notWritable(path, err)
	}
	// A shared lock refuses only a start at the same moment.
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	state := State{Exists: true, InUse: errors.Is(err, syscall.EWOULDBLOCK)}
	if err := lock.Close(); err != nil { // the close also ends the lock
		return state, err
	}
	if err := syscall.Access(path, accessWrite); err != nil {
		return state, notWritable(path, err)
	}
	stored, err := readFormat(path)
	if err == nil && stored == restoring {
		err = halfRestored(path)
	} else if err == nil && stored != absent {
		err = CheckFormat("data directory "+path, stored)
	}
	return state, err
}

// accessWrite is W_OK of access(2).
const accessWrite = 2

// lookAbove returns an error if the data directory at path cannot be made.
func lookAbove(path string) error {
	at, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", path, err)
	}
	for {
		_, err := os.Stat(at)
		switch {
		case err == nil:
			if err := syscall.Access(at, accessWrite); err != nil {
				return notWritable(path, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return fmt.Errorf("data directory %s cannot be made: choose another: %w", path, err)
		}
		at = filepath.Dir(at)
	}
}

// Path returns the path of the file name in the directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Close releases the lock.
func (d *Dir) Close() error { return d.lock.Close() }

// Secret returns the secret that signs dev tokens. If there is no secret, Secret makes one.
func (d *Dir) Secret() ([]byte, error) {
	secret, err := ReadSecret(d.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = []byte(rand.Text() + rand.Text()) // 52 characters, at least 256 bits
	if err := WriteFile(d.Path(SecretFile), secret); err != nil {
		return nil, fmt.Errorf("data directory %s: the dev secret cannot be stored: %w", d.path, err)
	}
	return secret, nil
}

// ReadSecret returns the secret of the data directory at path, which may be in use.
func ReadSecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(filepath.Join(path, SecretFile))
	if err != nil {
		return nil, fmt.Errorf("data directory %s has no dev secret (fanfare up makes one): %w", path, err)
	}
	return secret, nil
}

// OpenEmpty opens a directory for a restore. It refuses a directory that is not empty,
// unless the files are the remains of an unfinished restore: then it returns their names.
// The directory cannot be opened as data until Filled was called.
func OpenEmpty(path string) (dir *Dir, remains []string, err error) {
	if err := disk.MakeDir(nil, path); err != nil {
		return nil, nil, fmt.Errorf("data directory %s cannot be made: choose another: %w", path, err)
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	stored, err := readFormat(path)
	if err != nil {
		return nil, nil, err
	}
	dir = &Dir{path, lock}
	if remains, err = dir.Contents(); err != nil {
		return nil, nil, err
	}
	if stored != restoring && (stored != absent || len(remains) > 0) {
		return nil, nil, fmt.Errorf("data directory %s is not empty: choose an empty one, or move that one away", path)
	}
	if err := WriteFile(filepath.Join(path, formatFile), []byte(restoring+"\n")); err != nil {
		return nil, nil, notWritable(path, err)
	}
	return dir, remains, nil
}

// Contents returns the names in the directory, without the files of package datadir itself.
func (d *Dir) Contents() (names []string, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.path, err)
	}
	for _, e := range entries {
		if name := e.Name(); name != lockFile && name != formatFile && name != formatFile+".tmp" && name != "lost+found" {
			names = append(names, name)
		}
	}
	return names, nil
}

// Filled marks the directory of OpenEmpty as a directory with data of this version's format.
func (d *Dir) Filled() error {
	if err := WriteFile(d.Path(formatFile), []byte(strconv.Itoa(format)+"\n")); err != nil {
		return notWritable(d.path, err)
	}
	return nil
}

// Emptied marks the directory of OpenEmpty as empty. Call Emptied after the remains were removed.
func (d *Dir) Emptied() error { return os.Remove(d.Path(formatFile)) }

// Format returns the format of the layout.
func (d *Dir) Format() int { return format }

// CheckFormat returns an error for data of a format that this version cannot read.
func CheckFormat(data, stored string) error {
	if n, err := strconv.Atoi(stored); err == nil && 0 < n && n < format {
		return fmt.Errorf("%s has format %d, which a development version before v0.1.0 wrote: choose a new directory", data, n)
	}
	return disk.CheckFormat(data, stored, format)
}

func checkFormat(path string) error {
	stored, err := readFormat(path)
	if err != nil {
		return err
	}
	if stored == restoring {
		return halfRestored(path)
	}
	if stored != absent {
		return CheckFormat("data directory "+path, stored)
	}
	if err := WriteFile(filepath.Join(path, formatFile), []byte(strconv.Itoa(format)+"\n")); err != nil {
		return notWritable(path, err)
	}
	return nil
}

// absent stands for the format of a new data directory.
const absent = "none"

// readFormat returns the stored format of the layout.
func readFormat(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(path, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	if err != nil {
		return "", fmt.Errorf("data directory %s: %w", path, err)
	}
	return strings.TrimSpace(string(text)), nil
}

func halfRestored(path string) error {
	return fmt.Errorf("data directory %s is half restored: run fanfare restore again, or choose another", path)
}

func notWritable(path string, err error) error {
	return fmt.Errorf("data directory %s is not writable: choose another, or let this user write to it: %w", path, err)
}

// WriteFile stores a file. After a crash the file is complete or absent.
func WriteFile(path string, data []byte) (err error) {
	tmp, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
