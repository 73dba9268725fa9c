package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"fanfare/internal/disk"
	"fanfare/internal/objects"
)

// chunk is the largest number of bytes that are read from a file at once.
const chunk = 1 << 20

// leastBase is the size that a checkpoint may have on a disk that is nearly full.
const leastBase = 16 << 20

// room returns an error if the disk is nearly full, and a checkpoint of this size is larger than leastBase: a checkpoint
// keeps files that compactions would delete.
func (k *Keeper) room(size int64) error {
	if size <= leastBase {
		return nil
	}
	return disk.RoomFor(k.FS, k.FS.PathDir(k.Dir), 0) //nolint:wrapcheck // the text names the directory
}

// files returns the sizes of the files that the archive has, by their hashes.
func (k *Keeper) files(ctx context.Context) (map[string]int64, error) {
	there := map[string]int64{}
	for object, err := range k.archive.store.List(ctx, filesPrefix, "") {
		if err != nil {
			return nil, err
		}
		there[fileHash(object.Name)] = object.Size
	}
	return there, nil
}

// sendFiles sends the files of the checkpoint that the archive does not have, and adds all files to
// the list of the base. It returns the number of bytes that it sent.
func (k *Keeper) sendFiles(ctx context.Context, b *Base) (sent int64, err error) {
	there, err := k.files(ctx)
	if err != nil {
		return 0, err
	}
	names, left, err := k.names("")
	if err != nil {
		return 0, err
	}
	k.size = left
	hashes := map[string]File{}
	for _, name := range names {
		if err := k.room(left); err != nil {
			return sent, err
		}
		f, n, err := k.sendFile(ctx, name, there)
		if err != nil {
			return sent, fmt.Errorf("send %s: %w", name, err)
		}
		if immutable(name) {
			hashes[name] = f
		}
		there[f.SHA256] = f.Bytes
		b.Files = append(b.Files, f)
		sent, left = sent+n, left-f.Bytes
	}
	k.hashes = hashes // without the files that compactions deleted
	return sent, nil
}

// names returns the files of the checkpoint below a directory, with slashes, and the sum of their sizes.
func (k *Keeper) names(dir string) (names []string, size int64, err error) {
	list, err := k.FS.List(k.path(dir))
	slices.Sort(list)
	for _, name := range list {
		name = path.Join(dir, name)
		info, statErr := k.FS.Stat(k.path(name))
		switch {
		case statErr != nil:
			return nil, 0, statErr
		case info.IsDir():
			below, more, err := k.names(name)
			if err != nil {
				return nil, 0, err
			}
			names, size = append(names, below...), size+more
		default:
			names, size = append(names, name), size+info.Size()
		}
	}
	return names, size, err
}

func (k *Keeper) path(name string) string { return k.FS.PathJoin(k.Dir, name) }

// immutable reports whether Pebble never changes a file and never uses its name again.
func immutable(name string) bool { return path.Ext(name) == ".sst" || path.Ext(name) == ".blob" }

// sendFile sends a file unless it is there, and removes it from the checkpoint, so that its room is
// free when the store has deleted it, too.
func (k *Keeper) sendFile(ctx context.Context, name string, there map[string]int64) (f File, sent int64, err error) {
	file, err := k.FS.Open(k.path(name))
	if err != nil {
		return f, 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), k.FS.Remove(k.path(name))) }()
	info, err := file.Stat()
	if err != nil {
		return f, 0, err
	}
	f, known := k.hashes[name]
	if !known || f.Bytes != info.Size() {
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(&slow{ctx, file, k.read}, 0, info.Size())); err != nil {
			return f, 0, err
		}
		f = File{Name: name, Bytes: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))}
	}
	if size, ok := there[f.SHA256]; ok && size == f.Bytes {
		return f, 0, nil
	}
	body := objects.Body{From: &slow{ctx, file, k.send}, Size: f.Bytes}
	if _, err := hex.Decode(body.SHA256[:], []byte(f.SHA256)); err != nil {
		return f, 0, err
	}
	err = k.patiently(ctx, func() error { return k.archive.store.Create(ctx, FileName(f.SHA256), body) })
	return f, f.Bytes, err
}

// slow reads a file at a limited rate.
type slow struct {
	ctx   context.Context //nolint:containedctx // the life of one file
	file  vfs.File
	limit *rate.Limiter
}

// ReadAt implements io.ReaderAt.
func (s *slow) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		next := min(chunk, len(p)-n)
		if err = s.limit.WaitN(s.ctx, next); err != nil {
			return n, err
		}
		next, err = s.file.ReadAt(p[n:n+next], at+int64(n))
		n += next
	}
	return n, err
}
