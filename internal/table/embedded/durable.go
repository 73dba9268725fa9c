package embedded

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/table"
)

// # How an answer becomes durable
//
// Pebble shows a batch to readers once the batch is in memory, before its log record is synced.
// No answer may depend on a write that a crash can still undo. So the store keeps, for each
// partition, the last commit that may not be durable yet (in the partition's slot), and an
// answer from the partition waits for this commit. A write does not wait for the writes that
// its decision saw: they precede the write in the log, so the write's own sync covers them.
// Locks are held until a batch is in memory, and never during a sync, so writers of the same
// key also share syncs.
//
// The lock order is: locks in ascending order of their index, and then commits.mu.

const (
	lockCount = 1 << 12
	slotCount = 1 << 16
)

// locks has the locks of all keys. They prevent a write of a key during a decision about the
// key. A caller that reads a key and decides on it holds the key's lock exclusively. Writers
// that read nothing share the lock, because Pebble itself orders their writes.
type locks struct {
	stripes [lockCount]sync.RWMutex
}

// lockOne locks one key exclusively, and returns the function that unlocks the key.
func (l *locks) lockOne(hash uint64) (unlock func()) {
	stripe := &l.stripes[hash%lockCount]
	stripe.Lock()
	return stripe.Unlock
}

// lockSet is a set of locks that one caller holds at the same time.
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

// hashes spreads keys over locks, and partitions over slots.
type hashes struct{ seed maphash.Seed }

func (h hashes) partition(pk string) uint64 { return maphash.String(h.seed, pk) }

func (h hashes) key(partition uint64, sk string) uint64 {
	return partition*0x9e3779b97f4a7c15 + maphash.String(h.seed, sk)
}

// commit is a batch that is being written to the disk.
type commit struct {
	seq     uint64
	batch   *pebble.Batch
	err     error
	applied sync.WaitGroup
	done    chan struct{} // closed when the batch is durable, or when err is set
	over    atomic.Bool   // reports whether done is closed; each read checks it
}

// A sync takes as much CPU time as many commits. So after a sync for at least crowd commits,
// the next sync waits for gather, and more commits share it. A few writers never wait for other
// writers.
const (
	crowd  = 8
	gather = 2 * time.Millisecond
)

// pause returns the time for which the next sync waits. waiting is the number of commits that
// are not durable after the previous sync.
func pause(waiting int64) time.Duration {
	if waiting < crowd {
		return 0
	}
	return gather
}

// commits has the batches that are being written to the disk.
type commits struct {
	waiting *atomic.Int64                                   // the commits that are not durable yet
	write   func(*pebble.Batch, *pebble.WriteOptions) error // makes a batch visible, and begins its sync

	mu    sync.Mutex // gives seq and queue the same order
	seq   uint64
	queue chan *commit
	slots [slotCount]atomic.Pointer[commit]
	ended chan struct{}
}

// inFlight bounds the commits that wait for a sync.
const inFlight = 1024

func newCommits(db *pebble.DB, waiting *atomic.Int64) *commits {
	c := &commits{waiting: waiting, write: db.ApplyNoSyncWait, queue: make(chan *commit, inFlight), ended: make(chan struct{})}
	go c.finish()
	return c
}

// close waits until all commits are done. No further commit may begin.
func (c *commits) close() {
	close(c.queue)
	<-c.ended
}

// finish waits for the syncs of commits, in the order of the commits. One goroutine can wait for all syncs,
// because the order of the commits is close to the order of the log.
func (c *commits) finish() {
	defer close(c.ended)
	for next := range c.queue {
		next.applied.Wait()
		if next.err == nil {
			next.err = next.batch.SyncWait()
		}
		if err := next.batch.Close(); next.err == nil {
			next.err = err
		}
		next.batch = nil
		c.waiting.Add(-1)
		next.over.Store(true)
		close(next.done)
	}
}

// apply makes a batch visible. The caller holds the locks of the batch's keys, releases these
// locks afterwards, and then waits for the commit's done.
func (c *commits) apply(batch *pebble.Batch, slots []uint32) *commit {
	next := &commit{batch: batch, done: make(chan struct{})}
	next.applied.Add(1)
	c.waiting.Add(1)
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
	next.err = c.write(batch, pebble.Sync)
	next.applied.Done()
	return next
}

// pending returns the last commit in a slot, nil if all commits of the slot's partitions are durable.
func (c *commits) pending(slot uint32) *commit {
	last := c.slots[slot].Load()
	if last == nil || last.over.Load() {
		return nil
	}
	return last
}

// last returns the number of the slot's last commit. settled reports whether this commit and
// all earlier commits of the slot are durable.
func (c *commits) last(slot uint32) (seq uint64, settled bool) {
	last := c.slots[slot].Load()
	if last == nil {
		return 0, true
	}
	return last.seq, last.over.Load() && last.err == nil
}

func slotOf(partition uint64) uint32 { return uint32(partition % slotCount) }

// of returns two hashes of a key: the first chooses the key's lock, and the second chooses its slot.
func (h hashes) of(k table.Key) (key, partition uint64) {
	partition = h.partition(k.PK)
	return h.key(partition, k.SK), partition
}
