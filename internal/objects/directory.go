package objects

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
)

// draftsDir is the directory of the files that do not have the name of an object yet. It also
// shows that the disk of the store is mounted: the mount point of an unmounted disk has no such
// directory.
const draftsDir = ".drafts"

// draftKept is the age from which a draft belongs to a process that died.
const draftKept = 24 * time.Hour

// errDamaged means that a body changed after its hash was computed.
var errDamaged = errors.New("the content differs from its SHA-256")

// Directory is a store in a directory. A file is synced before it gets its name by a hard link.
// The link is atomic, and fails if the name is taken.
type Directory struct {
	fs   vfs.FS
	root string

	mu    sync.Mutex
	ready map[string]bool // directories that are on the disk, with all their parents
}

var _ Store = (*Directory)(nil)

// OpenDirectory opens the store in a directory, which must exist: an unmounted disk must not
// look like an empty store.
func OpenDirectory(fs vfs.FS, root string) (*Directory, error) {
	if info, err := fs.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is no directory: make it, or mount its disk", ErrRefused, root)
	}
	d := &Directory{fs: fs, root: root, ready: map[string]bool{}}
	if err := disk.MakeDir(fs, d.path(draftsDir)); err != nil {
		return nil, fmt.Errorf("directory %s: %w", root, d.failed(context.Background(), "make", draftsDir, err))
	}
	return d, d.sweep()
}

// sweep removes old drafts.
func (d *Directory) sweep() error {
	names, err := d.fs.List(d.path(draftsDir))
	for _, name := range names {
		draft := d.path(draftsDir, name)
		if info, statErr := d.fs.Stat(draft); statErr == nil && time.Since(info.ModTime()) > draftKept {
			err = errors.Join(err, d.fs.Remove(draft))
		}
	}
	return err
}

func (d *Directory) path(elements ...string) string {
	return d.fs.PathJoin(append([]string{d.root}, elements...)...)
}

// Create implements Store.
func (d *Directory) Create(ctx context.Context, name string, body Body) error {
	if err := errors.Join(checkName(name), context.Cause(ctx)); err != nil {
		return err
	}
	draft := d.path(draftsDir, rand.Text())
	defer d.fs.Remove(draft) //nolint:errcheck // sweep removes a draft that stays
	err := d.write(draft, body)
	if err == nil {
		err = d.name(draft, name)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return exists(ctx, d, name, body)
	case errors.Is(err, errDamaged):
		return fmt.Errorf("create %s: %w", name, err)
	case err != nil:
		return d.failed(ctx, "create", name, err)
	}
	return nil
}

// write writes a file and syncs it.
func (d *Directory) write(file string, body Body) error {
	f, err := d.fs.Create(file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(sum, f), body.reader())
	if err == nil && [sha256.Size]byte(sum.Sum(nil)) != body.SHA256 {
		err = errDamaged
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// name gives a draft its name. The directory is synced even if the name is taken: the process
// that took the name may have died before its own sync, and from now on the caller relies on
// the object.
func (d *Directory) name(draft, name string) error {
	dir := path.Dir(name)
	if err := d.makeDir(dir); err != nil {
		return err
	}
	err := d.fs.Link(draft, d.path(name))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the disk of the directory needs hard links: %w", err)
	}
	return errors.Join(err, disk.SyncDir(d.fs, d.path(dir)))
}

// makeDir makes a directory, and syncs the directory and its parents. Even an existing
// directory is synced, because the process that made it may have died before its sync.
func (d *Directory) makeDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dir == "." || d.ready[dir] {
		return nil
	}
	// The disk may have gone since the draft was written: without its root, an archive would begin again.
	if _, err := d.fs.Stat(d.path(draftsDir)); err != nil {
		return err
	}
	if err := d.fs.MkdirAll(d.path(dir), 0o700); err != nil {
		return err
	}
	for at := dir; at != "."; at = path.Dir(at) {
		if err := disk.SyncDir(d.fs, d.path(path.Dir(at))); err != nil {
			return err
		}
	}
	d.ready[dir] = true
	return nil
}

// Get implements Store.
func (d *Directory) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := errors.Join(checkName(name), context.Cause(ctx)); err != nil {
		return nil, err
	}
	f, err := d.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.there(ctx, "get", name); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("get %s: %w", name, ErrNotThere)
	}
	if err != nil {
		return nil, d.failed(ctx, "get", name, err)
	}
	return &content{ctx: ctx, ReadCloser: f, name: name, kind: d.kind}, nil
}

// errIrregular means that a name belongs to no object: the open of a FIFO would wait for ever, and a device has no end.
var errIrregular = errors.New("it is no regular file: remove it")

// open opens the file of an object. Others may write to the disk of a store, so the file is looked at before it is opened, and again
// afterwards.
func (d *Directory) open(name string) (vfs.File, error) {
	info, err := d.fs.Stat(d.path(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// there returns an error if the disk of the store is not mounted.
func (d *Directory) there(ctx context.Context, call, name string) error {
	if _, err := d.fs.Stat(d.path(draftsDir)); err != nil {
		return failed(ctx, ErrAway, call, name, fmt.Errorf("mount the disk: %w", err))
	}
	return nil
}

// List implements Store.
func (d *Directory) List(ctx context.Context, prefix, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := d.there(ctx, "list", prefix); err != nil {
			yield(Object{}, err)
			return
		}
		l := listing{Directory: d, ctx: ctx, prefix: prefix, after: after, yield: yield}
		l.walk("")
	}
}

// listing is one call of List.
type listing struct {
	*Directory
	ctx           context.Context //nolint:containedctx // the life of one call
	prefix, after string
	yield         func(Object, error) bool
}

// walk yields the objects in a directory, which is "" or ends with a slash, and reports whether
// the listing continues. In byte order, the objects of a directory "a/" come after names like
// "a-b" and "a.b". So walk holds a directory back until it has yielded these names.
func (l *listing) walk(dir string) bool {
	names, err := l.fs.List(l.path(dir))
	if err == nil {
		err = context.Cause(l.ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true // the last object of the directory was deleted during the listing
	}
	if err != nil {
		l.yield(Object{}, l.failed(l.ctx, "list", l.prefix, err))
		return false
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") || !l.wanted(dir+name) })
	slices.Sort(names)
	var held []string // the last element is the first in order
	release := func(before string) bool {
		for len(held) > 0 && (before == "" || held[len(held)-1] < before) {
			next := held[len(held)-1]
			held = held[:len(held)-1]
			if !l.walk(next) {
				return false
			}
		}
		return true
	}
	for _, name := range names {
		name = dir + name
		info, err := l.fs.Stat(l.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file was deleted during the listing
		}
		if !release(name) {
			return false
		}
		switch {
		case err != nil:
			l.yield(Object{}, l.failed(l.ctx, "list", name, err))
			return false
		case info.IsDir():
			held = append(held, name+"/")
		case !info.Mode().IsRegular():
			l.yield(Object{}, l.failed(l.ctx, "list", name, errIrregular))
			return false
		case name > l.after && strings.HasPrefix(name, l.prefix) && !l.yield(Object{name, info.Size(), info.ModTime()}, nil):
			return false
		}
	}
	return release("")
}

// wanted reports whether the file or the directory with this name may have objects of the listing.
func (l *listing) wanted(name string) bool {
	below := name + "/"
	return (strings.HasPrefix(name, l.prefix) || strings.HasPrefix(l.prefix, below)) &&
		(name > l.after || below > l.after || strings.HasPrefix(l.after, below))
}

// Delete implements Store.
func (d *Directory) Delete(ctx context.Context, name string) error {
	if err := errors.Join(checkName(name), context.Cause(ctx), d.there(ctx, "delete", name)); err != nil {
		return err
	}
	if err := d.fs.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.failed(ctx, "delete", name, err)
	}
	if err := disk.SyncDir(d.fs, d.path(path.Dir(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.failed(ctx, "delete", name, err)
	}
	return nil
}

// kind returns the kind of an error of the file system. If the disk is full or fails, the kind
// is ErrAway, so the caller retries.
func (d *Directory) kind(err error) error {
	for _, refused := range []error{errIrregular, fs.ErrPermission, syscall.EROFS, syscall.ENOTSUP, syscall.ENOTDIR, syscall.EISDIR} {
		if errors.Is(err, refused) {
			return ErrRefused
		}
	}
	return ErrAway
}

func (d *Directory) failed(ctx context.Context, call, name string, err error) error {
	return failed(ctx, d.kind(err), call, name, err)
}

// content is the content of an object during a read. Its errors have a kind.
type content struct {
	ctx context.Context //nolint:containedctx // the life of one read
	io.ReadCloser
	name string
	kind func(error) error
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = failed(c.ctx, c.kind(err), "get", c.name, err)
	}
	return n, err
}
