// Package disk lets Pebble live with a disk in trouble. By itself Pebble ends the
// process when its log or its manifest cannot be written. Here a full disk is waited
// out: Pebble's write is tried again until there is room, and State tells the owner
// what to answer its callers meanwhile. After any other failure nothing more is
// written until the process is started again.
//
// It must never end the process, and never let Pebble take a write for done that the
// disk refused (I5): what the owner answered before the trouble is there after it. It
// knows neither tables nor queues, and decides nothing about calls: they are the
// owner's.
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

// ErrFull is what is wrong while the disk has no room.
var ErrFull = errors.New("the disk is full: make room, nothing that was answered is lost")

// ErrFailed is what is wrong after the disk refused a write for another reason than
// room.
var ErrFailed = errors.New("the disk failed: mend it and start again, nothing that was answered is lost")

// ErrInUse says that another process, or another DB of this one, has the directory
// open.
var ErrInUse = errors.New("the data directory is in use: stop the process that has it open, or choose another directory")

const (
	retryWrite = 100 * time.Millisecond
	// compactions are given up when the disk is full, since their half-written
	// files take room; Pebble starts them anew, after this pause.
	retryCompaction = time.Second
)

// DB is a Pebble store on a disk that may be in trouble.
type DB struct {
	*pebble.DB
	lock *pebble.Lock
	disk *guard
}

// Open opens the store in dir, making it if there is none, and calls prepare before
// it returns. Until then errors of the disk are Open's own. options need no FS, Lock,
// Logger and EventListener: nil fs is the operating system's, nil log drops what goes
// wrong.
func Open(dir string, fs vfs.FS, log *zap.Logger, options *pebble.Options, prepare func(*pebble.DB) error) (_ *DB, err error) {
	if fs == nil {
		fs = vfs.Default
	}
	if log == nil {
		log = zap.NewNop()
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
	options.FS, options.Lock, options.Logger, options.EventListener = d, lock, pebbleLog{d}, d.events()
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d.mu.Lock()
	d.opening = false
	d.mu.Unlock()
	return &DB{DB: db, lock: lock, disk: d}, nil
}

// State returns a channel that is closed when something goes wrong, and what is
// wrong now, nil if nothing. ErrFull may pass; after ErrFailed only a new start helps.
func (db *DB) State() (trouble <-chan struct{}, err error) {
	db.disk.mu.Lock()
	defer db.disk.mu.Unlock()
	return db.disk.trouble, db.disk.err
}

// Stalls counts how often writes were held up since Open.
type Stalls struct {
	// Flush: writes came faster than the disk takes them, and memory for more is
	// bounded.
	Flush int64
	// Compaction: sorted files had piled up.
	Compaction int64
}

// Stalls returns how often writes were held up.
func (db *DB) Stalls() Stalls {
	return Stalls{Flush: db.disk.flushStalls.Load(), Compaction: db.disk.compactionStalls.Load()}
}

// Await returns what done brings, or sooner what is wrong with the disk or that ctx
// ended: then the outcome is unknown.
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
		case <-trouble: // which may have passed already
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
}

// Health is what is wrong now, nil if nothing.
func (db *DB) Health() error {
	_, err := db.State()
	return err
}

// Close waits for finish, the owner's last writes, and closes the store. Over a disk
// in trouble it gives up instead and returns what is wrong, for good: the process
// should end, and the next one finds everything.
func (db *DB) Close(finish func()) error {
	trouble, err := db.State()
	if err == nil {
		closed := make(chan error, 1)
		go func() { // waited for below, or kept by the disk until the process ends
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

// guard stands between Pebble and the file system.
type guard struct {
	vfs.FS
	log *zap.Logger

	flushStalls, compactionStalls atomic.Int64

	mu      sync.Mutex
	opening bool          // errors go to Open's caller
	err     error         // what is wrong now, nil if nothing
	final   bool          // it stays wrong
	trouble chan struct{} // closed while err is set
	closing chan struct{} // closed once the owner gave up
	closed  bool
}

// giveUp makes waiting writes wait for good and returns what was wrong.
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

// isFull tells whether there is no room. A limit on the size of files is one, too: like
// a quota it can be raised while the process runs.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// write does op until it succeeds, for files that Pebble cannot do without.
// Others' errors are Pebble's to handle.
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
				d.log.Warn("could not write a file, another is tried", zap.Error(err))
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

// pause waits, for good once the owner gave up.
func (d *guard) pause(t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.closing:
		park()
	}
}

// park keeps one of Pebble's goroutines from going on with an error that it would
// end the process for. The owner answers its callers without it, and a process that
// gave up is about to end.
func park() { select {} }

// vital tells whether Pebble cannot go on without a file: its log, its manifest
// and the small files beside it.
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

// Preallocate is a wish, of 36 MB for a log of some bytes. It is not waited for: what
// does not fit fails when it is written.
func (f *file) Preallocate(offset, length int64) error { return f.File.Preallocate(offset, length) }

func (f *file) Sync() error     { return f.sync(f.File.Sync) }
func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.sync(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// sync is never tried again: after a failure the system may have dropped the
// pages, and a second sync would succeed without them.
func (f *file) sync(op func() error) error {
	return f.disk.write(f.category, func() error {
		if err := op(); err != nil {
			return errors.New("sync: " + err.Error()) // not wrapped: "full" would be waited out
		}
		return nil
	})
}

// pebbleLog shows Pebble's own messages. Fatalf is where Pebble would end the
// process.
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
		BackgroundError: func(err error) { d.log.Error("background error", zap.Error(err)) },
		DataCorruption:  func(info pebble.DataCorruptionInfo) { d.log.Error("data are corrupt", zap.Stringer("where", info)) },
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

// makeDir makes a directory, and its parents, that are still there after a crash.
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

// lockError says why a directory could not be locked.
func lockError(dir string, err error) error {
	// A lock file that cannot be made is a PathError, one that is locked a bare
	// number, or Pebble's own text for this process.
	_, path := errors.AsType[*fs.PathError](err)
	locked := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "held by current process")
	if locked && !path {
		return fmt.Errorf("%w: %s", ErrInUse, dir)
	}
	return fmt.Errorf("lock data directory %s: %w", dir, err)
}
