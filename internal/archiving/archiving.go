// Package archiving keeps the archive of a running data directory up to date: it brings the logs of
// the stores into a stream, takes the archive's next term, and writes the stream to the archive.
// docs/decisions/0053-stream.md and 0054-archive.md have the rules.
//
// An archive that is away never refuses a write (A8): the process starts without the archive, the
// stream keeps the frames, and the term is taken later. The package must never apply a frame, and
// never delete an object of the archive.
package archiving

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/backoff"
	"fanfare/internal/disk"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

const (
	// takeAtStart is the time for which a start waits for the archive. A refusal within this time is an error of
	// the start.
	takeAtStart = 3 * time.Second
	// late is the lag from which a loss of the machine is worth a warning.
	late = 10 * time.Second
)

// Config is the configuration of the archive of a data directory.
type Config struct {
	// FS is the file system of the directories; the operating system's file system if nil.
	FS vfs.FS
	// Stream is the directory of the spool. Queue and Table are the directories of the stores.
	Stream, Queue, Table string
	// Spool is the maximum size of the spool in bytes.
	Spool int64
	// Every is the time between two segments.
	Every time.Duration
	// State is the archive's own state of the data directory.
	State *archive.State
	// Open opens the store of the archive. It is called until it succeeds.
	Open func(context.Context) (objects.Store, error)
	// Version is the version of the program. DataFormat is the format of the data directory.
	Version    string
	DataFormat int
	// Put is called after each try to write a segment, with "stored", "fenced", "refused" or "away". It may be nil.
	Put func(result string, took time.Duration)
	// Now is the clock of the frames and terms; time.Now if nil.
	Now func() time.Time
	Log *zap.Logger
}

// Archiving is the archive of a running data directory. Open, Run, Drain and Close are for one goroutine.
type Archiving struct {
	cfg    Config
	ends   stream.Position // where the logs ended at the start
	opened time.Time

	stream   *stream.Stream
	intake   *intake
	archive  *archive.Archive // nil until the store is open
	term     *archive.Term    // nil until the term is taken
	archiver atomic.Pointer[archive.Archiver]
}

// Open prepares the archive before Pebble opens the stores. If the archive answers in time and
// refuses the directory, Open returns that error, for which archive.Refused is true. If the archive is
// away, Open succeeds.
func Open(ctx context.Context, cfg Config) (*Archiving, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Archiving{cfg: cfg, opened: time.Now()}
	var err error
	if a.ends, err = a.logsEnd(); err != nil {
		return nil, err
	}
	if err := cfg.State.Begin(a.ends); err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, takeAtStart)
	defer cancel()
	if err := a.take(soon); err != nil {
		if archive.Refused(err) || ctx.Err() != nil {
			return nil, err
		}
		cfg.Log.Warn("the archive does not answer: the process starts without it, and a loss of this machine would lose the writes since the last segment", zap.Error(err))
	}
	return a, a.openStream()
}

// take takes the next term.
func (a *Archiving) take(ctx context.Context) error {
	if a.archive == nil {
		store, err := a.cfg.Open(ctx)
		if err != nil {
			return fmt.Errorf("open the archive: %w", err)
		}
		if a.archive, err = archive.New(&observed{store, a.cfg.Put}, a.cfg.Now); err != nil {
			return err
		}
	}
	term, err := a.archive.Take(ctx, a.cfg.State.Start(a.ends, a.cfg.Version, a.cfg.DataFormat))
	if err != nil {
		return err
	}
	if err := a.cfg.State.Take(term); err != nil {
		return err
	}
	a.term = &term
	a.cfg.Log.Info("the archive gets the writes of this process", zap.Uint64("term", term.Number))
	return nil
}

// Tapped returns the file system for a store, which brings the logs of the store into the stream.
func (a *Archiving) Tapped(store stream.Store) vfs.FS {
	return disk.TappedFS{FS: a.cfg.FS, Tap: a.stream.Tap(store)}
}

// Run writes the stream to the archive until ctx ends, which is no error. If another process has
// taken the archive, or if the archive refuses the directory, Run returns an error for which
// archive.Refused is true, and the process has to stop.
func (a *Archiving) Run(ctx context.Context) error {
	moving, stop := context.WithCancel(ctx)
	var moves sync.WaitGroup
	moves.Go(func() { a.stream.Run(moving) })
	defer moves.Wait()
	defer stop()
	if err := a.takeLater(ctx); err != nil || a.term == nil {
		return err
	}
	a.intake.begin(stream.Position(a.term.From))
	a.archiver.Store(archive.NewArchiver(a.intake, a.archive.Writer(*a.term), a.cfg.Every, a.cfg.Log))
	return a.archiver.Load().Run(ctx)
}

// takeLater takes the term if the archive was away at the start.
func (a *Archiving) takeLater(ctx context.Context) error {
	waits := backoff.Exponential{First: time.Second, Most: 30 * time.Second}
	warned := a.opened
	for tries := 1; a.term == nil; tries++ {
		err := a.take(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case archive.Refused(err):
			return err
		case time.Since(warned) > time.Minute:
			warned = time.Now()
			a.cfg.Log.Warn("the archive still does not answer", zap.Int("tries", tries), zap.Error(err))
		}
		if backoff.Wait(ctx, waits.Jittered(tries, rand.Float64())) != nil {
			return nil
		}
	}
	return nil
}

// Drain writes the rest of the stream. Call Drain after Run has returned without an error, and after the stores are
// closed. An archive that is away until ctx ends is no error, because the next start hands the rest on.
func (a *Archiving) Drain(ctx context.Context) error {
	archiver := a.archiver.Load()
	if archiver == nil {
		return nil
	}
	err := archiver.Drain(ctx)
	if err != nil && !archive.Refused(err) {
		a.cfg.Log.Warn("the archive lacks the last writes: the next start brings them", zap.Int64("bytes", a.Behind()), zap.Error(err))
		return nil
	}
	return err
}

// Close closes the stream, whose spool stays for the next process.
func (a *Archiving) Close() error { return a.stream.Close() }

// Lag returns the age of the oldest write that the archive lacks.
func (a *Archiving) Lag() time.Duration {
	if archiver := a.archiver.Load(); archiver != nil {
		return archiver.Lag()
	}
	return time.Since(a.opened)
}

// Behind returns about how many bytes of the stream the archive lacks.
func (a *Archiving) Behind() int64 { return int64(a.stream.Memory()) + a.stream.Spooled() }

// Spooled returns the size of the spool in bytes.
func (a *Archiving) Spooled() int64 { return a.stream.Spooled() }

// Gaps returns the number of gaps that this process made.
func (a *Archiving) Gaps() int64 { return a.intake.gaps.Load() }

// Late returns an error if the archive is late.
func (a *Archiving) Late() error {
	if lag := a.Lag(); lag > late {
		return fmt.Errorf("the archive lacks the writes of the last %s: check its store, the credentials and the network", lag.Round(time.Second))
	}
	return nil
}

// errGap is the warning about a gap.
var errGap = errors.New("the archive has a gap, because the spool was full: the next base ends it")

// Gap returns an error if the archive has a gap and no later base.
func (a *Archiving) Gap() error {
	if a.intake.needsBase.Load() {
		return errGap
	}
	return nil
}

// Wishes returns a channel that has a value when the archive needs a base soon.
func (a *Archiving) Wishes() <-chan struct{} { return a.intake.wishes }

// Based reports that the archive has a base that began after the last gap.
func (a *Archiving) Based() { a.intake.needsBase.Store(false) }
