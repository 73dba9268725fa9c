package disk

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waitingDB is a store that may have a waiting compaction.
type waitingDB struct{ allowed, waiting, asked, begun atomic.Int64 }

func (db *waitingDB) GetAllowedWithoutPermission() int { return int(db.allowed.Load()) }

func (db *waitingDB) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	db.asked.Add(1)
	return db.waiting.Load() > 0, pebble.WaitingCompaction{}
}

func (db *waitingDB) Schedule(pebble.CompactionGrantHandle) bool {
	db.waiting.Add(-1)
	db.begun.Add(1)
	return true
}

// pass lets virtual time pass, until all goroutines wait.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// An idle process must not wake up for compactions, and a waiting compaction must not wait forever.
func TestTheSchedulerLooksOnlyWhileACompactionWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, s := new(waitingDB), new(scheduler)
		db.allowed.Store(1)
		s.Register(1, db)
		pass(time.Hour)
		assert.Zero(t, db.asked.Load(), "looks of an idle hour")

		db.allowed.Store(0)
		db.waiting.Store(1)
		begins, _ := s.TrySchedule()
		require.False(t, begins)
		pass(10 * grantEvery)
		assert.Positive(t, db.asked.Load())
		assert.Zero(t, db.begun.Load())
		db.allowed.Store(1)
		pass(2 * grantEvery)
		assert.EqualValues(t, 1, db.begun.Load())

		s.Done()
		pass(2 * grantEvery)
		asked := db.asked.Load()
		pass(time.Hour)
		assert.Equal(t, asked, db.asked.Load(), "looks of an idle hour")
		s.Unregister()
	})
}
