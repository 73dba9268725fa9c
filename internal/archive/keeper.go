package archive

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"fanfare/internal/backoff"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

const (
	// oldest is the age of a base from which a new base is due.
	oldest = 24 * time.Hour
	// retainEvery is the time between two runs of the retention.
	retainEvery = time.Hour
	// sendRate and readRate are the bytes a second that a base sends, and reads to compute hashes.
	sendRate, readRate = 20 << 20, 100 << 20
	// mostTries is the maximum number of tries of a call before a base fails.
	mostTries = 10
)

// Source is the data directory of which bases are made. Its calls must not make a write wait.
type Source interface {
	// Settled syncs the logs, and returns the end of the stream, which is a safe point then.
	Settled() (stream.Position, error)
	// Checkpoint makes the directory dir with the files that a restored data directory needs. It
	// copies the queue first and then the table. Each copy has all writes before the call, and no
	// write after the call.
	Checkpoint(ctx context.Context, dir string) error
}

// KeeperConfig is the configuration of a keeper.
type KeeperConfig struct {
	// FS is the file system of the data directory; the operating system's file system if nil.
	FS vfs.FS
	// Dir is the directory of the checkpoint, on the disk of the data. Only the keeper uses it.
	Dir string
	// BaseLog is the number of bytes of log after which a base is made.
	BaseLog int64
	// Keep is the age up to which a restore can return, FANFARE_ARCHIVE_KEEP.
	Keep time.Duration
	Log  *zap.Logger
}

// Keeper makes the bases of an archive, and deletes what no restore needs any more. It does one
// after the other, so no file is deleted while a base relies on it. Run is its only goroutine.
type Keeper struct {
	KeeperConfig
	archive    *Archive
	archiver   *Archiver
	term       Term
	source     Source
	send, read *rate.Limiter
	waits      backoff.Exponential

	latest  atomic.Pointer[Base] // nil if a base is due at once
	at      time.Time            // the time of the latest base, at most the present time
	counted int64                // the archiver's Bytes at the latest base
	size    int64                // the size of the latest checkpoint, 0 if it is unknown
	hashes  map[string]File      // the sorted files of the stores; these files never change
	swept   map[uint64]uint64    // the cutoffs up to which segments are deleted, by their terms
}

// NewKeeper returns the keeper of the archiver's term.
func NewKeeper(archiver *Archiver, source Source, config KeeperConfig) *Keeper {
	if config.FS == nil {
		config.FS = vfs.Default
	}
	return &Keeper{
		KeeperConfig: config, archive: archiver.writer.archive, archiver: archiver, term: archiver.writer.term, source: source,
		send: rate.NewLimiter(sendRate, chunk), read: rate.NewLimiter(readRate, chunk),
		// A failed call may need a later segment, so the first wait is ten of them at most.
		waits:  backoff.Exponential{First: min(10*time.Second, 10*archiver.every), Most: time.Hour},
		hashes: map[string]File{}, swept: map[uint64]uint64{},
	}
}

// Latest returns the newest base of the directory, nil if there is none that a restore to the present can use.
func (k *Keeper) Latest() *Base { return k.latest.Load() }

// Run makes bases and deletes unneeded objects, until ctx ends. Failures are logged and tried
// again. If another process fences the archiver, the archive gets nothing more from the keeper.
func (k *Keeper) Run(ctx context.Context) {
	var start task
	for k.attempt(ctx, &start, "read the archive", k.remember) != nil {
		if backoff.Wait(ctx, time.Until(start.next)) != nil {
			return
		}
	}
	var bases, retention task // a failure of one does not stop the other
	retention.next = time.Now().Add(retainEvery)
	for ctx.Err() == nil {
		reached, changed := k.archiver.Reached()
		switch now := time.Now(); {
		case k.due(reached) && !now.Before(bases.next):
			k.attempt(ctx, &bases, "make a base", k.Make) //nolint:errcheck // it is logged and tried again
		case !now.Before(retention.next):
			if k.attempt(ctx, &retention, "delete what is not needed", k.Retain) == nil {
				retention.next = now.Add(retainEvery)
			}
		default:
			select { // the archiver writes a segment a minute at least
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// task is a work that is tried again after a failure, from the time next on.
type task struct {
	next     time.Time
	failures int
}

// attempt makes a call. If it fails, the next attempt is later. A keeper is never in a hurry.
func (k *Keeper) attempt(ctx context.Context, t *task, what string, call func(context.Context) error) error {
	err := call(ctx)
	if err == nil || ctx.Err() != nil {
		t.failures = 0
		return err
	}
	t.failures++
	t.next = time.Now().Add(k.waits.Jittered(t.failures, 0.5+k.archiver.Random()/2))
	k.Log.Warn("the archive cannot be kept: a restore would take longer, or would need older data", zap.String("call", what), zap.Int("tries", t.failures), zap.Error(err))
	return err
}

// remember finds the latest base of this directory. A damaged object is passed over: a new base
// makes it unnecessary.
func (k *Keeper) remember(ctx context.Context) error {
	c, err := k.archive.catalog(ctx, func(string, error) error { return nil })
	if err != nil {
		return err
	}
	k.latest.Store(c.latest(k.term))
	if b := k.latest.Load(); b != nil {
		k.at = b.MadeAt
	}
	if now := time.Now(); k.at.After(now) {
		k.at = now // the clock was set back
	}
	return k.FS.RemoveAll(k.Dir)
}

// due reports whether a base is due.
func (k *Keeper) due(r Reached) bool {
	b := k.latest.Load()
	return b == nil || r.Gap > 0 && (b.Term < k.term.Number || b.First <= r.Gap) ||
		r.Bytes-k.counted >= k.BaseLog || time.Since(k.at) >= oldest
}

// Make makes a base (A5). The list comes last: a base exists only if the archive has everything
// that a restore with it needs.
func (k *Keeper) Make(ctx context.Context) (err error) {
	if err := errors.Join(k.FS.RemoveAll(k.Dir), k.room(k.size)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.FS.RemoveAll(k.Dir)) }()
	began := time.Now()
	// Everything before the end of the last segment is before From, so the bytes after From are in
	// the next segment or in later ones.
	before, _ := k.archiver.Reached()
	from, err := k.source.Settled()
	if err != nil {
		return err
	}
	if err := k.source.Checkpoint(ctx, k.Dir); err != nil {
		return fmt.Errorf("copy the stores: %w", err)
	}
	to, err := k.source.Settled()
	if err != nil {
		return err
	}
	b := Base{
		Format: baseFormat, DataFormat: k.term.DataFormat, MadeAt: time.Now().UTC(), Version: k.term.Version, Lineage: k.term.Lineage,
		Term: k.term.Number, First: before.Next, From: Position(from), To: Position(to),
	}
	sent, err := k.sendFiles(ctx, &b)
	if err != nil {
		return err
	}
	last, err := k.passed(ctx, b)
	if err != nil {
		return err
	}
	if last.After(b.MadeAt) {
		b.MadeAt = last.UTC()
	}
	if err := k.list(ctx, b); err != nil {
		return err
	}
	k.latest.Store(&b)
	k.at, k.counted = time.Now(), before.Bytes
	k.Log.Info("made a base of the archive", zap.Uint64("term", b.Term), zap.Uint64("segment", b.First), zap.Int("files", len(b.Files)), zap.Int64("sent_bytes", sent), zap.Duration("took", time.Since(began)))
	return nil
}

// passed waits until the archive has the stream up to the end of a base, and returns the time of
// that end. It waits for a segment that begins after the files were sent: so nobody has sealed the
// term before the archive had all files, and no other process may have deleted one.
func (k *Keeper) passed(ctx context.Context, b Base) (time.Time, error) {
	sent, _ := k.archiver.Reached()
	for {
		r, changed := k.archiver.Reached()
		if r.Gap >= b.First {
			return time.Time{}, errors.New("the stream dropped frames during the base")
		}
		if r.Next > sent.Next+1 && r.End.Covers(b.To.stream()) {
			return r.Last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// list writes the list of a base, after a last check that the archive has the files.
func (k *Keeper) list(ctx context.Context, b Base) error {
	there, err := k.files(ctx)
	if err != nil {
		return err
	}
	for _, f := range b.Files {
		if size, ok := there[f.SHA256]; !ok || size != f.Bytes {
			return fmt.Errorf("the archive has not the %d bytes of %s as %s: delete that object if it is damaged", f.Bytes, f.Name, FileName(f.SHA256))
		}
	}
	text, err := b.Encode()
	if err != nil {
		return err
	}
	err = k.patiently(ctx, func() error {
		return k.archive.store.Create(ctx, BaseName(b.Term, b.First), objects.Bytes(text))
	})
	if _, exists := errors.AsType[*objects.ExistsError](err); exists {
		return nil // an earlier try lost its answer, and no segment was written since
	}
	return err
}

// patiently repeats a call while the store is away, mostTries times at most.
func (k *Keeper) patiently(ctx context.Context, call func() error) error {
	waits := backoff.Exponential{First: 500 * time.Millisecond, Most: 30 * time.Second}
	for failures := 1; ; failures++ {
		err := call()
		if !errors.Is(err, objects.ErrAway) || failures == mostTries {
			return err
		}
		if err := backoff.Wait(ctx, waits.Jittered(failures, 0.5+k.archiver.Random()/2)); err != nil {
			return err
		}
	}
}
