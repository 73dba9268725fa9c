package disk

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Tap gets the bytes of a store's logs, and may make the store wait (rules S1 and S4 of
// docs/decisions/0053-stream.md). The calls about a log are made in order. Only MayGo and sync may
// run at the same time as another call.
type Tap interface {
	// Created is called when a new log and its name are on the disk. The previous log is complete and
	// synced. sync may be called at any time: it syncs the new log, and returns the offset up to which
	// the log is on the disk.
	Created(log uint64, sync func() (offset uint64, err error))
	// Wrote is called before a write, and only once, even if the guard repeats the write. The data
	// belong to the caller.
	Wrote(log, offset uint64, data []byte)
	// Synced is called after the log was synced up to the offset. The writes before the offset are
	// answered only after Synced returns.
	Synced(log, offset uint64)
	// MayGo is called before a log is removed, or overwritten by a new log. It reports whether the tap no
	// longer needs the log. It is called again later for a log that the tap still needs.
	MayGo(log uint64) bool
}

// TappedFS is a file system for Open whose Tap gets the logs of the store. The copies of a
// checkpoint are not logs of the store.
type TappedFS struct {
	// FS is the underlying file system; the operating system's file system if nil.
	vfs.FS
	Tap Tap
	// Confirmed is called after the log was synced up to the offset, and after Tap.Synced. It returns a channel that is
	// closed when another machine has this part of the log on its own disk, or nil if no other machine needs it.
	// The writes before the offset are answered only then. Confirmed may be nil.
	Confirmed func(log, offset uint64) <-chan struct{}
	// Patience is the time after which the store is in the state ErrUnconfirmed, because Confirmed's channel is open.
	Patience time.Duration
}

// untap returns the underlying file system, and the tapped file system, nil if there is no tap.
func untap(fs vfs.FS) (vfs.FS, *TappedFS) {
	if t, is := fs.(TappedFS); is {
		return t.FS, &t
	}
	return fs, nil
}

// checkLog refuses options with which writes would bypass a tap (S6). Such options are refused
// even without a tap, so that an archive can be added to any store.
func checkLog(o *pebble.Options) error {
	if o.DisableWAL || o.WALDir != "" || o.WALFailover != nil || len(o.WALRecoveryDirs) > 0 {
		return errors.New("a store writes all to one log in its own directory: leave DisableWAL, WALDir, WALFailover and WALRecoveryDirs unset")
	}
	return nil
}

// tapFS is the file system between Pebble and the guard for a store with a tap. The guard repeats
// writes below tapFS, so the tap gets each write once.
type tapFS struct {
	vfs.FS
	dir string
	tap Tap
	// wait returns when writes before an offset of a log may be answered.
	wait func(log, offset uint64)

	mu      sync.Mutex
	unnamed *tappedLog // the log whose name is not synced yet
	begun   bool       // the tap knows a log of this process
	unused  []string   // logs that go once it does, and once the tap no longer needs them
}

// number returns the number of a log of the store, and false for any other file.
func (l *tapFS) number(name string) (n uint64, is bool) {
	digits, isLog := strings.CutSuffix(l.PathBase(name), ".log")
	if !isLog || l.PathDir(name) != l.dir {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

func (l *tapFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, category)
	return l.begin(name, f, err)
}

func (l *tapFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if n, is := l.number(oldname); is && !l.tap.MayGo(n) {
		l.keep(oldname)
		return l.Create(newname, category)
	}
	f, err := l.FS.ReuseForWrite(oldname, newname, category)
	return l.begin(newname, f, err)
}

// Remove keeps a log until the next one has begun. When Pebble opens, it removes the logs of the
// former process before it begins its own, and after a crash in between nothing would show
// that no log is missing.
func (l *tapFS) Remove(name string) error {
	if _, is := l.number(name); !is {
		return l.FS.Remove(name)
	}
	l.keep(name)
	return l.clean()
}

// keep notes a log that Pebble no longer needs.
func (l *tapFS) keep(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = append(l.unused, name)
}

// clean removes the logs that neither Pebble nor the tap needs. If the process ends before a log goes, Pebble removes
// the log when it opens the store again.
func (l *tapFS) clean() error {
	l.mu.Lock()
	if !l.begun {
		l.mu.Unlock()
		return nil
	}
	names := l.unused
	l.unused = nil
	l.mu.Unlock()
	var errs []error
	for _, name := range names {
		n, _ := l.number(name)
		goes := l.tap.MayGo(n)
		if goes {
			err := l.FS.Remove(name)
			errs, goes = append(errs, err), err == nil
		}
		if !goes {
			l.keep(name)
		}
	}
	return errors.Join(errs...)
}

func (l *tapFS) begin(name string, f vfs.File, err error) (vfs.File, error) {
	n, is := l.number(name)
	if err != nil || !is {
		return f, err
	}
	created := &tappedLog{File: f, number: n, tap: l.tap, wait: l.wait}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unnamed = created
	return created, nil
}

// OpenDir returns a directory. Its sync makes the name of a new log durable. Pebble syncs the
// directory before it writes to the log.
func (l *tapFS) OpenDir(name string) (vfs.File, error) {
	f, err := l.FS.OpenDir(name)
	if err != nil || name != l.dir {
		return f, err
	}
	return &names{f, l}, nil
}

func (l *tapFS) Unwrap() vfs.FS { return l.FS }

// names is the directory of the logs.
type names struct {
	vfs.File
	logs *tapFS
}

func (d *names) Sync() error {
	d.logs.mu.Lock()
	created := d.logs.unnamed
	d.logs.unnamed = nil
	d.logs.mu.Unlock()
	if err := d.File.Sync(); err != nil {
		return err
	}
	if created == nil {
		return nil
	}
	created.tap.Created(created.number, created.sync)
	d.logs.mu.Lock()
	d.logs.begun = true
	d.logs.mu.Unlock()
	_ = d.logs.clean() // the next log tries again, and the new log is on the disk
	return nil
}

// tappedLog is the file of a log. Pebble writes the file in order.
type tappedLog struct {
	vfs.File
	number uint64
	tap    Tap
	wait   func(log, offset uint64)

	length atomic.Uint64
	// closing prevents a sync of a closed file by the tap: the guard would take the error for a failed disk.
	closing sync.RWMutex
	closed  bool
}

func (f *tappedLog) Write(p []byte) (int, error) {
	if len(p) > 0 { // Pebble writes no bytes when a block of the log is just full
		f.tap.Wrote(f.number, f.length.Load(), p)
	}
	n, err := f.File.Write(p)
	f.length.Add(uint64(n))
	return n, err
}

// WriteAt returns an error, because the tap would miss the bytes.
func (f *tappedLog) WriteAt([]byte, int64) (int, error) {
	return 0, errors.New("a log is written in order")
}

func (f *tappedLog) Sync() error     { return f.syncBy(f.File.Sync) }
func (f *tappedLog) SyncData() error { return f.syncBy(f.File.SyncData) }

// SyncTo syncs the whole log, so that the tap has only one kind of sync.
func (f *tappedLog) SyncTo(int64) (bool, error) { return true, f.SyncData() }

func (f *tappedLog) syncBy(op func() error) error {
	at, err := f.synced(op)
	if err == nil {
		f.tap.Synced(f.number, at)
		f.wait(f.number, at)
	}
	return err
}

// synced calls op, a sync, and returns the length of the log before the sync: the sync covers
// at least this length.
func (f *tappedLog) synced(op func() error) (uint64, error) {
	at := f.length.Load()
	return at, op()
}

// sync syncs the log for the tap. A closed log is already completely on the disk.
func (f *tappedLog) sync() (uint64, error) {
	f.closing.RLock()
	defer f.closing.RUnlock()
	if f.closed {
		return f.length.Load(), nil
	}
	return f.synced(f.File.SyncData)
}

func (f *tappedLog) Close() error {
	f.closing.Lock()
	defer f.closing.Unlock()
	f.closed = true
	return f.File.Close()
}
