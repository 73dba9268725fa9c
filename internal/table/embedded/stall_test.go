package embedded

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/planttest"
)

// stuck is a file system on which compactions wait until gate is closed.
type stuck struct {
	vfs.FS
	gate chan struct{}
}

func (s stuck) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == "pebble-compaction" {
		<-s.gate
	}
	return s.FS.Create(name, category)
}

// pileUp writes entries to the same homes 40 times. Each time the entries go into a new sorted
// file that overlaps all earlier files.
func pileUp(t *testing.T, s *Store) {
	t.Helper()
	for post := range 40 {
		_, err := s.BatchWrite(t.Context(), benchEntries(post, 0))
		assert.NoError(t, err)
		assert.NoError(t, s.db.Flush())
	}
}

// While all compactions are stuck and 40 sorted files accumulate, no write waits.
func TestCompactionDoesNotStallWrites(t *testing.T) {
	t.Parallel()
	fs := stuck{vfs.NewMem(), make(chan struct{})}
	// The memory has room for all entries, so no write waits for a flush on a busy machine.
	s := open(t, "data", Options{FS: fs, MemoryBytes: 8 << 20, SweepEvery: -1})
	release := sync.OnceFunc(func() { close(fs.gate) })
	t.Cleanup(release) // release has to run before the store is closed
	written := make(chan struct{})
	go func() { defer close(written); pileUp(t, s) }()
	ended := func() bool {
		select {
		case <-written:
			return true
		default:
			return false
		}
	}
	disktest.Until(t, func() bool { return ended() || s.Stats().CompactionStalls > 0 })
	if !ended() {
		t.Error("a write waits for compaction")
		release()
		<-written
	}
	if n := s.db.Metrics().Levels[0].Sublevels; n < 40 {
		t.Errorf("%d sorted files piled up, want all 40", n)
	}
	if got := s.Stats(); got.FlushStalls+got.CompactionStalls != 0 {
		t.Errorf("writes were held up: %+v", got)
	}
}

// With Pebble's own limit on sorted files, TestCompactionDoesNotStallWrites must find and count a stall.
func TestAStallIsFound(t *testing.T) {
	t.Parallel()
	binary := plant(t, "store.go", planttest.Edit{Old: "L0StopWritesThreshold:      1000,", New: "L0StopWritesThreshold:      12,"})
	planttest.MustFail(t, binary, "TestCompactionDoesNotStallWrites", "a write waits for compaction", 1)
}
