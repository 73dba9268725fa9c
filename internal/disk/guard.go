package disk

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// guard is the file system for Pebble: it retries or parks failing writes.
type guard struct {
	vfs.FS
	dir string
	log *zap.Logger

	flushStalls, compactionStalls atomic.Int64
	scheduler                     scheduler
	damage                        damage
	copies                        atomic.Pointer[copying] // nil if no checkpoint is being made
	manifest                      atomic.Bool             // this process writes a manifest

	mu      sync.Mutex
	opening bool          // the caller of Open gets errors
	err     error         // the present trouble, nil for none
	last    error         // the latest trouble, which may have passed
	final   bool          // the trouble cannot pass
	trouble chan struct{} // closed while err is set
	closing chan struct{} // closed once the owner has given up
	closed  bool
}

func (d *guard) state() (trouble <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trouble, d.err
}

// giveUp makes waiting writes wait forever and returns the trouble.
func (d *guard) giveUp() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil { // the trouble has passed
		d.err = d.last
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
	d.failed(cause, err, final)
}

// failed begins a trouble, unless there is one. The caller holds mu.
func (d *guard) failed(cause, err error, final bool) {
	if d.err == nil {
		close(d.trouble)
	}
	if d.err == nil || (final && !d.final) {
		d.err = fmt.Errorf("%w (%w)", cause, err)
		d.last, d.final = d.err, final
		d.log.Error("cannot answer writes", zap.Error(d.err))
	}
}

// recovered ends the trouble that has this cause.
func (d *guard) recovered(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.final && errors.Is(d.err, cause) {
		d.err = nil
		d.trouble = make(chan struct{})
		d.log.Info("can answer writes again")
	}
}

// isFull reports whether err means that there is no room. A limit on the size of files counts
// as no room: like a quota, the limit can be raised while the process runs.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// write repeats op until there is room. Pebble handles any other error of sorted files itself:
// it writes the files again. After an error of a file of another kind, Pebble cannot continue.
func (d *guard) write(category vfs.DiskWriteCategory, op func() error) error {
	waited := false
	for {
		err := op()
		switch {
		case err == nil:
			if waited {
				d.recovered(ErrFull)
			}
			return nil
		case category == compactions: // the end of a compaction frees the room of its unfinished files
			return err
		case isFull(err):
			waited = true
			d.fail(ErrFull, err, false)
			d.pause(retryWrite)
		case category == flushes: // the next flush that succeeds ends the trouble
			d.fail(ErrStuck, err, false)
			d.pause(retryFlush)
			return err
		default:
			d.mu.Lock()
			opening := d.opening
			d.mu.Unlock()
			if opening {
				return err
			}
			d.fail(ErrFailed, err, true)
			park()
		}
	}
}

// await waits until another machine has confirmed a write, nil for at once. The write itself is on
// the disk. After patience the state is ErrUnconfirmed, so that callers do not wait, too.
func (d *guard) await(confirmed <-chan struct{}, patience time.Duration) {
	if confirmed == nil {
		return
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for late := false; ; late = true {
		select {
		case <-confirmed:
			if late {
				d.recovered(ErrUnconfirmed)
			}
			return
		case <-wait.C:
			d.late(confirmed, patience) // again, because another trouble may have passed
			wait.Reset(retryWrite)
		case <-d.closing:
			park()
		}
	}
}

// late begins ErrUnconfirmed, unless the write is confirmed. A caller that has confirmed all writes and then finds no trouble
// relies on it that none begins later, so both are looked at together.
func (d *guard) late(confirmed <-chan struct{}, patience time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-confirmed:
	default:
		d.failed(ErrUnconfirmed, fmt.Errorf("no answer within %s", patience), false)
	}
}

// pause waits for t. Once the owner has given up, pause waits forever.
func (d *guard) pause(t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.closing:
		park()
	}
}

// park blocks one of Pebble's goroutines forever. If the goroutine returned the error, Pebble
// would end the process. The owner answers its callers without this goroutine, and a process
// that has given up is about to end.
func park() { select {} }

func (d *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.isCopy(name) {
		return d.FS.Create(name, category)
	}
	return d.open(category, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

func (d *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(category, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, category, opts...) })
}

func (d *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	first := true
	return d.open(category, func() (vfs.File, error) {
		if first { // a rename that failed half-way cannot be retried
			first = false
			return d.FS.ReuseForWrite(oldname, newname, category)
		}
		return d.FS.Create(newname, category)
	})
}

func (d *guard) OpenDir(name string) (vfs.File, error) {
	if c := d.copies.Load(); c != nil && d.isCopy(name) {
		return c.openDir(d.FS, name)
	}
	var f vfs.File
	err := d.write("", func() (err error) {
		f, err = d.FS.OpenDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &directory{f, func(err error) {
		d.fail(ErrFailed, errors.New("sync: "+err.Error()), true)
		park()
	}}, nil
}

// directory hides failed syncs from Pebble, because Pebble would end the process. failed handles the
// error instead.
type directory struct {
	vfs.File
	failed func(error)
}

func (f *directory) Sync() error {
	if err := f.File.Sync(); err != nil {
		f.failed(err)
	}
	return nil
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

// file is a file whose writes and syncs go through the guard. Preallocate does not go through
// the guard: Pebble asks for 36 MB for a log of some bytes, and a later write fails if it finds
// no room.
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

// sync never retries: after a failed sync the system may have dropped the data, and a second
// sync would succeed without the data.
func (f *file) sync(op func() error) error {
	return f.disk.write(f.category, func() error {
		if err := op(); err != nil {
			return errors.New("sync: " + err.Error()) // not wrapped, or write would wait for room
		}
		return nil
	})
}
