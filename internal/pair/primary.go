package pair

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// PrimaryConfig is the configuration of a primary.
type PrimaryConfig struct {
	// Role is the role of the data directory. The primary changes and saves it.
	Role *Role
	// FS is the file system of the directories; the operating system's file system if nil.
	FS vfs.FS
	// Stream is the directory of the spool. Queue and Table are the directories of the stores. Seeds is a directory on
	// the disk of the stores, for the copies that are sent to a standby.
	// Tail is the directory of the tail of a standby.
	Stream, Queue, Table, Seeds, Tail string
	// Spool is the maximum size of the spool in bytes, and SeedRate the rate of a seed in bytes a second. LogSpan is the size of the
	// stream in bytes after which a store begins its next log; 64 MiB if 0.
	Spool, SeedRate, LogSpan int64
	// Archive makes the stream keep its frames for an archive, too, until the spool is full.
	Archive bool
	Timing  Timing
	// Register decides who is the primary.
	Register Register
	// Dial connects with the other machine, to ask whether it is the primary; nil if it cannot be asked.
	Dial       func(context.Context) (net.Conn, error)
	DataFormat int
	Version    string
	// Secret is FANFARE_DEV_SECRET, which both machines must have.
	Secret string
	Log    *zap.Logger
}

// Checkpoint makes a directory with the files that a seed has. It copies the queue first and then the table.
type Checkpoint func(ctx context.Context, dir string) error

// Primary is the primary's side of a pair.
type Primary struct {
	cfg     PrimaryConfig
	stream  *stream.Stream
	ends    stream.Position  // where the logs ended at the start
	rest    stream.Position  // behind the last frame that the start has read from the logs
	archive *stream.Receiver // holds the frames that the archive lacks; nil without an archive
	role    *Role            // only the session's goroutine and HandOver change it, under mu

	serving chan struct{} // full while one session takes the place of another one

	mu         sync.Mutex
	checkpoint Checkpoint
	beginLog   func(stream.Store) error
	session    *session         // nil without a standby
	receiver   *stream.Receiver // holds the frames that the standby has not confirmed
	acked      stream.Position  // the standby's disk has the stream up to here
	waiting    []waiter
	joining    bool // answers wait for a standby with which the primary is not paired yet (P7)
	serves     bool // the start has ended, and callers may get answers
	stopping   bool // nobody gets answers any more
	promise    promise
	tenure     *tenure
	met        bool  // the other machine was asked once whether this machine may be the primary
	reason     error // why this machine must not be the primary any more; nil until over is closed
	over       chan struct{}
	isAsked    bool
	asked      chan struct{}
	changed    chan struct{} // closed at the next change of a session
	lastAck    time.Duration
	former     string // the process of the standby of the newest session that has ended, at the time leftAt
	leftAt     time.Duration
	apart      string // why the newest session was refused or has ended
	asks       string // the Name of the register of the standby that was refused last, "" since a session
	moved      chan struct{}
}

// waiter is a write that waits for the standby.
type waiter struct {
	store stream.Store
	at    stream.Place
	done  chan struct{}
}

// OpenPrimary opens the stream of the stores before Pebble opens them. The stream keeps the frames that the peer of the role
// may lack.
func OpenPrimary(cfg PrimaryConfig) (*Primary, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.LogSpan == 0 {
		cfg.LogSpan = tailSize
	}
	if err := cfg.Role.copied(); err != nil {
		return nil, err
	}
	stores := follow.Stores{FS: cfg.FS, Queue: cfg.Queue, Table: cfg.Table}
	if err := cfg.Role.compare(stores); err != nil {
		return nil, err
	}
	cfg.Timing = cfg.Timing.withClock()
	p := &Primary{cfg: cfg, role: cfg.Role, met: cfg.Dial == nil, over: make(chan struct{}), asked: make(chan struct{}), changed: make(chan struct{}), moved: make(chan struct{}), serving: make(chan struct{}, 1)}
	var err error
	if p.ends, err = stores.End(); err != nil {
		return nil, err
	}
	config := stream.Config{Dir: cfg.Stream, Spool: cfg.Spool, Keep: p.role.Mode == ModePaired, Log: cfg.Log}
	if p.stream, p.receiver, err = stores.OpenStream(config, stream.Position{}); err != nil {
		return nil, err
	}
	p.rest = p.stream.End()
	if cfg.Archive {
		p.archive = p.stream.Hold()
		p.archive.Keep(false) // no write waits for an archive
	}
	if p.role.Peer == "" {
		p.receiver.Close()
		p.receiver = nil
	}
	p.tenure = newTenure(p.cfg)
	p.promise.begin(cfg.Timing)
	return p, nil
}

// Tap returns the tap of a store.
func (p *Primary) Tap(store stream.Store) stream.Tap { return p.stream.Tap(store) }

// Archive returns the stream, and the receiver of the archive.
func (p *Primary) Archive() (*stream.Stream, *stream.Receiver) { return p.stream, p.archive }

// Archivable returns the place up to which an archive may have the stream: a standby that can take over without a loss has
// everything before this place. When the two become paired, the standby has everything before the moment of the join, and so
// everything that the archive got before this moment (P8). A primary alone whose promise has ended may have answered before.
func (p *Primary) Archivable() stream.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alone() {
		return p.stream.End()
	}
	return p.acked
}

// SetCheckpoint sets the function that copies the stores. Seeds begin when it is set.
func (p *Primary) SetCheckpoint(checkpoint Checkpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkpoint = checkpoint
}

// SetBeginLog sets the function that makes a store begin its next log soon, and that does not wait.
func (p *Primary) SetBeginLog(begin func(stream.Store) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginLog = begin
}

// turnLogs ends the logs that are too old. A standby keeps its tail from the beginning of the newest log of each store, so the log of an idle
// store must not stay the newest one.
func (p *Primary) turnLogs(turned *stream.Position) {
	p.mu.Lock()
	begin := p.beginLog
	p.mu.Unlock()
	for store := stream.Queue; begin != nil && store <= stream.Table; store++ {
		log, size := p.stream.Log(store)
		if size > p.cfg.LogSpan && turned.Of(store).Log != log && begin(store) == nil {
			*turned = turned.With(store, stream.Place{Log: log})
		}
	}
}

// Run keeps the stream in memory and in the spool until ctx ends. While there is no standby, Run asks the other
// machine whether this machine may be the primary.
func (p *Primary) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { p.stream.Run(ctx) })
	others.Go(func() { p.ask(ctx) })
	others.Go(func() { p.keep(ctx) })
	ticker := time.NewTicker(p.cfg.Timing.Heartbeat)
	defer ticker.Stop()
	var turned stream.Position // the logs that were asked to end
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.turnLogs(&turned)
		// A store that is idle after a write without a sync would stop the safe point, and the standby would not apply.
		if p.stream.Safe() != p.stream.End() {
			if err := p.stream.Settle(); err != nil {
				p.cfg.Log.Warn("cannot sync a log for the standby", zap.Error(err))
			}
		}
	}
}

// Close closes the stream. Call Close after Run and all calls of Serve have returned.
func (p *Primary) Close() error {
	p.promise.stop()
	return p.stream.Close()
}

// end returns the position at which the logs end.
func (p *Primary) end() stream.Position { return most(p.stream.End(), p.ends) }

// Confirmed returns a channel that is closed when the standby's disk has the log of a store up to a place. It
// returns nil if the primary answers by itself (P1).
func (p *Primary) Confirmed(store stream.Store, at stream.Place) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answersAlone() {
		return nil
	}
	w := waiter{store, at, make(chan struct{})}
	if p.confirmed(w) {
		close(w.done)
	} else {
		p.waiting = append(p.waiting, w)
	}
	return w.done
}

// confirmed reports whether a write may be answered because the standby's disk has it. The caller holds mu.
func (p *Primary) confirmed(w waiter) bool {
	return !p.acked.Of(w.store).Before(w.at) && (p.role.Mode == ModePaired || p.leased())
}

// answersAlone reports whether no write has to wait for a standby. The caller holds mu.
func (p *Primary) answersAlone() bool { return p.stopping || p.alone() && p.leased() }

// alone reports whether no standby can take over without the loss of an answered write. The caller holds mu.
func (p *Primary) alone() bool {
	return p.role.Mode == ModeAlone && !p.joining && !p.tenure.other("") && p.reason == nil
}

// StopWaiting ends all waits for the standby. Call StopWaiting at a stop, when nobody gets answers any more: Pebble
// syncs its log when it closes, and a stop must not wait for a standby that is away.
func (p *Primary) StopWaiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	p.release()
}

// release answers the writes that the standby's disk has, or all if no write has to wait. The caller holds mu.
func (p *Primary) release() {
	alone := p.answersAlone()
	left := p.waiting[:0]
	for _, w := range p.waiting {
		if alone || p.confirmed(w) {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	clear(p.waiting[len(left):])
	p.waiting = left
}

// Paired waits until the standby of a paired primary has answered in a session, or the register lets the primary be alone. Call Paired before Pebble opens the stores,
// because Pebble writes when it opens (P17).
func (p *Primary) Paired(ctx context.Context) error {
	for {
		p.mu.Lock()
		ready, changed := p.role.Mode != ModePaired && p.leased() || p.role.Mode == ModePaired && p.session != nil && p.session.answered, p.changed
		p.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-p.over:
			return p.Reason()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrAway, context.Cause(ctx))
		}
	}
}

// keepFrames lets the stream keep what the standby of a pair lacks, because only an operator could end such a gap. While the primary is alone,
// no write waits for the standby, so the spool has a limit. The caller holds mu.
func (p *Primary) keepFrames() {
	if p.receiver != nil {
		p.receiver.Keep(p.role.Mode == ModePaired)
	}
}

// wake wakes the calls that wait for a change of a session. The caller holds mu.
func (p *Primary) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Promised reports whether reads may be answered now: a paired primary may answer during a promise of the standby, and a primary alone during a
// promise of the register (P11).
func (p *Primary) Promised() bool { return p.promise.holds() }

// PromiseEnds returns a channel that is closed when the promise has ended without another one.
func (p *Primary) PromiseEnds() <-chan struct{} { return p.promise.ends() }

// Asked returns a channel that is closed when the paired standby asks this machine to hand over.
func (p *Primary) Asked() <-chan struct{} { return p.asked }

// lag returns about how many bytes the standby has not confirmed. The caller holds mu.
func (p *Primary) lag() int64 {
	if p.receiver == nil {
		return 0
	}
	bytes, _ := p.receiver.Behind(p.stream.End())
	return bytes
}

// Status returns the state of the pair.
func (p *Primary) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{
		Role: p.role.Role, Mode: p.role.Mode, Term: p.role.Term, Connected: p.session != nil, Joining: p.joining,
		Lag: p.lag(), Ack: Millis{p.lastAck}, Promise: Millis{p.promise.rest()}, At: p.acked,
	}
	p.tenure.fill(&s, p.cfg.Timing.Now())
	if p.session == nil {
		s.Reason = p.apart
	} else {
		s.Seeded, s.SeedSize = p.session.seeded.Load(), p.session.seedSize.Load()
	}
	return s
}
