// Package embedded is the table of a single process, on Pebble: the table that a newcomer
// runs, as large as one machine can hold. It keeps the contract of package table.
// Conditions and transactions never conflict: they wait for each other. It computes
// capacity units by DynamoDB's size rules.
//
// It must never answer from a write that a crash may still undo (I5; see durable.go),
// never end the process because of its disk (package disk), and never hold memory that
// grows with the table (I9).
//
// The index is kept as hints: a hint means that an item may be in the index, and the item
// itself decides. So a batch can put items without index keys without a read of the items
// that they replace, which makes deliveries cheap. If such a put replaces an indexed
// item, it leaves a wrong hint: reads skip the hint and the sweep removes it. The same
// fact causes the one deviation from the contract: such a put is billed by its own size,
// even if it replaces a larger or an indexed item.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/table"
)

// ErrClosed is the cause of an UnavailableError after Close.
var ErrClosed = errors.New("embedded: the store is closed")

// format is the format of the keys and values.
func format() disk.Format { return disk.Format{Key: append([]byte{kindMeta}, "format"...), Known: 1} }

// pebbleFormat is the format of Pebble's own files. It is pinned, so that an upgrade of
// only the library does not lock out the previous version of Fanfare.
const pebbleFormat = pebble.FormatValueSeparation

// Options are the settings of a Store. The zero value is usable.
type Options struct {
	// FS holds the directory; nil is the operating system's.
	FS vfs.FS
	// Now is the clock that the sweep compares ttl with; nil is time.Now.
	Now func() time.Time
	// Doubt returns an error while the clock is too uncertain to decide that an item has
	// expired: then the sweep deletes nothing. nil means no doubt.
	Doubt func() error
	// Log receives the errors of the disk and of sweeps. If it is nil, nothing is logged.
	Log *zap.Logger
	// SweepEvery is the pause between two sweeps for expired items. 0 is ten minutes;
	// below 0 the store never sweeps by itself.
	SweepEvery time.Duration
	// Stop ends an Open that waits for room on a full disk. It may be nil.
	Stop <-chan struct{}
	// MemoryBytes bounds the memory for cached items, cached blocks and writes that are not
	// yet in sorted files; 0 is 128 MiB.
	MemoryBytes int64
}

const (
	defaultSweepEvery  = 10 * time.Minute
	defaultMemoryBytes = 128 << 20
	memTables          = 4 // the memory is split over at most this many
	recentShare        = 8 // recent takes one part in so many of the memory
)

// Store is a table in one directory. Close ends it.
type Store struct {
	db      *disk.DB
	commits *commits
	recent  *recent
	hash    hashes
	now     func() time.Time
	doubt   func() error

	locks      locks
	workspaces sync.Pool // of *workspace
	keys       sync.Pool // of *[]byte: keys of reads, which escape to the heap

	life   sync.RWMutex // each call holds it shared, Close holds it exclusively
	closed bool

	stopSweep context.CancelFunc
	sweeper   sync.WaitGroup

	closing  sync.Once
	closeErr error
}

var _ table.Store = (*Store)(nil)

// Open opens the table in dir, or makes it. The error is disk.ErrInUse for a directory
// that is already open, and a *disk.FormatError for one of a newer format. On a full disk
// Open waits for room.
func Open(dir string, opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Doubt == nil {
		opts.Doubt = func() error { return nil }
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.SweepEvery == 0 {
		opts.SweepEvery = defaultSweepEvery
	}
	if opts.MemoryBytes <= 0 {
		opts.MemoryBytes = defaultMemoryBytes
	}
	waiting := new(atomic.Int64)
	options := pebbleOptions(opts.MemoryBytes)
	options.FS = opts.FS
	options.WALMinSyncInterval = func() time.Duration { return pause(waiting.Load()) }
	db, err := disk.Open(opts.Stop, dir, opts.Log.Named("table"), options, format())
	if err != nil {
		return nil, fmt.Errorf("embedded table: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		db: db, commits: newCommits(db.DB, waiting), recent: newRecent(opts.MemoryBytes / recentShare), hash: hashes{maphash.MakeSeed()}, now: opts.Now, doubt: opts.Doubt, stopSweep: stop,
	}
	if opts.SweepEvery > 0 {
		s.sweeper.Go(func() { s.sweepForever(ctx, opts.SweepEvery, opts.Log) })
	}
	return s, nil
}

func pebbleOptions(memoryBytes int64) *pebble.Options {
	o := &pebble.Options{
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   memoryBytes - memoryBytes/recentShare,
		MemTableSize:                uint64(memoryBytes / memTables),
		MemTableStopWritesThreshold: memTables,
		// Compaction takes most of a delivery's CPU time. It begins late and on one core,
		// uses another core when its backlog is large, and never stalls writes.
		L0CompactionThreshold:      8,
		L0StopWritesThreshold:      1000,
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, max(2, runtime.GOMAXPROCS(0)/2) },
	}
	for i := range o.Levels {
		// With the filter an absent key costs no read of a file.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// Health returns the reason why the store cannot write, nil if it can: disk.ErrFull or
// disk.ErrStuck, which may pass, or disk.ErrFailed. Reads continue to work.
func (s *Store) Health() error { return s.db.Health() }

// Damage returns disk.ErrDamaged once a read met damaged data.
func (s *Store) Damage() error { return s.db.Damage() }

// Room returns an error while the disk is nearly full.
func (s *Store) Room() error { return s.db.Room() }

// Stats returns the figures of the store. It must not be called after Close.
func (s *Store) Stats() disk.Stats {
	stats := s.db.Stats()
	stats.ItemBytes = s.recent.used.Load()
	return stats
}

// Checkpoint copies the table into the new directory dir, see disk.DB.Checkpoint.
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	if err := s.enterWrite(ctx, opCheckpoint); err != nil {
		return err
	}
	defer s.leave()
	return s.failure(opCheckpoint, s.db.Checkpoint(dir))
}

const opCheckpoint = table.Op("checkpoint")

// Close waits for calls that have begun and closes the table. Answered writes are durable
// without Close. On a disk in trouble it gives up instead of waiting. Then the process
// should end, and the next process finds every answered write.
func (s *Store) Close() error {
	s.stopSweep()
	s.closing.Do(func() {
		if err := s.db.Close(s.finish); err != nil {
			s.closeErr = fmt.Errorf("embedded: close the table: %w", err)
		}
	})
	return s.closeErr
}

func (s *Store) finish() {
	s.sweeper.Wait()
	s.life.Lock()
	s.closed = true
	s.life.Unlock()
	s.commits.close()
}

// enterWrite is enter for a call that writes, which needs a disk that can be written.
func (s *Store) enterWrite(ctx context.Context, op table.Op) error {
	if err := s.db.Health(); err != nil {
		return s.failure(op, err)
	}
	return s.enter(ctx, op)
}

// enter begins a call. If it returns nil, the caller must call leave.
func (s *Store) enter(ctx context.Context, op table.Op) error {
	err := ctx.Err()
	if err == nil {
		s.life.RLock()
		if !s.closed {
			return nil
		}
		s.life.RUnlock()
		err = ErrClosed
	}
	return s.failure(op, err)
}

func (s *Store) leave() { s.life.RUnlock() }

// failure returns the error of a call. A retry mends all failures but damaged data.
func (s *Store) failure(op table.Op, err error) error {
	if _, typed := errors.AsType[*table.UnavailableError](err); err == nil || typed {
		return err
	}
	if damaged := s.db.Damaged(err); damaged != nil {
		return fmt.Errorf("table: %s: %w", op, damaged)
	}
	return &table.UnavailableError{Op: string(op), Err: err}
}

// await waits until a commit is durable. If ctx ends earlier, the outcome is unknown.
func (s *Store) await(ctx context.Context, c *commit) error {
	if c == nil {
		return nil
	}
	if _, err := disk.Await(ctx, s.db, c.done); err != nil {
		return err
	}
	return c.err
}

// settle waits until all writes that a reader of these slots may have seen are durable.
func (s *Store) settle(ctx context.Context, slots ...uint32) error {
	for _, slot := range slots {
		c := s.commits.pending(slot)
		err := s.await(ctx, c)
		if errors.Is(err, disk.ErrStuck) { // the log still works
			select {
			case <-c.done:
				err = c.err
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
