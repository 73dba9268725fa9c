// Package datadir owns the directory in which the embedded engine keeps its data. It makes
// the directory, holds the lock that excludes a second process, checks the format of the
// layout, keeps the secret that signs dev tokens, and marks a directory during a restore. It also knows whether
// the directory must have its stores already: only a directory in which nothing was answered yet may get new ones.
//
// Package datadir must never remove anything, and never read the contents of the table and the queue.
package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
)

// format is the format of all data in the directory, and of their copies. This version
// writes and reads only this format. Development versions before v0.1.0 wrote lower formats.
// Later versions than v0.1.0 can read each format since v0.1.0.
const format = 2

// layout is the format of the directory itself. Since layout 3, each store has a list of the files that it needs
// (package disk), which an older version would not keep. v0.1.0 wrote layout 2.
const layout = 3

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

// making is the format of a directory in which no store has answered anything yet. Its stores may be absent or
// unfinished.
const making = "making"

// restoring is the format of a directory while a restore fills it, so that no version reads
// its files as data.
const restoring = "restoring"

// Dir is a data directory that this process owns.
type Dir struct {
	fs    vfs.FS
	path  string
	lock  io.Closer
	isNew bool
}

// Open takes the lock of the data directory at path, and makes the directory if it is
// missing. Errors of Open name the path and the remedy.
func Open(path string) (*Dir, error) { return OpenOn(vfs.Default, path) }

// OpenOn is Open on a file system.
func OpenOn(fs vfs.FS, path string) (*Dir, error) {
	if err := disk.MakeDir(fs, path); err != nil {
		return nil, fmt.Errorf("data directory %s cannot be made: choose another: %w", path, err)
	}
	lock, err := takeLock(fs, path)
	if err != nil {
		return nil, err
	}
	d := &Dir{fs: fs, path: path, lock: lock}
	if err := d.checkFormat(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func takeLock(on vfs.FS, path string) (io.Closer, error) {
	if on != vfs.Default {
		return on.Lock(on.PathJoin(path, lockFile))
	}
	file, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, notWritable(path, err)
	}
	lock := fileLock{file}
	// The lock belongs to the open file. So the lock also excludes a second instance in
	// this process, and it always ends with the process.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("data directory %s is in use by another process: stop that one, or choose another directory with --data-dir", path)
		} else {
			err = fmt.Errorf("data directory %s cannot be locked: %w", path, err)
		}
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// fileLock is an open file with a lock of flock(2).
type fileLock struct{ *os.File }

// Close ends the lock, and closes the file. A program that this process starts has the same open file until its exec, so
// the lock would outlive a file that is only closed.
func (l fileLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// IsNew reports whether the stores of the directory may be created: no process has finished its start with them yet.
func (d *Dir) IsNew() bool { return d.isNew }

// Made notes that both stores are there. Call it before a write to a store is answered. From then on an absent file is damage.
func (d *Dir) Made() error {
	if !d.isNew {
		return nil
	}
	if err := d.setFormat(strconv.Itoa(layout)); err != nil {
		return err
	}
	d.isNew = false
	return nil
}

func (d *Dir) setFormat(format string) error {
	if err := disk.WriteFile(d.fs, d.Path(formatFile), []byte(format+"\n")); err != nil {
		return notWritable(d.path, err)
	}
	return nil
}

// State is the state of a data directory.
type State struct {
	// Exists reports whether the directory exists. InUse reports whether a process has the directory open.
	Exists, InUse bool
}

// Look returns the state of the data directory at path, and changes nothing. It returns the
// same errors as Open, except for a directory in use.
func Look(path string) (State, error) {
	file, err := os.Open(filepath.Join(path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, lookAbove(path)
	}
	if err != nil {
		return State{}, notWritable(path, err)
	}
	lock := fileLock{file}
	// A shared lock refuses only a start at the same moment.
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	state := State{Exists: true, InUse: errors.Is(err, syscall.EWOULDBLOCK)}
	if err := lock.Close(); err != nil {
		return state, err
	}
	if err := syscall.Access(path, accessWrite); err != nil {
		return state, notWritable(path, err)
	}
	stored, err := readFormat(vfs.Default, path)
	if err == nil {
		err = checkLayout(path, stored)
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

// secretBytes is the length of the secret: two texts of rand.Text, at least 256 bits.
const secretBytes = 52

// Secret returns the secret that signs dev tokens. If there is no secret, Secret makes one.
func (d *Dir) Secret() ([]byte, error) {
	secret, err := readSecret(d.fs, d.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = []byte(rand.Text() + rand.Text())
	if err := disk.WriteFile(d.fs, d.Path(SecretFile), secret); err != nil {
		return nil, fmt.Errorf("data directory %s: the dev secret cannot be stored: %w", d.path, err)
	}
	return secret, nil
}

// ReadSecret returns the secret of the data directory at path, which may be in use.
func ReadSecret(path string) ([]byte, error) { return readSecret(vfs.Default, path) }

func readSecret(fs vfs.FS, path string) ([]byte, error) {
	secret, err := disk.ReadFile(fs, fs.PathJoin(path, SecretFile))
	if err != nil {
		return nil, fmt.Errorf("data directory %s has no dev secret: name the directory of fanfare up with --data-dir or FANFARE_DATA_DIR (fanfare up makes the secret): %w", path, err)
	}
	if len(secret) != secretBytes { // a part of a secret can be guessed
		return nil, fmt.Errorf("data directory %s: %s has %d bytes of %d: bring the file back, or remove it, and fanfare up makes another one, which ends all dev tokens", path, SecretFile, len(secret), secretBytes)
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
	lock, err := takeLock(vfs.Default, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	stored, err := readFormat(vfs.Default, path)
	if err != nil {
		return nil, nil, err
	}
	dir = &Dir{fs: vfs.Default, path: path, lock: lock}
	if remains, err = dir.Contents(); err != nil {
		return nil, nil, err
	}
	if stored != restoring && (stored != absent || len(remains) > 0) {
		return nil, nil, fmt.Errorf("data directory %s is not empty: choose an empty one, or move that one away", path)
	}
	return dir, remains, dir.setFormat(restoring)
}

// Contents returns the names in the directory, without the files of package datadir itself.
func (d *Dir) Contents() (names []string, err error) {
	list, err := d.fs.List(d.path)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.path, err)
	}
	slices.Sort(list)
	for _, name := range list {
		if name != lockFile && name != formatFile && name != formatFile+".tmp" && name != "lost+found" {
			names = append(names, name)
		}
	}
	return names, nil
}

// Filled marks the directory of OpenEmpty as a directory with data of this version's format. Both stores must be there. A store that was opened
// meanwhile has a list with the sums of its logs.
func (d *Dir) Filled() error {
	if err := d.adopt(disk.AdoptUnlisted); err != nil {
		return err
	}
	return d.setFormat(strconv.Itoa(layout))
}

// adopt makes the lists of the stores.
func (d *Dir) adopt(by func(fs vfs.FS, dir string) error) error {
	for _, store := range []string{Table, Queue} {
		if err := by(d.fs, d.Path(store)); err != nil {
			return fmt.Errorf("data directory %s: %w", d.path, err)
		}
	}
	return nil
}

// Emptied marks the directory of OpenEmpty as empty. Call Emptied after the remains were removed.
func (d *Dir) Emptied() error { return d.fs.Remove(d.Path(formatFile)) }

// Format returns the format of the data.
func (d *Dir) Format() int { return format }

// CheckFormat returns an error for data of a format that this version cannot read.
func CheckFormat(data, stored string) error {
	if n, err := strconv.Atoi(stored); err == nil && 0 < n && n < format {
		return fmt.Errorf("%s has format %d, which a development version before v0.1.0 wrote: choose a new directory", data, n)
	}
	return disk.CheckFormat(data, stored, format)
}

// checkLayout returns an error for a directory that this version cannot open.
func checkLayout(path, stored string) error {
	switch stored {
	case absent, making, strconv.Itoa(format):
		return nil
	case restoring:
		return halfRestored(path)
	case "1":
		return CheckFormat("data directory "+path, stored)
	default:
		return disk.CheckFormat("data directory "+path, stored, layout)
	}
}

// checkFormat checks the format of the layout. It makes an empty directory a new one, and takes over a directory of
// v0.1.0, which must have both stores.
func (d *Dir) checkFormat() error {
	stored, err := readFormat(d.fs, d.path)
	if err == nil {
		err = checkLayout(d.path, stored)
	}
	if err != nil {
		return err
	}
	switch stored {
	case making:
		d.isNew = true
	case strconv.Itoa(format):
		if err := d.adopt(disk.Adopt); err != nil { // an interrupted start may have left a list that v0.1.0 did not keep
			return err
		}
		return d.setFormat(strconv.Itoa(layout))
	case absent:
		names, err := d.Contents()
		if err != nil {
			return err
		}
		for _, name := range names {
			if slices.Contains(state(), name) {
				return &disk.DamageError{Name: d.Path(formatFile), Reason: "is absent, though the directory has a " + name}
			}
		}
		d.isNew = true
		return d.setFormat(making)
	}
	return nil
}

// state returns the names that only a directory with a FORMAT has.
func state() []string { return []string{Table, Queue, "ROLE", "archive.json"} }

// absent stands for the format of a new data directory.
const absent = "none"

// readFormat returns the stored format of the layout.
func readFormat(on vfs.FS, path string) (string, error) {
	text, err := disk.ReadFile(on, on.PathJoin(path, formatFile))
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

// WriteFile stores a file. After a crash the file is complete, and has the previous or the new content.
func WriteFile(path string, data []byte) error { return disk.WriteFile(vfs.Default, path, data) }
