// Package archiving keeps the archive of a running data directory up to date: it brings the logs of
// the stores into a stream, takes the archive's next term, and writes the stream to the archive.
// docs/decisions/0053-stream.md and docs/decisions/0054-archive.md have the rules.
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
	"fanfare/internal/follow"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

const (
	// takeAtStart is the time for which a start waits for the archive. A refusal within this time is an error of
	// the start.
	takeAtStart = 3 * time.Second
	// late is the lag beyond Config.Every from which a loss of the machine is worth a warning.
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
	// Shared is the stream of a pair of machines, nil without a pair. Stream and Spool are not used then.
	Shared *Shared
	// Every is the time between two segments.
	Every time.Duration
	// Base is a directory on the disk of the stores, for the copies of which bases are made.
	Base string
	// BaseLog is the number of bytes of log after which a base is made. Keep is the age up to which a
	// restore can return.
	BaseLog int64
	Keep    time.Duration
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
	// Random draws from 0 to 1 for the waits between tries; rand.Float64 if nil.
	Random func() float64
	Log    *zap.Logger
}

// Shared is the stream of the primary of a pair, which the primary runs and closes.
type Shared struct {
	Stream *stream.Stream
	// Receiver holds the frames for the archive, from before the stores are opened on.
	Receiver *stream.Receiver
	// Upto returns the place up to which the archive may have the stream, because a standby that takes over has it, too.
	Upto func() stream.Position
	// Pair is the place of the primary in its pair.
	Pair archive.Pair
	// Tail is what a standby had before it became the primary.
	Tail Tail
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
	keeper   atomic.Pointer[archive.Keeper]
	refused  atomic.Bool
	// seen is the newest segment of a writer that may still live, at the time seenAt; nil if the directory is surely the writer's.
	seen   *archive.Seen
	seenAt time.Time
}

// Open prepares the archive before Pebble opens the stores. If the archive answers in time and
// refuses the directory, Open returns that error, for which archive.Refused is true. If the archive is
// away, Open succeeds. In a pair, Open does not ask the archive, because a machine that takes over must not wait.
func Open(ctx context.Context, cfg Config) (*Archiving, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	a := &Archiving{cfg: cfg, opened: time.Now()}
	var err error
	stores := follow.Stores{FS: cfg.FS, Queue: cfg.Queue, Table: cfg.Table}
	if cfg.Shared == nil { // else the primary has compared the logs
		err = stores.Compare()
	}
	if err != nil {
		return nil, err
	}
	if a.ends, err = stores.End(); err != nil {
		return nil, err
	}
	if err := cfg.State.Begin(a.ends); err != nil {
		return nil, err
	}
	if shared := cfg.Shared; shared != nil {
		a.join(shared.Stream, shared.Receiver, shared.Upto)
		return a, nil
	}
	soon, cancel := context.WithTimeout(ctx, takeAtStart)
	defer cancel()
	if err := a.take(soon); err != nil {
		if archive.Refused(err) || ctx.Err() != nil {
			return nil, err
		}
		cfg.Log.Warn("the process starts without the archive, and a loss of this machine would lose the writes since the last segment", zap.Error(err))
	}
	return a, a.openStream(stores)
}

// openStream opens the stream. If the end of the archive is not known yet, all frames of the spool are needed.
func (a *Archiving) openStream(stores follow.Stores) error {
	var from stream.Position
	if a.term != nil {
		from = stream.Position(a.term.From)
	}
	config := stream.Config{FS: a.cfg.FS, Dir: a.cfg.Stream, Spool: a.cfg.Spool, Log: a.cfg.Log, Now: a.cfg.Now}
	opened, receiver, err := stores.OpenStream(config, from)
	if err != nil {
		return err
	}
	a.join(opened, receiver, opened.End)
	return nil
}

// join connects the archive with its stream, to which no store writes yet.
func (a *Archiving) join(opened *stream.Stream, receiver *stream.Receiver, upto func() stream.Position) {
	a.stream, a.intake = opened, &intake{stream: opened, receiver: receiver, upto: upto, log: a.cfg.Log, rest: opened.End()}
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
	if a.seen != nil {
		if err := backoff.Wait(ctx, time.Until(a.seenAt.Add(archive.Quiet(a.cfg.Every)))); err != nil {
			return err
		}
	}
	start := a.cfg.State.Start(a.ends, a.cfg.Version, a.cfg.DataFormat)
	start.Seen = a.seen
	if a.cfg.Shared != nil {
		start.Pair = &a.cfg.Shared.Pair
		if err := a.complete(ctx, start); err != nil {
			return err
		}
	}
	term, err := a.archive.Take(ctx, start)
	if unsure, ok := errors.AsType[*archive.UnsureError](err); ok {
		a.seen, a.seenAt = &unsure.Seen, time.Now()
	}
	if err != nil {
		return err
	}
	if err := a.cfg.State.Take(term); err != nil {
		return err
	}
	a.term = &term
	if a.cfg.Shared != nil {
		if err := a.cfg.Shared.Tail.Forget(); err != nil {
			a.cfg.Log.Warn("cannot remove the tail of the standby", zap.Error(err))
		}
	}
	a.cfg.Log.Info("the archive gets the writes of this process", zap.Uint64("term", term.Number))
	return nil
}

// Tapped returns the file system for a store, which brings the logs of the store into the stream.
func (a *Archiving) Tapped(store stream.Store) vfs.FS {
	return disk.TappedFS{FS: a.cfg.FS, Tap: a.stream.Tap(store)}
}

// Checkpoint makes a directory with copies of the stores, as archive.Source has it.
type Checkpoint func(ctx context.Context, dir string) error

// Run writes the stream to the archive, and makes bases of checkpoints, until ctx ends, which is no error. If
// another process has taken the archive, or if the archive refuses the directory, Run returns an error for which
// archive.Refused is true, and the process has to stop.
func (a *Archiving) Run(ctx context.Context, checkpoint Checkpoint) error {
	ctx, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	if a.cfg.Shared == nil {
		others.Go(func() { a.stream.Run(ctx) })
	}
	defer others.Wait()
	defer stop()
	err := a.takeLater(ctx)
	if err == nil && a.term != nil {
		a.intake.begin(stream.Position(a.term.From))
		archiver := archive.NewArchiver(a.intake, a.archive.Writer(*a.term), a.cfg.Every, a.cfg.Log)
		archiver.Random = a.cfg.Random
		keeper := archive.NewKeeper(archiver, source{a.stream, checkpoint}, archive.KeeperConfig{
			FS: a.cfg.FS, Dir: a.cfg.Base, BaseLog: a.cfg.BaseLog, Keep: a.cfg.Keep, Log: a.cfg.Log,
		})
		others.Go(func() { keeper.Run(ctx) })
		a.keeper.Store(keeper)
		a.archiver.Store(archiver)
		err = archiver.Run(ctx)
	}
	a.refused.Store(archive.Refused(err))
	return err
}

// source is the data directory of which bases are made.
type source struct {
	stream     *stream.Stream
	checkpoint Checkpoint
}

// Settled implements archive.Source.
func (s source) Settled() (stream.Position, error) {
	err := s.stream.Settle()
	return s.stream.Safe(), err
}

// Checkpoint implements archive.Source.
func (s source) Checkpoint(ctx context.Context, dir string) error { return s.checkpoint(ctx, dir) }

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
		if backoff.Wait(ctx, waits.Jittered(tries, a.cfg.Random())) != nil {
			return nil //nolint:nilerr // the end of ctx is a stop
		}
	}
	return nil
}

// Drain writes the rest of the stream, and seals the term, so that no later start has to ask whether this process lives. Call Drain after Run
// has returned without an error, and after the stores are closed. An archive that is away until ctx ends is no error, because the next
// start hands the rest on. The machines of a pair do not seal: the next primary does.
func (a *Archiving) Drain(ctx context.Context) error {
	archiver := a.archiver.Load()
	if archiver == nil {
		return nil
	}
	for {
		before, _ := archiver.Reached()
		if err := archiver.Drain(ctx); archive.Refused(err) {
			return err
		} else if err != nil {
			a.cfg.Log.Warn("the archive lacks the last writes: the next start brings them", zap.Int64("bytes", a.Behind()), zap.Error(err))
			return nil
		}
		// The first segment may be an older part, whose write was interrupted by the stop.
		if after, _ := archiver.Reached(); after.Next == before.Next || after.End.Covers(a.stream.End()) {
			break
		}
	}
	if a.cfg.Shared != nil {
		return nil
	}
	n, err := a.archive.Seal(ctx, *a.term)
	if err == nil {
		err = a.cfg.State.Sealed(n)
	}
	if err != nil {
		a.cfg.Log.Warn("the term of the archive has no end: after a boot, the next start waits for a minute", zap.Error(err))
	}
	return nil
}

// Close closes the stream, whose spool stays for the next process. The primary of a pair closes its stream itself.
func (a *Archiving) Close() error {
	if a.cfg.Shared != nil {
		return nil
	}
	return a.stream.Close()
}

// Lag returns the age of the oldest write that the archive lacks: a loss of the machine loses no older write.
func (a *Archiving) Lag() time.Duration {
	archiver := a.archiver.Load()
	if archiver == nil {
		return time.Since(a.opened)
	}
	lag := archiver.Lag() // first: the stream keeps a frame until the archiver has written it
	if _, since := a.intake.behind(); !since.IsZero() {
		lag = max(lag, time.Since(since))
	}
	return lag
}

// Behind returns about how many bytes of the stream the archive lacks.
func (a *Archiving) Behind() int64 {
	bytes, _ := a.intake.behind()
	return bytes
}

// Spooled returns the size of the spool in bytes.
func (a *Archiving) Spooled() int64 { return a.stream.Spooled() }

// Gaps returns the number of gaps that this process made. A gap counts when the stream drops frames, and the
// archive may still be away then.
func (a *Archiving) Gaps() int64 {
	n, _ := a.intake.receiver.Gaps()
	return n
}

// BaseAge returns the age of the newest base, or the time since the start if there is no base.
func (a *Archiving) BaseAge() time.Duration {
	if keeper := a.keeper.Load(); keeper != nil {
		if base := keeper.Latest(); base != nil {
			return time.Since(base.MadeAt)
		}
	}
	return time.Since(a.opened)
}

// Fenced reports whether the archive refused this process: another process writes to the archive.
func (a *Archiving) Fenced() bool { return a.refused.Load() }

// Late returns an error if the archive is late.
func (a *Archiving) Late() error {
	if lag := a.Lag(); lag > late+a.cfg.Every {
		return fmt.Errorf("the archive lacks the writes of the last %s: check its store, the credentials and the network", lag.Round(time.Second))
	}
	return nil
}

// errGap is the warning about a gap.
var errGap = errors.New("frames are missing, because the spool was full or a standby took over: restores to a later time need the next base")

// Gap returns an error if the archive has a gap and no later base.
func (a *Archiving) Gap() error {
	gaps, open := a.intake.receiver.Gaps()
	if open || a.intake.unwritten.Load() {
		return errGap
	}
	archiver := a.archiver.Load()
	if archiver == nil || gaps == 0 {
		return nil
	}
	reached, _ := archiver.Reached()
	base := a.keeper.Load().Latest()
	if base == nil || base.Term < a.term.Number || base.First <= reached.Gap {
		return errGap
	}
	return nil
}
