package embedded

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stuck is a file system on which no compaction gets on until gate is closed.
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

// pileUp writes entries over the same homes again and again, each time into a sorted
// file that lies across all before it. It returns when that is done.
func pileUp(t *testing.T, s *Store) {
	t.Helper()
	for post := range 40 {
		if _, err := s.BatchWrite(t.Context(), benchEntries(post, 0)); err != nil {
			t.Error(err)
		}
		if err := s.db.Flush(); err != nil {
			t.Error(err)
		}
	}
}

func openStuck(t *testing.T, opts Options) (s *Store, release func()) {
	t.Helper()
	fs := stuck{vfs.NewMem(), make(chan struct{})}
	opts.FS, opts.MemoryBytes, opts.SweepEvery = fs, 1<<20, -1
	s = open(t, "data", opts)
	release = sync.OnceFunc(func() { close(fs.gate) })
	t.Cleanup(release) // before the store is closed
	return s, release
}

// TestCompactionDoesNotStallWrites lets compaction get nowhere while 40 memtables are
// flushed: as many sorted files pile up, and no write waits.
func TestCompactionDoesNotStallWrites(t *testing.T) {
	s, release := openStuck(t, Options{})
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
	until(t, func() bool { return ended() || s.Stalls().Compaction > 0 })
	if !ended() {
		t.Error("a write waits for compaction")
		release()
		<-written
	}
	if n := s.db.Metrics().Levels[0].Sublevels; n < 40 {
		t.Errorf("%d sorted files piled up, want all 40", n)
	}
	if got := s.Stalls(); got.Flush+got.Compaction != 0 {
		t.Errorf("writes were held up: %+v", got)
	}
}

// TestAStallIsFound is the test of the test: with Pebble's own limit on sorted files the
// same writes wait for compaction, and are counted.
func TestAStallIsFound(t *testing.T) {
	s, release := openStuck(t, Options{stopL0: 12})
	var writing sync.WaitGroup
	writing.Go(func() { pileUp(t, s) })
	until(t, func() bool { return s.Stalls().Compaction > 0 })
	release()
	writing.Wait()
}
