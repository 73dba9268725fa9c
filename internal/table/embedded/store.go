// Package embedded is the table of a single process, on Pebble. A new user runs this table, and
// it can be as large as one machine can hold. It implements the contract of package table.
// Conditions and transactions never conflict: they wait for each other. Capacity units are
// computed by DynamoDB's size rules.
//
// The package must never answer from a write that a crash may still undo (I5; see durable.go),
// never end the process because of its disk (package disk), and never use memory that grows
// with the table (I9).
//
// The index consists of hints: a hint means that an item may be in the index, and the item
// itself decides. So a batch can put items without index keys and need not read the items that
// it replaces, which makes deliveries cheap. If such a put replaces an indexed item, a wrong
// hint is left: reads skip the hint, and the sweep removes the hint. There is one deviation
// from the contract: such a put is billed by its own size, even if it replaces a larger or an
// indexed item.
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

// pebbleFormat is the format of Pebble's own files. It is pinned, so that an upgrade of only
// the library does not make the directory unreadable for the previous version of Fanfare.
const pebbleFormat = pebble.FormatValueSeparation

// Options are the settings of a Store. The zero value is usable.
type Options struct {
	// FS is the file system of the directory; the operating system's file system if nil.
	FS vfs.FS
	// Now is the clock with which the sweep compares ttl; time.Now if nil.
	Now func() time.Time
	// Doubt returns an error while the clock is too uncertain to decide that an item has
	// expired: then the sweep deletes nothing. nil means that there is never a doubt.
	Doubt func() error
	// Log receives the errors of the disk and of sweeps. If it is nil, nothing is logged.
	Log *zap.Logger
	// SweepEvery is the pause between two sweeps for expired items. 0 means ten minutes. If
	// SweepEvery is below 0, the store does not sweep by itself.
	SweepEvery time.Duration
	// Stop ends an Open that waits for room on a full disk. It may be nil.
	Stop <-chan struct{}
	// MemoryBytes bounds the memory for cached items, for cached blocks, and for writes that
	// are not yet in sorted files. 0 means 128 MiB.
	MemoryBytes int64
}

const (
	defaultSweepEvery  = 10 * time.Minute
	defaultMemoryBytes = 128 << 20
	memTables          = 4 // the maximum number of memtables that share the memory
	recentShare        = 8 // recent gets one part in recentShare of the memory
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
	workspaces sync.Pool // has values of type *workspace
	keys       sync.Pool // has values of type *[]byte: keys of reads, which escape to the heap

	life   sync.RWMutex // each call holds life shared, and Close holds life exclusively
	closed bool

	stopSweep context.CancelFunc
	sweeper   sync.WaitGroup

	closing  sync.Once
	closeErr error
}

var _ table.Store = (*Store)(nil)

// Open opens the table in dir, which must have each file that the table needs: otherwise the error is a *disk.DamageError. The error
// is disk.ErrInUse if the directory is already open, and a *disk.FormatError if the directory has a newer format. On a
// full disk Open waits for room.
func Open(dir string, opts Options) (*Store, error) { return openStore(dir, opts, true) }

// Create opens the table in dir as Open does, and creates a table where there is none. Only a directory in which
// nothing was answered yet may get a new table.
func Create(dir string, opts Options) (*Store, error) { return openStore(dir, opts, false) }

func openStore(dir string, opts Options, exists bool) (*Store, error) {
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
	options.FS, options.ErrorIfNotExists = opts.FS, exists
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

// OpenReplica opens the table in dir, as Open does, for a follower, which applies the log of another table. Nothing
// else writes to it, and nothing reads it. The operating system's file system is used if fs is nil.
func OpenReplica(fs vfs.FS, dir string, log *zap.Logger) (*disk.DB, error) {
	options := pebbleOptions(defaultMemoryBytes)
	options.ErrorIfNotExists, options.FS = true, fs
	db, err := disk.Open(nil, dir, log.Named("table"), options, format())
	if err != nil {
		return nil, fmt.Errorf("embedded table: %w", err)
	}
	return db, nil
}

func pebbleOptions(memoryBytes int64) *pebble.Options {
	o := &pebble.Options{
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   memoryBytes - memoryBytes/recentShare,
		MemTableSize:                uint64(memoryBytes / memTables),
		MemTableStopWritesThreshold: memTables,
		// Compaction takes most of the CPU time of a delivery. It begins late and on one core,
		// uses more cores if its backlog is large, and never stalls writes.
		L0CompactionThreshold:      8,
		L0StopWritesThreshold:      1000,
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, max(2, runtime.GOMAXPROCS(0)/2) },
	}
	for i := range o.Levels {
		// With the filter, a read of an absent key needs no read of a file.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// Health returns the reason why the store cannot write, nil if the store can write.
// disk.ErrFull, disk.ErrStuck and disk.ErrUnconfirmed may pass. disk.ErrFailed does not pass. Reads continue to
// work.
func (s *Store) Health() error { return s.db.Health() }

// Damage returns disk.ErrDamaged once a read has found damaged data.
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

// BeginLog makes the table begin its next log, see disk.DB.BeginLog.
func (s *Store) BeginLog() error { return s.db.BeginLog() }

const opCheckpoint = table.Op("checkpoint")

// Close waits for calls that have begun and closes the table. Answered writes are durable
// without Close. On a disk in trouble Close gives up instead of waiting. In this case the
// process should end, and the next process finds every answered write.
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

// enterWrite begins a call that writes, as enter does. It also fails if the disk cannot be written.
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

// failure returns the error of a call. A retry may repair any failure except damaged data.
func (s *Store) failure(op table.Op, err error) error {
	if _, typed := errors.AsType[*table.UnavailableError](err); err == nil || typed {
		return err
	}
	if damaged := s.db.Damaged(err); damaged != nil {
		return fmt.Errorf("table: %s: %w", op, damaged)
	}
	return &table.UnavailableError{Op: string(op), Err: err}
}

// await waits until a commit is durable. If ctx ends before that, the outcome is unknown.
func (s *Store) await(ctx context.Context, c *commit) error {
	if c == nil {
		return nil
	}
	if _, err := disk.Await(ctx, s.db, c.done); err != nil {
		return err
	}
	return c.err
}

// settle waits until all writes that a reader of the slots may have seen are durable.
func (s *Store) settle(ctx context.Context, slots ...uint32) error {
	for _, slot := range slots {
		c := s.commits.pending(slot)
		err := s.await(ctx, c)
		if errors.Is(err, disk.ErrStuck) { // the log still works, so the commit may become durable
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
