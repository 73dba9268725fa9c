package disk

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// keeper is the file system for Pebble that keeps the list of the files that the store needs (needs.go). It writes the
// list when a log or a manifest begins, before Pebble gives up a log, and when the store is closed: never for a write.
type keeper struct {
	vfs.FS
	dir string
	// opened ends the comparison of logs that Pebble reads.
	opened atomic.Bool

	mu       sync.Mutex
	list     needs
	manifest *summed   // the current manifest, nil until this process writes one
	logs     []*summed // the logs of the list that this process wrote
	unnamed  []*summed // files whose names are not synced yet
	marked   string    // the manifest that a marker names whose own name is not synced yet
}

// keep returns the file system of a store, whose list is read. isNew means that the store may have no list.
func keep(files vfs.FS, dir string, isNew bool) (*keeper, error) {
	k := &keeper{FS: files, dir: dir}
	list, err := readNeeds(files, dir)
	if isNew {
		if made, markerErr := atomicfs.ReadMarker(files, dir, "format-version"); markerErr == nil && made == "" || errors.Is(err, fs.ErrNotExist) {
			return k, nil // a crash may have left a part of a new store, which nobody has written to
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &DamageError{files.PathJoin(dir, needsFile), "is absent"}
	case err != nil:
		return nil, err
	}
	k.list = list
	return k, list.check(files, dir)
}

// own returns the base name of a log or a manifest of the store.
func (k *keeper) own(name string) (base string, is bool) {
	base = k.PathBase(name)
	return base, k.PathDir(name) == k.dir && fileNumber(base) > 0
}

// Create implements vfs.FS.
func (k *keeper) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := k.FS.Create(name, category)
	return k.begin(name, f, err)
}

func (k *keeper) begin(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	base, is := k.own(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if is {
		created := &summed{File: f, name: base}
		k.unnamed = append(k.unnamed, created)
		return created, nil
	}
	if at := strings.LastIndex(base, ".MANIFEST-"); at > 0 && strings.HasPrefix(base, "marker.manifest.") && k.PathDir(name) == k.dir {
		k.marked = base[at+1:]
	}
	return f, nil
}

// ReuseForWrite implements vfs.FS. Pebble has given up the old log.
func (k *keeper) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := k.giveUp(oldname); err != nil {
		return nil, err
	}
	f, err := k.FS.ReuseForWrite(oldname, newname, category)
	return k.begin(newname, f, err)
}

// Remove implements vfs.FS.
func (k *keeper) Remove(name string) error {
	if err := k.giveUp(name); err != nil {
		return err
	}
	return k.FS.Remove(name)
}

// giveUp takes a log off the list. With it, the list gets the bytes of the manifest due to which Pebble gives the log up.
func (k *keeper) giveUp(name string) error {
	base, is := k.own(name)
	if !is || !strings.HasSuffix(base, ".log") {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list.Logs = slices.DeleteFunc(k.list.Logs, func(n needed) bool { return n.Name == base })
	k.logs = slices.DeleteFunc(k.logs, func(f *summed) bool { return f.name == base })
	return k.write()
}

// write writes the list. The caller holds mu.
func (k *keeper) write() error {
	if k.manifest != nil {
		k.list.Manifest = k.manifest.durable()
	}
	for i, n := range k.list.Logs {
		if at := slices.IndexFunc(k.logs, func(f *summed) bool { return f.name == n.Name }); at >= 0 {
			k.list.Logs[i] = k.logs[at].ended()
		}
	}
	return k.list.write(k.FS, k.dir)
}

// Open implements vfs.FS. A log that Pebble reads at the start must have each byte that the store wrote.
func (k *keeper) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if base, is := k.own(name); is && !k.opened.Load() && strings.HasSuffix(base, ".log") {
		k.mu.Lock()
		at := slices.IndexFunc(k.list.Logs, func(n needed) bool { return n.Name == base })
		log := needed{Name: base}
		if at >= 0 {
			log = k.list.Logs[at]
		}
		k.mu.Unlock()
		if err := log.compareLog(k.FS, k.dir); err != nil {
			return nil, err
		}
	}
	return k.FS.Open(name, opts...)
}

// compareLog returns an error if the log lacks a byte that the store is known to have written.
func (n needed) compareLog(fsys vfs.FS, dir string) error {
	if n.Whole {
		return n.compare(fsys, dir)
	}
	return n.endsEarly(fsys, dir)
}

// endsEarly returns an error if a log has records after the end that Pebble finds: a changed number in the head of a record
// looks like the end of the log.
func (n needed) endsEarly(fsys vfs.FS, dir string) error {
	const block = 32 << 10
	name := fsys.PathJoin(dir, n.Name)
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamageError{name, "is absent"}
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	records := newReader(record.NewReader, f, fileNumber(n.Name))
	for err == nil {
		var r io.Reader
		if r, err = records.Next(); err == nil {
			_, err = io.Copy(io.Discard, r)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil // Pebble decides whether this is the end that a crash left
	}
	end := records.Offset()
	for at := (end/block + 1) * block; at < info.Size(); at += block {
		rest := newReader(record.NewReader, io.NewSectionReader(f, at, block), fileNumber(n.Name))
		if _, err := rest.Next(); err == nil {
			return &DamageError{name, fmt.Sprintf("has a record after its end at %d", end)}
		}
	}
	return nil
}

// newReader calls record.NewReader with a number, whose type has no name outside of Pebble.
func newReader[N ~uint64](reader func(io.Reader, N) *record.Reader, from io.Reader, log uint64) *record.Reader {
	return reader(from, N(log))
}

// OpenDir implements vfs.FS. The sync of the directory makes the names of its files durable.
func (k *keeper) OpenDir(name string) (vfs.File, error) {
	f, err := k.FS.OpenDir(name)
	if err != nil || name != k.dir {
		return f, err
	}
	return &listed{f, k}, nil
}

// Unwrap implements vfs.FS.
func (k *keeper) Unwrap() vfs.FS { return k.FS }

// listed is the directory of the store.
type listed struct {
	vfs.File
	keeper *keeper
}

// Sync also writes the list, if the sync has made the name of a log or of a manifest durable. A list that named the file
// earlier would miss the file after a crash.
func (d *listed) Sync() error {
	k := d.keeper
	k.mu.Lock()
	created, marked := slices.Clone(k.unnamed), k.marked
	k.mu.Unlock()
	if err := d.File.Sync(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := false
	k.unnamed = slices.DeleteFunc(k.unnamed, func(f *summed) bool {
		isLog := strings.HasSuffix(f.name, ".log")
		if !slices.Contains(created, f) || !isLog && f.name != marked {
			return false
		}
		if changed = true; isLog {
			k.logs, k.list.Logs = append(k.logs, f), append(k.list.Logs, needed{Name: f.name})
		} else {
			k.manifest = f
		}
		return true
	})
	if !changed {
		return nil
	}
	return k.write()
}

// close writes the list of a store that is closed, with all bytes of its last log.
func (k *keeper) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.write()
}

// summed is a log or a manifest that this process writes, in order. It sums its bytes.
type summed struct {
	vfs.File
	name string

	mu     sync.Mutex
	wrote  needed
	synced needed
	closed bool
	torn   bool // a write ended early, so the bytes behind synced have no sum
}

// Write implements vfs.File. The sum comes first, because a file system may change p.
func (f *summed) Write(p []byte) (int, error) {
	f.mu.Lock()
	sum := crc32.Update(f.wrote.Sum, castagnoli(), p)
	f.mu.Unlock()
	n, err := f.File.Write(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrote.Bytes += int64(n)
	f.wrote.Sum = sum
	f.torn = f.torn || n < len(p)
	return n, err
}

func (f *summed) Sync() error     { return f.sync(f.File.Sync) }
func (f *summed) SyncData() error { return f.sync(f.File.SyncData) }

func (f *summed) sync(op func() error) error {
	f.mu.Lock()
	at := f.wrote
	f.mu.Unlock()
	err := op()
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.torn {
			f.synced = at
		}
	}
	return err
}

// Close implements vfs.File. Pebble syncs a log before it closes it.
func (f *summed) Close() error {
	err := f.File.Close()
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closed = true
	}
	return err
}

// durable returns the file with the bytes that no power cut takes away.
func (f *summed) durable() needed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return needed{Name: f.name, Whole: true, Bytes: f.synced.Bytes, Sum: f.synced.Sum}
}

// ended returns the file with its bytes if all of them are written.
func (f *summed) ended() needed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed || f.synced != f.wrote {
		return needed{Name: f.name}
	}
	return needed{Name: f.name, Whole: true, Bytes: f.wrote.Bytes, Sum: f.wrote.Sum}
}
