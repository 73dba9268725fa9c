// Package disk opens Pebble so that a disk in trouble does not end the process. Pebble by
// itself exits when it cannot write its log or its manifest. With this package, a write to a
// full disk is retried until there is room. State returns the trouble, so that the owner can
// answer its callers in the meantime. Writes of sorted files are retried after any failure.
// After any other failure nothing is written until the process restarts. Damaged data are a
// state of their own, because neither room nor time repairs them (damage.go).
// docs/decisions/0010-full-disk-guard.md and docs/decisions/0017-states-of-a-disk.md have the
// reasons. The package also has the one rule for the formats of stored data (format.go).
//
// The package must never end the process, and never report a write to Pebble as done that the
// disk refused (I5): all writes that the owner answered before the trouble exist after the
// trouble. The package knows neither tables nor queues, and leaves calls and their answers to
// the owner.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ErrFull is the state of a store whose disk has no room.
var ErrFull = errors.New("the disk is full: make room, no answered write is lost")

// ErrStuck is the state of a store that cannot write sorted files, for a reason other than
// room. The write is retried, and the log keeps all writes until the write succeeds.
var ErrStuck = errors.New("the disk refuses new files: mend it, or raise the limit of open files; no answered write is lost")

// ErrUnconfirmed is the state of a store whose writes wait for another machine. The disk of this
// machine has the writes.
var ErrUnconfirmed = errors.New("another machine has not confirmed the writes yet: check the standby and the network; no answered write is lost")

// ErrFailed is the state of a store whose disk refused a write for another reason.
var ErrFailed = errors.New("the disk failed: repair it and start again, no answered write is lost")

// ErrInUse means that another process, or another DB of this process, has the directory
// open.
var ErrInUse = errors.New("the data directory is in use: stop the process that has it open, or choose another directory")

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("the store is closed")

const (
	retryWrite = 100 * time.Millisecond
	retryFlush = time.Second
	// logLines is the maximum number of lines of one kind that a store logs in logTime.
	logLines, logTime = 3, time.Minute
	// flushes and compactions are Pebble's names for the files of its background work.
	flushes, compactions = "pebble-memtable-flush", "pebble-compaction"
)

// DB is a Pebble store that survives trouble of its disk.
type DB struct {
	*pebble.DB
	lock *pebble.Lock
	disk *guard
	kept *keeper

	mu     sync.Mutex
	closed bool
	turns  sync.WaitGroup // the calls of Pebble of BeginLog
}

// Open opens the store in dir, and checks its format. The store must have each file that it needs (DamageError), unless ErrorIfNotExists is
// off in options: then Open creates a store where there is none. Only the owner of a directory in which nothing was answered yet may create a store,
// because an absent file is otherwise damage. On a full disk Open
// waits for room, until stop is closed, because Pebble has to write before it can read. Open also
// waits for another machine (TappedFS). Open returns any other error of the disk. If the FS of options is nil, Open uses the operating
// system's file system. Open wraps the FS, which may be a TappedFS, and sets Lock, Logger,
// EventListener and scheduler itself.
func Open(stop <-chan struct{}, dir string, log *zap.Logger, options *pebble.Options, format Format) (*DB, error) {
	if err := checkLog(options); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return open(stop, dir, log, options, format)
}

// Writes is the way in which a replica writes its batches.
type Writes bool

const (
	// Logged is for a standby: after a crash its log has the batches.
	Logged Writes = true
	// Unlogged is for a restore: a crash loses all batches since the last Flush. Whoever opens the store calls Flush before Close, and makes
	// the store anew after a crash.
	Unlogged Writes = false
)

// OpenReplica opens an existing store as Open does, for a follower, which applies the log of another store.
func OpenReplica(dir string, log *zap.Logger, writes Writes, options *pebble.Options, format Format) (*DB, error) {
	if err := checkLog(options); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	options.ErrorIfNotExists, options.DisableWAL = true, writes == Unlogged
	return open(nil, dir, log, options, format)
}

func open(stop <-chan struct{}, dir string, log *zap.Logger, options *pebble.Options, format Format) (*DB, error) {
	fs, tap := untap(options.FS)
	if fs == nil {
		fs = vfs.Default
	}
	lock, err := lockStore(fs, dir, !options.ErrorIfNotExists)
	if err != nil {
		return nil, err
	}
	d := &guard{
		FS: fs, dir: dir, opening: true, trouble: make(chan struct{}), closing: make(chan struct{}),
		log: log.With(zap.String("dir", dir)).WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, logTime, logLines, 0)
		})),
	}
	kept, err := keep(d, dir, !options.ErrorIfNotExists)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, errors.Join(err, lock.Close()))
	}
	options.FS, options.Lock, options.Logger, options.EventListener = kept, lock, pebbleLog{d}, d.events()
	if tap != nil { // above the list, which has a log as long as the tap needs the log
		options.FS = &tapFS{FS: kept, dir: dir, tap: tap.Tap, wait: func(log, offset uint64) {
			if tap.Confirmed != nil {
				d.await(tap.Confirmed(log, offset), tap.Patience)
			}
		}}
	}
	options.Experimental.CompactionScheduler = &d.scheduler
	type outcome struct {
		db  *pebble.DB
		err error
	}
	opened := make(chan outcome, 1)
	go func() { // Open waits for this goroutine, or the guard parks it until the process ends
		db, err := pebble.Open(dir, options)
		if err == nil {
			if err = d.admit(db, format, Writes(!options.DisableWAL)); err != nil {
				err = errors.Join(err, db.Close())
			}
		}
		opened <- outcome{db, err}
	}()
	o, err := awaitRoom(d, stop, opened)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	if o.err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, errors.Join(unreadable(kept, dir, o.err), lock.Close()))
	}
	kept.opened.Store(true)
	d.mu.Lock()
	d.opening = false
	d.mu.Unlock()
	return &DB{DB: o.db, lock: lock, disk: d, kept: kept}, nil
}

// lockStore locks the directory of a store, and refuses files of a newer Pebble. If isNew is set, it makes the directory.
func lockStore(fs vfs.FS, dir string, isNew bool) (*pebble.Lock, error) {
	if isNew {
		if err := MakeDir(fs, dir); err != nil {
			return nil, fmt.Errorf("make data directory %s: %w", dir, err)
		}
	} else if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w", dir, &DamageError{dir, "is absent"})
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		return nil, lockError(dir, err)
	}
	if err := checkPebble(fs, dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, errors.Join(err, lock.Close()))
	}
	return lock, nil
}

// unreadable returns the error of an Open, wrapped in ErrDamaged if Pebble found damage. Pebble marks a damaged file, but not a
// sorted file that is absent or has another size, nor a file of options with other names.
func unreadable(fs vfs.FS, dir string, err error) error {
	if damage := damagedOptions(fs, dir); damage != nil {
		return damage
	}
	if !errors.Is(err, ErrDamaged) && (pebble.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "object size mismatch")) {
		return fmt.Errorf("%w; or let the other machine of a pair take over; nothing was removed (%w)", ErrDamaged, err)
	}
	return err
}

// admit checks the format of a store, and then makes Pebble write a manifest. A start that applies a log has done that; a start without a log,
// because an earlier start was cut or the store is a copy, has not. Until then Pebble copies an empty manifest, and nobody can open its checkpoint.
func (d *guard) admit(db *pebble.DB, format Format, writes Writes) error {
	if err := format.check(db, writes); err != nil || d.manifest.Load() {
		return err
	}
	return db.Flush()
}

// Recover runs work, which makes the owner's first writes. Recover waits for room and for another
// machine until stop is closed, as Open does.
func (db *DB) Recover(stop <-chan struct{}, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }() // waits or is parked, as in Open
	outcome, err := awaitRoom(db.disk, stop, done)
	return errors.Join(outcome, err)
}

// awaitRoom returns the outcome that done delivers. During ErrFull and ErrUnconfirmed awaitRoom
// waits until stop is closed, and then abandons the store. Any other trouble makes it abandon the
// store at once. Without trouble the outcome arrives soon, so awaitRoom ignores stop.
func awaitRoom[T any](d *guard, stop <-chan struct{}, done <-chan T) (outcome T, err error) {
	for {
		trouble, err := d.state()
		var look <-chan time.Time
		var ended <-chan struct{}
		if err != nil {
			if !errors.Is(err, ErrFull) && !errors.Is(err, ErrUnconfirmed) {
				return outcome, d.giveUp()
			}
			trouble, look, ended = nil, time.After(retryWrite), stop
		}
		select {
		case outcome = <-done:
			return outcome, nil
		case <-trouble:
		case <-look:
		case <-ended:
			return outcome, d.giveUp()
		}
	}
}

// State returns a channel that is closed when the disk gets into trouble, and the present
// trouble, nil for none. ErrFull, ErrStuck and ErrUnconfirmed may pass. After ErrFailed the process has to
// restart.
func (db *DB) State() (trouble <-chan struct{}, err error) { return db.disk.state() }

// Await returns the result that done delivers. If the disk gets into trouble or ctx ends before
// that, Await returns the trouble or the error of ctx, and the outcome is unknown.
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
		case <-trouble: // the trouble may have passed already
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
}

// Health returns the present trouble of the disk, nil for none.
func (db *DB) Health() error {
	_, err := db.State()
	return err
}

// BeginLog makes the store begin its next log soon. It does not wait, because the end of a log may wait for another machine.
// The error is the present trouble of the disk, or ErrClosed.
func (db *DB) BeginLog() error {
	if err := db.Health(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.turns.Go(func() { // Close waits for this goroutine, or the guard parks it until the process ends
		if _, err := db.AsyncFlush(); err != nil {
			db.disk.log.Warn("cannot begin a log", zap.Error(err))
		}
	})
	return nil
}

// close closes the store after all calls of BeginLog.
func (db *DB) close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.turns.Wait()
	err := db.DB.Close()
	if err == nil {
		err = db.kept.close()
	}
	return errors.Join(err, db.lock.Close())
}

// Close runs finish, which makes the owner's last writes, and closes the store. On a disk in
// trouble Close abandons the store and returns the trouble. In this case the process should
// end, and the next process finds every answered write.
func (db *DB) Close(finish func()) error {
	trouble, err := db.State()
	if err == nil {
		closed := make(chan error, 1)
		go func() { // Close waits for this goroutine, or the guard parks it until the process ends
			finish()
			closed <- db.close()
		}()
		select {
		case err := <-closed:
			return err
		case <-trouble:
		}
	}
	return db.disk.giveUp()
}

// pebbleLog logs Pebble's errors. Pebble calls Fatalf to end the process.
type pebbleLog struct{ disk *guard }

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.disk.log.Error("Pebble reports an error", zap.String("text", fmt.Sprintf(format, args...)))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.disk.fail(ErrFailed, fmt.Errorf(format, args...), true)
	park()
}

func (d *guard) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { d.log.Error("Pebble failed in the background", zap.Error(err)) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			d.damage.note(d.log, info.Details)
		},
		ManifestCreated: func(info pebble.ManifestCreateInfo) { d.manifest.Store(info.Err == nil) },
		CompactionEnd:   func(info pebble.CompactionInfo) { d.scheduler.ended(info.Err) },
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				d.recovered(ErrStuck)
			}
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

// lockError explains why a directory could not be locked.
func lockError(dir string, err error) error {
	// If the lock file cannot be made, the error is a PathError. If the lock is held, the
	// error is a bare number, or Pebble's own text if this process holds the lock.
	_, path := errors.AsType[*fs.PathError](err)
	locked := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "held by current process")
	if locked && !path {
		return fmt.Errorf("%w: %s", ErrInUse, dir)
	}
	return fmt.Errorf("lock data directory %s: %w", dir, err)
}
