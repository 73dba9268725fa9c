// Package backup copies the files of a data directory that does not change into a new
// directory, and copies them back into an empty data directory.
// docs/decisions/0032-backup.md has the reasons.
//
// A backup is complete or does not exist (I5): the list of its files, with their sizes and
// checksums, is written last, when all files are on the disk. A restore refuses a directory
// without a list, and a file that differs from the list. A data directory that a restore
// has not filled completely cannot be opened. Package backup must never overwrite anything,
// and never depend on the contents of the stored data.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/strictjson"
)

// format is the format of the backups that this version writes. This version reads no newer format.
const format = 1

// listFile is the file that makes a directory a backup.
const listFile = "backup.json"

// Contents is the list of a backup.
type Contents struct {
	Format int `json:"format"`
	// DataFormat is the format of the data directory.
	DataFormat int `json:"data_format"`
	// MadeAt is the time of the data, and Version is the version of the program.
	MadeAt  time.Time `json:"made_at"`
	Version string    `json:"version"`
	Files   []File    `json:"files"`
}

// File is a file of a backup.
type File struct {
	// Name is the file's path in the backup and in the data directory, with slashes.
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the total size of all files.
func (c Contents) Bytes() (sum int64) {
	for _, f := range c.Files {
		sum += f.Bytes
	}
	return sum
}

// Source names the files that a backup copies.
type Source struct {
	// Dir is the data directory, which this process has open.
	Dir *datadir.Dir
	// Stores is the directory with the files of the table and the queue.
	Stores string
	// MadeAt and Version are copied to the Contents.
	MadeAt  time.Time
	Version string
}

// Prepare makes the directory of a backup, unless an empty directory exists. The directory
// must not be inside of the data directory data.
func Prepare(dir, data string) error {
	if in, err := within(data, dir); err != nil {
		return fmt.Errorf("backup directory %s: %w", dir, err)
	} else if in {
		return fmt.Errorf("%s is in the data directory: choose a directory elsewhere, best on another disk", dir)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := disk.MakeDir(nil, dir); err != nil {
			return fmt.Errorf("backup directory %s cannot be made: choose another: %w", dir, err)
		}
	case err != nil:
		return fmt.Errorf("backup directory %s: %w", dir, err)
	case len(entries) > 0:
		return fmt.Errorf("backup directory %s is not empty: choose a new one", dir)
	}
	return nil
}

// Write copies the source into the directory that Prepare made. If Write fails, it empties the directory.
func Write(ctx context.Context, dir string, s Source) (_ Contents, err error) {
	c := Contents{Format: format, DataFormat: s.Dir.Format(), MadeAt: s.MadeAt.UTC(), Version: s.Version}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("backup to %s: %w", dir, err), emptied(dir))
		}
	}()
	for _, store := range []string{datadir.Queue, datadir.Table} {
		if err := c.addStore(ctx, dir, s.Stores, store); err != nil {
			return c, err
		}
	}
	secret := s.Dir.Path(datadir.SecretFile)
	if _, err := os.Stat(secret); err == nil {
		if err := c.add(ctx, secret, dir, datadir.SecretFile); err != nil {
			return c, err
		}
	}
	if err := disk.SyncDir(nil, dir); err != nil {
		return c, err
	}
	list, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return c, err
	}
	return c, datadir.WriteFile(filepath.Join(dir, listFile), append(list, '\n'))
}

// addStore copies the files of a store. A store has no subdirectories.
func (c *Contents) addStore(ctx context.Context, dir, from, store string) error {
	entries, err := os.ReadDir(filepath.Join(from, store))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, store), 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == "LOCK" {
			continue
		}
		if err := c.add(ctx, filepath.Join(from, store, e.Name()), dir, store+"/"+e.Name()); err != nil {
			return err
		}
	}
	return disk.SyncDir(nil, filepath.Join(dir, store))
}

func (c *Contents) add(ctx context.Context, source, dir, name string) error {
	f, err := copyFile(ctx, source, filepath.Join(dir, filepath.FromSlash(name)))
	f.Name = name
	c.Files = append(c.Files, f)
	return err
}

// Read returns the list of the backup in dir, and refuses a list that this version cannot
// restore. It does not read the listed files.
func Read(dir string) (c Contents, err error) {
	text, err := readList(filepath.Join(dir, listFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s is no whole backup, for it has no %s: choose another", dir, listFile)
	}
	if err == nil {
		err = strictjson.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("the list of the backup %s cannot be read: choose another: %w", dir, err)
	}
	if err := disk.CheckFormat("backup "+dir, strconv.Itoa(c.Format), format); err != nil {
		return c, err
	}
	if err := datadir.CheckFormat("the data directory in "+dir, strconv.Itoa(c.DataFormat)); err != nil {
		return c, err
	}
	if len(c.Files) == 0 {
		return c, fmt.Errorf("the list of the backup %s has no files: choose another", dir)
	}
	for _, f := range c.Files {
		parent := path.Dir(f.Name)
		if f.Name != path.Clean(f.Name) || !slices.Contains([]string{datadir.Table, datadir.Queue}, parent) && f.Name != datadir.SecretFile {
			return c, fmt.Errorf("the list of the backup %s names %q, which is no file of a backup: choose another", dir, f.Name)
		}
	}
	for _, store := range []string{datadir.Table, datadir.Queue} {
		if err := disk.CheckStore(filepath.Join(dir, store)); err != nil {
			return c, fmt.Errorf("the %s in %s: %w", store, dir, err)
		}
	}
	return c, nil
}

// maxList is the maximum size of a backup's list, in bytes. This is enough for a million files.
const maxList = 256 << 20

func readList(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err == nil && len(text) > maxList {
		err = fmt.Errorf("it has more than %d bytes", maxList)
	}
	return text, err
}

// ErrRemains means that the caller refused to remove the remains of an earlier restore.
var ErrRemains = errors.New("nothing was restored: the directory has the remains of a restore that did not end")

// Restore copies the backup in dir into the data directory data, which must be new or empty.
// If data has the remains of an unfinished restore, Restore calls remove, and deletes the
// remains if remove returns nil. If Restore fails, the data directory is empty, or it stays
// half restored and cannot be opened.
func Restore(ctx context.Context, dir, data string, remove func(remains []string) error) (c Contents, err error) {
	if c, err = Read(dir); err != nil {
		return c, err
	}
	if in, err := within(dir, data); err != nil {
		return c, fmt.Errorf("data directory %s: %w", data, err)
	} else if in {
		return c, fmt.Errorf("data directory %s is in the backup: choose a directory elsewhere", data)
	}
	return c, Fill(data, remove, func(*datadir.Dir) error {
		if err := fill(ctx, dir, data, c); err != nil {
			return fmt.Errorf("restore of %s: %w", dir, err)
		}
		return nil
	})
}

// Fill calls fill to put the files of a data directory into data, which must be new or empty. If
// data has the remains of an unfinished restore, Fill calls remove, and deletes the remains if
// remove returns nil. If Fill fails, the data directory is empty, or it stays half restored and
// cannot be opened.
func Fill(data string, remove func(remains []string) error, fill func(*datadir.Dir) error) (err error) {
	to, remains, err := datadir.OpenEmpty(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if len(remains) > 0 {
		if err := remove(remains); err != nil {
			return fmt.Errorf("%w: %w", ErrRemains, err)
		}
		if err := emptied(data, remains...); err != nil {
			return err
		}
	}
	if err := fill(to); err != nil {
		made, listErr := to.Contents()
		if listErr == nil && len(made) > 0 {
			listErr = emptied(data, made...)
		}
		if listErr != nil {
			return errors.Join(err, listErr)
		}
		return errors.Join(err, to.Emptied())
	}
	return to.Filled()
}

// fill copies the files of a backup, and compares the copies with the list.
func fill(ctx context.Context, dir, data string, c Contents) error {
	for _, store := range []string{datadir.Table, datadir.Queue} {
		if err := os.Mkdir(filepath.Join(data, store), 0o700); err != nil {
			return err
		}
	}
	for _, want := range c.Files {
		name := filepath.FromSlash(want.Name)
		got, err := copyFile(ctx, filepath.Join(dir, name), filepath.Join(data, name))
		if err != nil {
			return err
		}
		if got.Bytes != want.Bytes || got.SHA256 != want.SHA256 {
			return fmt.Errorf("%s is damaged, for it differs from the list: choose another backup", want.Name)
		}
	}
	return errors.Join(disk.SyncDir(nil, filepath.Join(data, datadir.Table)), disk.SyncDir(nil, filepath.Join(data, datadir.Queue)), disk.SyncDir(nil, data))
}

// emptied removes the files with the given names from a directory. Without names it removes all files.
func emptied(dir string, names ...string) error {
	if len(names) == 0 {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// copyFile copies a file to a new file. When copyFile returns, the new file is on the disk.
func copyFile(ctx context.Context, source, target string) (_ File, err error) {
	in, err := os.Open(source)
	if err != nil {
		return File{}, err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return File{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), &reader{ctx, in})
	if err == nil {
		err = out.Sync()
	}
	return File{Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, errors.Join(err, out.Close())
}

// reader reads a file until ctx ends.
type reader struct {
	ctx context.Context //nolint:containedctx // the context of one copy
	io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
