// Package embedded is the table of one process, on Pebble: what a newcomer runs
// and what one machine can carry. It keeps the contract of package table, with
// conditions and transactions that never conflict but wait for each other, and it
// computes capacity units by DynamoDB's size rules.
//
// It must never answer from what a crash may still take back (I5; durable.go says
// how), never end the process over a disk in trouble (package disk), and never hold
// memory that grows with the table (I9).
//
// The index is kept as hints: a hint says that an item may be in the index, and
// the item itself decides. So a batch can put items outside of the index without a
// look at what they replace, which is what makes deliveries cheap; a hint that
// such a put leaves behind is skipped by reads and removed by the sweep. The one
// deviation from the contract is of the same kind: such a put is billed by its own
// size, even if it replaces a larger or an indexed item.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"strconv"
	"sync"
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

// FormatError says that a newer version of this program wrote the data directory.
type FormatError struct{ Found, Known int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("embedded: the data directory has format %d, this program knows up to %d: use a newer program", e.Found, e.Known)
}

const formatVersion = 1

func formatKey() []byte { return append([]byte{kindMeta}, "format"...) }

// Options are what a Store needs beside its directory. The zero value is good.
type Options struct {
	// FS holds the directory; nil is the operating system's.
	FS vfs.FS
	// Now is the clock that the sweep compares ttl with; nil is time.Now.
	Now func() time.Time
	// Log hears of a disk in trouble; nil drops it.
	Log *zap.Logger
	// SweepEvery is the pause between two sweeps for expired items: 0 is ten
	// minutes, below 0 never.
	SweepEvery time.Duration
	// MemoryBytes bounds the memory for cached blocks and writes that are not
	// yet in sorted files; 0 is 128 MiB.
	MemoryBytes int64

	noSync  bool // a planted bug: answers before the log is synced
	noLocks bool // a planted bug: decides without locks
	stopL0  int  // a planted bug, if above 0: so many sorted files in the way hold up writes
}

const (
	defaultSweepEvery  = 10 * time.Minute
	defaultMemoryBytes = 128 << 20
	memTables          = 4 // at most this many, each of a fourth of the memory
)

// Store is a table in one directory. Close ends it.
type Store struct {
	db      *disk.DB
	commits *commits
	hash    hashes
	now     func() time.Time

	locks   locks
	scratch sync.Pool // of *batchScratch

	life   sync.RWMutex // read-held by each call, held alone by Close
	closed bool

	stopSweep context.CancelFunc
	sweeper   sync.WaitGroup

	closing  sync.Once
	closeErr error
}

var _ table.Store = (*Store)(nil)

// Open opens the table in dir and makes it if there is none. A directory that is
// open already is disk.ErrInUse, one of a newer format a *FormatError.
func Open(dir string, opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
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
	db, err := disk.Open(dir, opts.FS, opts.Log.Named("table"), pebbleOptions(opts), checkFormat)
	if err != nil {
		return nil, fmt.Errorf("embedded table: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		db: db, commits: newCommits(db.DB, opts.noSync), hash: hashes{maphash.MakeSeed()}, now: opts.Now,
		locks: locks{off: opts.noLocks}, stopSweep: stop,
	}
	if opts.SweepEvery > 0 {
		s.sweeper.Go(func() { s.sweepForever(ctx, opts.SweepEvery, opts.Log) })
	}
	return s, nil
}

func pebbleOptions(opts Options) *pebble.Options {
	o := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   opts.MemoryBytes,
		MemTableSize:                uint64(opts.MemoryBytes / memTables), //nolint:gosec // above 0
		MemTableStopWritesThreshold: memTables,
		// Compaction takes the larger part of a delivery's CPU time. It begins late
		// and on one core, and takes another when much is left to do; writes are
		// never stalled for it.
		L0CompactionThreshold:      8,
		L0StopWritesThreshold:      1000,
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, max(2, runtime.GOMAXPROCS(0)/2) },
	}
	if opts.stopL0 > 0 {
		o.L0StopWritesThreshold = opts.stopL0
	}
	for i := range o.Levels {
		// An absent key costs no read of a file.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

func checkFormat(db *pebble.DB) error {
	v, closer, err := db.Get(formatKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return db.Set(formatKey(), []byte(strconv.Itoa(formatVersion)), pebble.Sync)
	}
	if err != nil {
		return err
	}
	found, err := strconv.Atoi(string(v))
	switch {
	case err != nil:
		err = fmt.Errorf("format version %q: %w", v, errCorrupt)
	case found > formatVersion:
		err = &FormatError{Found: found, Known: formatVersion}
	}
	return errors.Join(err, closer.Close())
}

// Health says what keeps the store from writing, nil if nothing: disk.ErrFull, which
// may pass, or disk.ErrFailed.
func (s *Store) Health() error { return s.db.Health() }

// Stalls returns how often writes were held up since Open.
func (s *Store) Stalls() disk.Stalls { return s.db.Stalls() }

// Close waits for calls that have begun and closes the table. All that was
// answered is durable without it. Over a disk in trouble it gives up instead of
// waiting: the process should end, and the next one finds everything.
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

// enter begins a call. If it returns nil the caller must leave.
func (s *Store) enter(ctx context.Context, op table.Op) error {
	err := ctx.Err()
	if err == nil {
		err = s.db.Health()
	}
	if err == nil {
		s.life.RLock()
		if !s.closed {
			return nil
		}
		s.life.RUnlock()
		err = ErrClosed
	}
	return unavailable(op, err)
}

func (s *Store) leave() { s.life.RUnlock() }

func unavailable(op table.Op, err error) error {
	if _, known := errors.AsType[*table.UnavailableError](err); err == nil || known {
		return err
	}
	return &table.UnavailableError{Op: string(op), Err: err}
}

// await waits until a commit is durable. The caller may go sooner, then the
// outcome is unknown.
func (s *Store) await(ctx context.Context, c *commit) error {
	if c == nil {
		return nil
	}
	if _, err := disk.Await(ctx, s.db, c.done); err != nil {
		return err
	}
	return c.err
}

// settle waits until what was seen of these slots is durable.
func (s *Store) settle(ctx context.Context, slots ...uint32) error {
	for _, slot := range slots {
		if err := s.await(ctx, s.commits.pending(slot)); err != nil {
			return err
		}
	}
	return nil
}
