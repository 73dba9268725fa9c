package pair_test

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/pair"
)

// trouble is what goes wrong on the disk of a standby, until a time.
type trouble struct {
	mu    sync.Mutex
	rng   *rand.Rand
	until time.Time
	kind  kind
	room  int64 // the bytes that a full disk still takes
	// lost has the files of which a sync has failed. The system has dropped their bytes, so the next syncs do nothing.
	lost map[string]bool
}

// kind is the kind of a trouble.
type kind int

const (
	fullDisk kind = iota
	fullTail      // the stores have room: a process that ends while they wait for room leaves its goroutines
	badTail       // writes and syncs of the tail fail at times
)

// fault implements disktest.Fault.
func (d *trouble) fault(op, name string, size int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if op == "create" {
		delete(d.lost, name)
	}
	ofTail := filepath.Base(filepath.Dir(name)) == pair.TailDir
	switch {
	case op == "sync" && d.lost[name]:
		return disktest.ErrLie
	case !time.Now().Before(d.until):
	case d.kind == badTail && ofTail && d.rng.IntN(2) == 0:
		d.lost[name] = op == "sync"
		return syscall.EIO
	case (d.kind == fullDisk || d.kind == fullTail && ofTail) && (op == "write" || op == "create"):
		if d.room -= int64(size); d.room <= 0 {
			d.room = 0
			return syscall.ENOSPC
		}
	}
	return nil
}

// spoil spoils the disk of a standby for a time. room is the number of bytes that a full disk still takes.
func (m *machine) spoil(k kind, room int64, d time.Duration) {
	t := m.process.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kind, t.room, t.until = k, room, time.Now().Add(d)
}

// spoilSome spoils the disk of a standby at times.
func (w *world) spoilSome() {
	for _, m := range w.machines {
		if m.process != nil && m.process.standby != nil && w.faults.IntN(6) == 0 {
			m.spoil(fullTail+kind(w.faults.IntN(2)), w.faults.Int64N(300_000), time.Duration(w.faults.IntN(8000))*time.Millisecond)
			w.spoiled++
		}
	}
}

// repair ends all troubles of disks.
func (w *world) repair() {
	for _, m := range w.machines {
		if m.process != nil {
			m.spoil(fullTail, 0, 0)
		}
	}
}

// All that the standby confirms after a trouble of its disk survives a restart and a power cut (P2).
func TestAStandbyWithABadDiskLosesNothing(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]kind{"a full disk": fullDisk, "a full disk of the tail": fullTail, "a bad disk": badTail} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 6, func(w *world) {
				w.boot()
				for range 4 {
					primary, standby := w.settle()
					standby.spoil(kind, w.rng.Int64N(50_000), 10*time.Second)
					pass(8 * time.Second)
					if kind != badTail {
						w.mode(primary, pair.ModeAlone)
					}
					w.repair()
					pass(5 * time.Second)
					w.works()
					if w.rng.IntN(2) == 0 {
						standby.die(w.rng.IntN(101))
						standby.boot()
					}
					w.settle()
					primary.die(100)
					require.NoError(w, standby.promote())
					pass(time.Second)
					w.tend()
				}
				w.end()
			})
		})
	}
}
