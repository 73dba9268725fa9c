package embedded

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/table"
)

// # What makes an answer durable
//
// Pebble shows a batch to readers once it is in memory, before its log record is
// synced. So that no answer rests on what a crash may still take back, the store
// keeps for each partition the last commit that may not be durable yet (its slot),
// and an answer that saw the partition waits for it. A write does not wait for the
// ones that it was decided on: they are before it in the log, so its own sync
// covers them. Locks are held until a batch is in memory, never over a sync, so
// that writers of one key share a sync as all others do.
//
// Lock order: locks in ascending order of their index, then commits.mu.

const (
	lockCount = 1 << 12
	slotCount = 1 << 16
)

// locks keep decisions and writes of one key apart. Who decides on what it reads
// holds a key's lock alone; writers that look at nothing share it, as Pebble puts
// them in order itself.
type locks struct {
	stripes [lockCount]sync.RWMutex
	off     bool // for the test that shows that the concurrency test can fail
}

// lockOne holds one key's lock alone and returns the call that gives it back.
func (l *locks) lockOne(hash uint64) (unlock func()) {
	if l.off {
		return func() {}
	}
	stripe := &l.stripes[hash%lockCount]
	stripe.Lock()
	return stripe.Unlock
}

// lockSet is a set of locks to hold at once.
type lockSet struct {
	alone, shared [lockCount / 64]uint64
}

func (s *lockSet) add(hash uint64, alone bool) {
	i := hash % lockCount
	if alone {
		s.alone[i/64] |= 1 << (i % 64)
	} else {
		s.shared[i/64] |= 1 << (i % 64)
	}
}

func (l *locks) lock(s *lockSet) {
	if l.off {
		return
	}
	for w := range s.alone {
		for m := s.alone[w] | s.shared[w]; m != 0; m &= m - 1 {
			bit := bits.TrailingZeros64(m)
			if s.alone[w]&(1<<bit) != 0 {
				l.stripes[w*64+bit].Lock()
			} else {
				l.stripes[w*64+bit].RLock()
			}
		}
	}
}

func (l *locks) unlock(s *lockSet) {
	if l.off {
		return
	}
	for w := range s.alone {
		for m := s.alone[w] | s.shared[w]; m != 0; m &= m - 1 {
			bit := bits.TrailingZeros64(m)
			if s.alone[w]&(1<<bit) != 0 {
				l.stripes[w*64+bit].Unlock()
			} else {
				l.stripes[w*64+bit].RUnlock()
			}
		}
	}
}

// hashes spreads keys over locks and partitions over slots.
type hashes struct{ seed maphash.Seed }

func (h hashes) partition(pk string) uint64 { return maphash.String(h.seed, pk) }

func (h hashes) key(partition uint64, sk string) uint64 {
	return partition*0x9e3779b97f4a7c15 + maphash.String(h.seed, sk)
}

// commit is a batch on its way to the disk.
type commit struct {
	seq     uint64
	batch   *pebble.Batch
	err     error
	applied sync.WaitGroup
	done    chan struct{} // closed when the batch is durable, or err says why not
}

// commits brings batches to the disk and knows which are there.
type commits struct {
	db     *pebble.DB
	noSync bool // for the test that shows that the durability test can fail

	mu    sync.Mutex // orders seq and queue alike
	seq   uint64
	queue chan *commit
	slots [slotCount]atomic.Pointer[commit]
	ended chan struct{}
}

// inFlight bounds the commits that wait for a sync.
const inFlight = 1024

func newCommits(db *pebble.DB, noSync bool) *commits {
	c := &commits{db: db, noSync: noSync, queue: make(chan *commit, inFlight), ended: make(chan struct{})}
	go c.finish()
	return c
}

// close waits until all commits are done. None may be begun any more.
func (c *commits) close() {
	close(c.queue)
	<-c.ended
}

// finish waits for the syncs of commits in their order, which is close to that of
// the log, so one goroutine waits for all.
func (c *commits) finish() {
	defer close(c.ended)
	for next := range c.queue {
		next.applied.Wait()
		if next.err == nil && !c.noSync {
			next.err = next.batch.SyncWait()
		}
		if err := next.batch.Close(); next.err == nil {
			next.err = err
		}
		next.batch = nil
		close(next.done)
	}
}

// apply makes a batch visible. The caller holds the locks of its keys, and waits
// for the commit's done after giving them back.
func (c *commits) apply(batch *pebble.Batch, slots []uint32) *commit {
	next := &commit{batch: batch, done: make(chan struct{})}
	next.applied.Add(1)
	c.mu.Lock()
	c.seq++
	next.seq = c.seq
	c.queue <- next
	c.mu.Unlock()

	for _, i := range slots {
		slot := &c.slots[i]
		for old := slot.Load(); old == nil || old.seq < next.seq; old = slot.Load() {
			if slot.CompareAndSwap(old, next) {
				break
			}
		}
	}
	if c.noSync {
		next.err = c.db.Apply(batch, pebble.NoSync)
	} else {
		next.err = c.db.ApplyNoSyncWait(batch, pebble.Sync)
	}
	next.applied.Done()
	return next
}

// pending returns the last commit to the slot's partitions, nil if all of them
// are durable.
func (c *commits) pending(slot uint32) *commit {
	last := c.slots[slot].Load()
	if last == nil {
		return nil
	}
	select {
	case <-last.done:
		return nil
	default:
		return last
	}
}

func slotOf(partition uint64) uint32 { return uint32(partition % slotCount) }

// of returns what a key's lock and its slot are chosen by.
func (h hashes) of(k table.Key) (key, partition uint64) {
	partition = h.partition(k.PK)
	return h.key(partition, k.SK), partition
}
