package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
)

// logsDir has the logs of the base until the follower has applied them. Pebble would delete them
// when it opens the stores.
const logsDir = "base-logs"

// copiesAtOnce is the number of files that are copied at once, because most files are small and
// the store's answers are slow.
const copiesAtOnce = 8

// DamagedError means that an object of the archive differs from its hash.
type DamagedError struct {
	// Object is the name of the object. Name is its path in the data directory.
	Object, Name string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("object %s of the archive is damaged, which is the file %s: choose a time before this base or after the next one", e.Object, e.Name)
}

// copyFiles copies the files of a base to the directory, and compares them with their hashes. When
// it returns, the files are on the disk.
func copyFiles(ctx context.Context, a *archive.Archive, base archive.Base, dir *datadir.Dir, done func(int64)) error {
	for _, name := range []string{datadir.Queue, datadir.Table} {
		if err := errors.Join(disk.MakeDir(nil, dir.Path(name)), disk.MakeDir(nil, dir.Path(filepath.Join(logsDir, name)))); err != nil {
			return err
		}
	}
	to := make([]string, len(base.Files))
	for i, file := range base.Files {
		path, err := target(file.Name)
		if err != nil {
			return fmt.Errorf("base %s: %w", archive.BaseName(base.Term, base.First), err)
		}
		to[i] = dir.Path(path)
	}
	copies, ctx := errgroup.WithContext(ctx)
	copies.SetLimit(copiesAtOnce)
	for i, file := range base.Files {
		copies.Go(func() error { return copyFile(ctx, a, file, to[i], done) })
	}
	if err := copies.Wait(); err != nil {
		return err
	}
	for _, name := range []string{datadir.Queue, datadir.Table, filepath.Join(logsDir, datadir.Queue), filepath.Join(logsDir, datadir.Table)} {
		if err := disk.SyncDir(nil, dir.Path(name)); err != nil {
			return err
		}
	}
	return nil
}

// target returns the path of a file of a base in the directory. A base has the files of both
// stores and the secret, and nothing else: the state of the archive belongs to the directory that made the base.
func target(name string) (string, error) {
	store, file := path.Split(name)
	switch {
	case name == datadir.SecretFile:
		return name, nil
	case store != datadir.Queue+"/" && store != datadir.Table+"/" || file == "LOCK":
		return "", fmt.Errorf("its list names %q, which is no file of a base", name)
	case strings.HasSuffix(file, ".log"):
		return filepath.Join(logsDir, store, file), nil
	}
	return filepath.FromSlash(name), nil
}

func copyFile(ctx context.Context, a *archive.Archive, file archive.File, to string, done func(int64)) (err error) {
	object := archive.FileName(file.SHA256)
	body, err := a.Open(ctx, file)
	if err != nil {
		return fmt.Errorf("file %s: %w", file.Name, err)
	}
	defer body.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum, counter(done)), io.LimitReader(body, file.Bytes+1))
	if err != nil {
		return fmt.Errorf("file %s: %w", file.Name, err)
	}
	if n != file.Bytes || hex.EncodeToString(sum.Sum(nil)) != file.SHA256 {
		return &DamagedError{object, file.Name}
	}
	return out.Sync()
}

// counter is a writer that counts bytes.
type counter func(int64)

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c(int64(len(p)))
	return len(p), nil
}
