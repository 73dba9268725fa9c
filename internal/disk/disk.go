// Package disk opens Pebble so that a disk in trouble does not end the process. By
// itself Pebble exits when it cannot write its log or its manifest. Here a write to a
// full disk is tried again until there is room, and State tells the owner meanwhile
// what to answer. After any other failure nothing more is written until the process
// starts again. docs/decisions/0010-full-disk-guard.md has the reasons. The package
// also holds the one rule for the formats of stored data (format.go).
//
// It must never end the process, and never report a write to Pebble as done that the
// disk refused (I5): everything that the owner answered before the trouble is there
// after it. It knows neither tables nor queues, and leaves calls and their answers to
// the owner.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// ErrFull is the state of a store whose disk has no room.
var ErrFull = errors.New("the disk is full: make room, no answered write is lost")

// ErrFailed is the state of a store whose disk refused a write for another reason.
var ErrFailed = errors.New("the disk failed: repair it and start again, no answered write is lost")

// ErrInUse refuses a directory that another process, or another DB of this process,
// has open.
var ErrInUse = errors.New("the data directory is in use: stop the process that has it open, or choose another directory")

const (
	retryWrite = 100 * time.Millisecond
	// A compaction on a full disk fails, because its half-written files take room.
	// Pebble starts it anew after this pause.
	retryCompaction = time.Second
)

// DB is a Pebble store on a disk that may be in trouble.
type DB struct {
	*pebble.DB
	lock *pebble.Lock
	disk *guard
}

// Open opens the store in dir, or makes it, and checks its format. Open returns errors
// of the disk instead of waiting. It sets the FS, Lock, Logger and EventListener of
// options itself. A nil fs is the operating system's.
func Open(dir string, fs vfs.FS, log *zap.Logger, options *pebble.Options, format Format) (_ *DB, err error) {
	if fs == nil {
		fs = vfs.Default
	}
	if err := makeDir(fs, dir); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", dir, err)
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		return nil, lockError(dir, err)
	}
	d := &guard{
		FS: fs, log: log.With(zap.String("dir", dir)), opening: true,
		trouble: make(chan struct{}), closing: make(chan struct{}),
	}
	defer func() {
		switch fatal := recover().(type) {
		case nil:
		case openFatal:
			err = fatal.err
		default:
			panic(fatal)
		}
		if err != nil {
			err = fmt.Errorf("open %s: %w", dir, errors.Join(err, lock.Close()))
		}
	}()
	if err := checkPebble(fs, dir); err != nil {
		return nil, err
	}
	options.FS, options.Lock, options.Logger, options.EventListener = d, lock, pebbleLog{d}, d.events()
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	if err := format.check(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d.mu.Lock()
	d.opening = false
	d.mu.Unlock()
	return &DB{DB: db, lock: lock, disk: d}, nil
}

// State returns a channel that is closed when the disk gets into trouble, and the
// trouble that it is in now, nil for none. ErrFull may pass; after ErrFailed only a new
// start helps.
func (db *DB) State() (trouble <-chan struct{}, err error) {
	db.disk.mu.Lock()
	defer db.disk.mu.Unlock()
	return db.disk.trouble, db.disk.err
}

// Stalls are the numbers of times that writes were held up since Open.
type Stalls struct {
	// Flush counts the stalls of writes that came faster than the disk takes them:
	// memory for more is bounded.
	Flush int64
	// Compaction counts the stalls because sorted files had piled up.
	Compaction int64
}

// Stalls returns how often writes were held up.
func (db *DB) Stalls() Stalls {
	return Stalls{Flush: db.disk.flushStalls.Load(), Compaction: db.disk.compactionStalls.Load()}
}

// Await returns the result that done brings. If the disk gets into trouble or ctx ends
// sooner, it returns that as an error: then the outcome is unknown.
func Await[T any](ctx context.Context, db *DB, done <-chan T) (result T, err error) {
	for {
		trouble, err := db.State()
		select {
		case result = <-done:
			return result, nil
		default:
		}
		if err != nil {
			return result, err
		}
		select {
		case result = <-done:
			return result, nil
		case <-trouble: // it may have passed already
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
}

// Health returns the trouble that the disk is in now, nil for none.
func (db *DB) Health() error {
	_, err := db.State()
	return err
}

// Close runs finish, which makes the owner's last writes, and closes the store. On a
// disk in trouble it gives up for good and returns the trouble: the process should end,
// and the next one finds every answered write.
func (db *DB) Close(finish func()) error {
	trouble, err := db.State()
	if err == nil {
		closed := make(chan error, 1)
		go func() { // Close waits for it, or the guard parks it until the process ends
			finish()
			closed <- errors.Join(db.DB.Close(), db.lock.Close())
		}()
		select {
		case err := <-closed:
			return err
		case <-trouble:
		}
	}
	return db.disk.giveUp()
}

// guard is the file system that Pebble gets: it retries or parks failing writes.
type guard struct {
	vfs.FS
	log *zap.Logger

	flushStalls, compactionStalls atomic.Int64

	mu      sync.Mutex
	opening bool          // errors go to Open's caller
	err     error         // the trouble now, nil for none
	final   bool          // the trouble cannot pass
	trouble chan struct{} // closed while err is set
	closing chan struct{} // closed once the owner gave up
	closed  bool
}

// giveUp makes waiting writes wait for good and returns the trouble.
func (d *guard) giveUp() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil { // there was room again a moment ago
		d.err = ErrFull
		close(d.trouble)
	}
	if !d.closed {
		d.final, d.closed = true, true
		close(d.closing)
	}
	return d.err
}

func (d *guard) fail(cause, err error, final bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		close(d.trouble)
	}
	if d.err == nil || (final && !d.final) {
		d.err = fmt.Errorf("%w (%w)", cause, err)
		d.final = final
		d.log.Error("cannot write to the disk", zap.Error(d.err))
	}
}

func (d *guard) recovered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil && !d.final {
		d.err = nil
		d.trouble = make(chan struct{})
		d.log.Info("can write to the disk again")
	}
}

// isFull reports whether err says that there is no room. A limit on the size of files
// counts: like a quota, it can be raised while the process runs.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// write repeats op until it succeeds, for files that Pebble cannot do without. Pebble
// handles the errors of other files itself.
func (d *guard) write(category vfs.DiskWriteCategory, op func() error) error {
	waited := false
	for {
		err := op()
		if err == nil {
			if waited {
				d.recovered()
			}
			return nil
		}
		d.mu.Lock()
		opening := d.opening
		d.mu.Unlock()
		switch {
		case opening:
			return err
		case !isFull(err):
			if !vital(category) {
				d.log.Warn("could not write a file, Pebble tries another one", zap.Error(err))
				d.pause(retryCompaction)
				return err
			}
			d.fail(ErrFailed, err, true)
			park()
		case category == "pebble-compaction":
			d.pause(retryCompaction)
			return err
		}
		waited = true
		d.fail(ErrFull, err, false)
		d.pause(retryWrite)
	}
}

// pause waits for t, or for ever once the owner gave up.
func (d *guard) pause(t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.closing:
		park()
	}
}

// park blocks one of Pebble's goroutines for ever. With the error, Pebble would end the
// process. The owner answers its callers without this goroutine, and a process that
// gave up is about to end.
func park() { select {} }

// vital reports whether Pebble cannot go on without a file of this category: its log,
// its manifest and the small files beside it are vital.
func vital(category vfs.DiskWriteCategory) bool {
	return category != "pebble-compaction" && category != "pebble-memtable-flush"
}

func (d *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(category, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

func (d *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(category, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, category, opts...) })
}

func (d *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	first := true
	return d.open(category, func() (vfs.File, error) {
		if first { // a rename that failed half-way cannot be tried again
			first = false
			return d.FS.ReuseForWrite(oldname, newname, category)
		}
		return d.FS.Create(newname, category)
	})
}

func (d *guard) OpenDir(name string) (vfs.File, error) {
	return d.open("", func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

func (d *guard) Rename(oldname, newname string) error {
	return d.write("", func() error { return d.FS.Rename(oldname, newname) })
}

func (d *guard) Unwrap() vfs.FS { return d.FS }

func (d *guard) open(category vfs.DiskWriteCategory, op func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := d.write(category, func() (err error) {
		f, err = op()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, category: category}, nil
}

// file is a file whose writes and syncs the guard sees. Preallocate is not guarded:
// Pebble asks for 36 MB for a log of some bytes, and a write that does not fit fails
// later.
type file struct {
	vfs.File
	disk     *guard
	category vfs.DiskWriteCategory
}

func (f *file) Write(p []byte) (int, error) {
	done := 0
	err := f.disk.write(f.category, func() error {
		n, err := f.File.Write(p[done:])
		done += n
		return err
	})
	return done, err
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	n := 0
	err := f.disk.write(f.category, func() (err error) {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, err
}

func (f *file) Sync() error     { return f.sync(f.File.Sync) }
func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.sync(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// sync never tries again: after a failed sync the system may have dropped the data, and
// a second sync would succeed without them.
func (f *file) sync(op func() error) error {
	return f.disk.write(f.category, func() error {
		if err := op(); err != nil {
			return errors.New("sync: " + err.Error()) // not wrapped, or write would wait for room
		}
		return nil
	})
}

// pebbleLog logs Pebble's errors. Pebble calls Fatalf to end the process.
type pebbleLog struct{ disk *guard }

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.disk.log.Error("pebble: " + fmt.Sprintf(format, args...))
}

// openFatal carries a fatal error of Pebble out of Open.
type openFatal struct{ err error }

func (l pebbleLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.disk.mu.Lock()
	opening := l.disk.opening
	l.disk.mu.Unlock()
	if opening {
		panic(openFatal{err})
	}
	l.disk.fail(ErrFailed, err, true)
	park()
}

func (d *guard) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { d.log.Error("Pebble failed in the background", zap.Error(err)) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			d.log.Error("stored data are corrupt", zap.Stringer("where", info))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			if strings.HasPrefix(info.Reason, "memtable") {
				d.flushStalls.Add(1)
			} else {
				d.compactionStalls.Add(1)
			}
			d.log.Warn("writes are held up", zap.String("reason", info.Reason))
		},
	}
}

// makeDir makes a directory and its parents, and syncs them: a crash does not take them
// back.
func makeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	d, err := fs.OpenDir(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockError explains why a directory could not be locked.
func lockError(dir string, err error) error {
	// A lock file that cannot be made is a PathError. A lock that is held is a bare
	// number, or Pebble's own text if this process holds it.
	_, path := errors.AsType[*fs.PathError](err)
	locked := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "held by current process")
	if locked && !path {
		return fmt.Errorf("%w: %s", ErrInUse, dir)
	}
	return fmt.Errorf("lock data directory %s: %w", dir, err)
}
