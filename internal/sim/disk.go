package sim

import (
	"math/rand/v2"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk/disktest"
)

// badDisk is a disk in memory that fills, lies about syncs, and loses power in the middle of an operation.
type badDisk struct {
	*disktest.FS
	memory *vfs.MemFS

	mu   sync.Mutex
	left int  // operations until the power is cut, 0 for no cut
	keep int  // percentage of the unsynced data that survive the cut
	full bool // there is room for no more than room bytes
	room int
	lies bool
	// image is the disk after the cut, nil before it. The operations after the cut change nothing of it.
	image *vfs.MemFS
}

// newDisk returns a sound disk with the content of memory.
func newDisk(memory *vfs.MemFS) *badDisk {
	d := &badDisk{FS: disktest.New(memory), memory: memory}
	d.Set(d.meet)
	return d
}

// meet is a disktest.Fault.
func (d *badDisk) meet(op, _ string, size int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left > 0 {
		if d.left--; d.left == 0 {
			d.image = d.after(d.keep)
		}
	}
	if d.full && (op == "create" && d.room <= 0 || op == "write" && size > d.room) {
		d.room = 0 // or the rest of a write might find room
		return syscall.ENOSPC
	}
	if op == "write" {
		d.room -= size
	}
	if op == "sync" && d.lies {
		return disktest.ErrLie
	}
	return nil
}

// after returns the disk as a power cut leaves it now, with that percentage of the unsynced data. The image
// is the same in each run of a seed for 0 and 100 alone: the file system draws in the order of a map.
func (d *badDisk) after(keep int) *vfs.MemFS {
	return d.memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rand.New(rand.NewPCG(1, uint64(keep)))})
}

// cutAfter cuts the power in the operation with this number from now on, 0 for in none.
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

// fill leaves room for so many bytes. makeRoom ends that.
func (d *badDisk) fill(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.room = true, room
}

func (d *badDisk) makeRoom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = false
}

// lie makes syncs report success and do nothing.
func (d *badDisk) lie() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = true
}
