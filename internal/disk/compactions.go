package disk

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler runs as many concurrent compactions as Pebble allows. After a failed compaction it
// pauses all compactions: Pebble would restart the failed compaction at once, and an unreadable
// block would make it fail again.
type scheduler struct {
	db      pebble.DBForCompaction
	stop    chan struct{}
	free    chan struct{} // receives after a compaction has ended
	granter sync.WaitGroup

	mu      sync.Mutex
	running int
	looking bool          // a timer will wake grantForever
	pause   time.Duration // 0 after a success
	until   time.Time
}

const (
	// grantEvery is the time after which the scheduler checks the waiting compactions again.
	grantEvery         = 100 * time.Millisecond
	minPause, maxPause = time.Second, time.Minute
)

// ended handles the end of a compaction. After a failure it sets a pause.
func (s *scheduler) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.pause, s.until = 0, time.Time{}
	case !errors.Is(err, pebble.ErrCancelledCompaction):
		s.pause = min(max(2*s.pause, minPause), maxPause)
		s.until = time.Now().Add(s.pause)
	}
}

// Register implements pebble.CompactionScheduler.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) {
	s.db, s.stop, s.free = db, make(chan struct{}), make(chan struct{}, 1)
	s.granter.Go(s.grantForever)
}

// Unregister implements pebble.CompactionScheduler.
func (s *scheduler) Unregister() {
	close(s.stop)
	s.granter.Wait()
}

// TrySchedule implements pebble.CompactionScheduler.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running >= s.db.GetAllowedWithoutPermission() || time.Now().Before(s.until) {
		s.lookAgain()
		return false, nil
	}
	s.running++
	return true, s
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (s *scheduler) UpdateGetAllowedWithoutPermission() { s.wake() }

// Started implements pebble.CompactionGrantHandle.
func (s *scheduler) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (s *scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (s *scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (s *scheduler) Done() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	s.wake()
}

// lookAgain checks the waiting compactions again after grantEvery. A store without waiting compactions
// sets no timer, so an idle process sleeps. The caller holds mu.
func (s *scheduler) lookAgain() {
	if s.looking {
		return
	}
	s.looking = true
	time.AfterFunc(grantEvery, func() {
		s.mu.Lock()
		s.looking = false
		s.mu.Unlock()
		s.wake()
	})
}

func (s *scheduler) wake() {
	select {
	case s.free <- struct{}{}:
	default:
	}
}

// grantForever starts the compactions that TrySchedule refused.
func (s *scheduler) grantForever() {
	for {
		select {
		case <-s.free:
		case <-s.stop:
			return
		}
		for s.grant() {
		}
	}
}

// grant starts one waiting compaction and reports whether it started one. It must not hold mu
// during calls of the store, because the store takes its own lock before it calls TrySchedule.
func (s *scheduler) grant() bool {
	if waiting, _ := s.db.GetWaitingCompaction(); !waiting {
		return false
	}
	granted, handle := s.TrySchedule()
	if !granted {
		return false
	}
	if !s.db.Schedule(handle) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		s.lookAgain()
		return false
	}
	return true
}
