package sim

import (
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk/disktest"
)

// badDisk is a disk in memory that fills, answers with I/O errors, lies about syncs, and loses power in the middle
// of an operation.
type badDisk struct {
	*disktest.FS
	memory *vfs.MemFS

	mu      sync.Mutex
	left    int    // operations until the power is cut, 0 for no cut
	keep    int    // percentage of the unsynced data that survive the cut
	trouble string // a kind of fault, "" for none
	room    int    // bytes that a full disk takes
	only    string // the operation that fails on sorted files, "" for all operations
	refused int    // operations that failed since the trouble began
	made    bool   // a file was made since the trouble began
	// troubles counts the changes of trouble.
	troubles int
	// image is the disk after the cut, nil before the cut. The operations after the cut do not change
	// the image.
	image *vfs.MemFS
}

// newDisk returns a sound disk with the content of memory.
func newDisk(memory *vfs.MemFS) *badDisk {
	d := &badDisk{FS: disktest.New(memory), memory: memory}
	d.Set(d.meet)
	return d
}

// meet is a disktest.Fault: it returns the error of an operation.
func (d *badDisk) meet(op, name string, size int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left > 0 {
		if d.left--; d.left == 0 {
			d.image = d.after(d.keep)
		}
	}
	return d.answer(op, name, size)
}

// answer returns the error that the trouble of the disk causes in an operation. The caller holds
// mu.
func (d *badDisk) answer(op, name string, size int) (err error) {
	d.made = d.made || op == "create"
	switch {
	case d.trouble == FaultFull && (op == "create" && d.room <= 0 || op == "write" && size > d.room):
		d.room = 0 // otherwise the rest of a write might find room
		err = syscall.ENOSPC
	case d.trouble == FaultStuck && strings.HasSuffix(name, ".sst") && (d.only == "" || d.only == op), d.trouble == FaultUnread && op == "read":
		err = syscall.EIO
	case d.trouble == FaultLie && op == "sync":
		return disktest.ErrLie
	case op == "write":
		d.room -= size
	}
	if err != nil {
		d.refused++
	}
	return err
}

// Open opens a file whose reads are subject to the trouble of the disk.
func (d *badDisk) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return &badFile{f, d}, nil
}

// badFile is a file that is read.
type badFile struct {
	vfs.File
	disk *badDisk
}

func (f *badFile) ReadAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	err := f.disk.answer("read", "", len(p))
	f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

// after returns the disk as a power cut would leave it now, if the percentage keep of the unsynced
// data survives. The image is the same in each run of a seed only for 0 and 100: the file system
// draws in the order of a map.
func (d *badDisk) after(keep int) *vfs.MemFS {
	return d.memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rand.New(rand.NewPCG(1, uint64(keep)))})
}

// cutAfter cuts the power in the n-th operation from now on, where n is operations. 0 means no cut.
func (d *badDisk) cutAfter(operations, keep int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.keep = operations, keep
}

// cut reports whether the power was cut.
func (d *badDisk) cut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.image != nil
}

// longestFull is the maximum time of a full disk: a writer that begins the next log waits for room,
// and the driver that made the writer's call waits, too.
const longestFull = 2*time.Minute + 41*time.Millisecond + 173*time.Microsecond

// fill leaves room for a number of bytes.
func (d *badDisk) fill(room int) {
	d.begin(FaultFull)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
	this := d.troubles
	time.AfterFunc(longestFull, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.troubles == this {
			d.trouble = ""
		}
	})
}

// refuse makes operations on sorted files fail: only create, write or sync, or all operations for
// "".
func (d *badDisk) refuse(only string) {
	d.begin(FaultStuck)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.only = only
}

// begin begins a trouble.
func (d *badDisk) begin(trouble string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble, d.refused, d.made = trouble, 0, false
	d.troubles++
}

// mend ends the trouble.
func (d *badDisk) mend() { d.begin("") }

// hasMade reports whether a file was made since the trouble began.
func (d *badDisk) hasMade() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// isSound reports whether the disk has no trouble.
func (d *badDisk) isSound() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trouble == ""
}

// hasRefused reports whether an operation has failed since the trouble began.
func (d *badDisk) hasRefused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused > 0
}
