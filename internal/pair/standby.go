package pair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// StandbyConfig is the configuration of a standby.
type StandbyConfig struct {
	// Role is the role of the data directory. The standby changes and saves it.
	Role *Role
	// FS is the file system of the data directory; the operating system's file system if nil. Dir is the path of the directory.
	FS  vfs.FS
	Dir string
	// Stream is the directory of the spool of a primary.
	Stream string
	// Open opens a store for a follower.
	Open func(store stream.Store, dir string) (*disk.DB, error)
	// TailSize is the size in bytes at which the tail begins its next file; 64 MiB if 0.
	TailSize int64
	Timing   Timing
	// Configured is the address of the register that the machine is configured with.
	Configured string
	// Register decides who is the primary. FailoverAfter is the time without a heartbeat after which the standby becomes the primary by itself.
	Register      Register
	FailoverAfter time.Duration
	// Dial connects with the primary.
	Dial func(context.Context) (net.Conn, error)
	// Succeeded is called before the role becomes primary, if the place is known. After a crash the place may change. Then the
	// tail stays, see KeptTail. Nil for no call.
	Succeeded  func(Succession) error
	DataFormat int
	Version    string
	// Secret is FANFARE_DEV_SECRET, which both machines must have.
	Secret string
	Log    *zap.Logger
}

// Outcome is the reason for the end of Standby.Run without an error.
type Outcome int

const (
	// Stopped means that ctx has ended, or that Promote has stopped the standby.
	Stopped Outcome = iota
	// TakeOver means that this machine is the primary from now on, because the primary has handed over, or is away: the role of the data directory is primary, and the stores are closed.
	TakeOver
	// Moved means that the pair moves to the register that the role names.
	Moved
)

// Standby is the standby's side of a pair.
type Standby struct {
	cfg  StandbyConfig
	role *Role // only the goroutine of Run, or of Promote after Run, changes it, under mu

	tail  *tail    // nil during a seed
	apply *applier // nil during a seed

	mu        sync.Mutex
	granted   time.Duration // the time of the last promise; P15: a start counts as a promise
	promoting bool
	moves     bool               // the role may name another register than the one of this process
	running   context.CancelFunc // nil if Run does not run
	ran       chan struct{}      // closed at the end of Run
	connected bool
	follows   string // the process of the primary of the session, empty without one
	refused   bool   // since the newest session, the primary has refused this standby because of its data
	reason    string // why the newest session has ended, empty during a session
	seeded    int64
	view      view
	serveAt   time.Duration      // P14: no earlier promise of the register is left then
	heard     time.Duration      // when the newest heartbeat arrived
	told      time.Duration      // when the newest message arrived that the register has the pair
	interrupt context.CancelFunc // ends the session
	nudge     chan struct{}      // wakes watch
}

// OpenStandby opens the stores of a standby, and its tail.
func OpenStandby(cfg StandbyConfig) (*Standby, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.TailSize == 0 {
		cfg.TailSize = tailSize
	}
	cfg.Timing = cfg.Timing.withClock()
	s := &Standby{cfg: cfg, role: cfg.Role, granted: cfg.Timing.Now()}
	s.heard, s.nudge = s.granted, make(chan struct{}, 1)
	if err := s.role.copied(); err != nil {
		return nil, err
	}
	if s.role.Mode == ModeSeeding {
		return s, nil
	}
	return s, s.openData()
}

// hello returns the hello of the standby. The caller holds mu.
func (s *Standby) hello() Hello {
	var at, announced stream.Position
	if s.apply != nil {
		at, announced = s.apply.tail.end(), s.apply.tail.safe()
	}
	h := s.role.hello(at, s.cfg.DataFormat, s.cfg.Version).proves(s.cfg.Secret)
	h.Announced, h.Lease, h.Follows, h.Register = places(announced), s.cfg.Timing.Lease.Milliseconds(), s.follows, s.cfg.Register.Name()
	return h
}

// path returns the path of a directory of the data directory.
func (s *Standby) path(name string) string { return filepath.Join(s.cfg.Dir, name) }

// TailDir is the directory of the tail in a data directory.
const TailDir = "tail"

// storeDir returns the directory of a store in a data directory.
func storeDir(store stream.Store) string {
	if store == stream.Queue {
		return datadir.Queue
	}
	return datadir.Table
}

// openData opens the tail and the stores.
func (s *Standby) openData() (err error) {
	if s.tail == nil {
		if s.tail, err = openTail(s.cfg.FS, s.path(TailDir), s.cfg.TailSize); err != nil {
			return err
		}
	}
	dbs := map[stream.Store]*disk.DB{}
	for _, store := range []stream.Store{stream.Queue, stream.Table} {
		db, err := s.openStore(store)
		if err != nil {
			return errors.Join(damagedCopy(err), closeStores(dbs))
		}
		dbs[store] = db
	}
	apply, err := newApplier(s.tail, dbs)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply = apply
	return err
}

func closeStores(dbs map[stream.Store]*disk.DB) (err error) {
	for _, db := range dbs {
		err = errors.Join(err, db.Close(func() {}))
	}
	return err
}

// closeData closes the tail and the stores. The stores have synced all that is applied.
func (s *Standby) closeData() error {
	var err error
	if s.apply != nil {
		err = s.apply.close()
	}
	if s.tail != nil {
		err = errors.Join(err, s.tail.finish())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply, s.tail = nil, nil
	return err
}

// Close closes the stores. Call Close after Run has returned.
func (s *Standby) Close() error { return s.closeData() }

// Run follows the primary. It returns an error that only an operator can mend, and otherwise connects again.
func (s *Standby) Run(ctx context.Context) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.promoting {
		s.mu.Unlock()
		return Stopped, nil
	}
	s.running, s.ran = cancel, make(chan struct{})
	s.mu.Unlock()
	defer close(s.ran)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { s.watch(ctx) })
	waits := backoff.Exponential{First: 100 * time.Millisecond, Most: s.cfg.Timing.Patience}
	for failures := 0; ; {
		began := s.cfg.Timing.Now()
		outcome, err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return Stopped, nil
		case outcome != Stopped || final(err):
			return outcome, err
		}
		if failures++; s.cfg.Timing.Now()-began > s.cfg.Timing.Lease || errors.Is(err, errAgain) {
			failures = 1
		}
		if err != nil {
			s.ended(err)
		}
		if failures <= 3 {
			s.cfg.Log.Warn("the standby has no session with its primary", zap.Int("tries", failures), zap.Error(err))
		}
		if backoff.Wait(ctx, waits.Jittered(failures, rand.Float64())) != nil {
			return Stopped, nil
		}
	}
}

// applyError is an error of the stores of the standby.
type applyError struct{ error }

func (e applyError) Unwrap() error { return e.error }

// final reports whether another session cannot succeed.
func final(err error) bool {
	for _, target := range []error{ErrLineage, ErrSameDisk, ErrSelf, ErrVersion, ErrSecret} {
		if errors.Is(err, target) {
			return true
		}
	}
	return errors.As(err, new(applyError))
}

// once makes one session. run ends when the standby stops.
func (s *Standby) once(ctx, run context.Context) (Outcome, error) {
	conn, err := s.cfg.Dial(ctx)
	if err != nil {
		return Stopped, err
	}
	f := &following{standby: s, link: newLink(conn, s.cfg.Timing.Lease)}
	defer s.disconnected()
	outcome, err := f.run(ctx, run)
	return outcome, errors.Join(err, ignoreClosed(conn.Close()))
}

func (s *Standby) connect(primary Hello) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected, s.reason, s.follows, s.refused = true, "", primary.Process, false
}

func (s *Standby) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected, s.follows = false, ""
}

// ended notes why a session has ended.
func (s *Standby) ended(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = why.Error()
	s.refused = s.refused || errors.Is(why, ErrMustSeed) || errors.Is(why, errTwin)
}

// save changes and saves the role.
func (s *Standby) save(change func(*Role)) error {
	role := *s.role
	change(&role)
	if err := role.Save(); err != nil {
		return fmt.Errorf("store the role: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.role = role
	return nil
}

// mayPromote returns an error if the standby must not be promoted.
func (s *Standby) mayPromote(acceptLoss bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.role.Role != RoleStandby || s.role.Mode == ModeSeeding:
		return ErrSeeding
	case s.apply == nil:
		return ErrStopped
	case s.moves:
		return ErrMoves
	}
	return s.refuses(acceptLoss)
}

// lacks reports whether the standby may lack answered writes, whatever the register has: it has no place in the stream, because its
// tail is gone; or the primary has refused it as a copy, or as a disk that has lost something. The
// caller holds mu.
func (s *Standby) lacks() bool {
	return s.apply != nil && s.apply.tail.end() == (stream.Position{}) || s.refused
}

// Refound makes the standby the primary and the first entry of a register that is new, or has lost its entry: the primary must be gone for good. Only writes
// that the primary has answered alone are lost. When Refound returns without an error, the same holds as for Promote.
func (s *Standby) Refound(ctx context.Context) error {
	s.stopRun()
	if err := s.refound(ctx); err != nil {
		return err
	}
	return s.succeed(ctx)
}

// Promote makes the standby the primary. When Promote returns without an error, the stores are closed, and the process
// may open them as the primary. After an error that is not ErrNotPaired or ErrSeeding, the process has to start again.
func (s *Standby) Promote(ctx context.Context, acceptLoss bool) error {
	if err := s.asks(ctx, acceptLoss); err != nil {
		return err
	}
	s.stopRun()                                     // P10: from here on the standby confirms nothing and promises nothing
	if err := s.asks(ctx, acceptLoss); err != nil { // the session may have changed the mode
		return err
	}
	if err := s.claim(ctx, acceptLoss); err != nil {
		return err
	}
	return s.succeed(ctx)
}

// stopRun ends Run for good.
func (s *Standby) stopRun() {
	s.mu.Lock()
	s.promoting = true
	stop, ran := s.running, s.ran
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-ran
	}
}

// remove removes directories.
func (s *Standby) remove(dirs ...string) error {
	for _, dir := range dirs {
		if err := s.cfg.FS.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove older data of the standby: %w", err)
		}
	}
	return nil
}

// Status returns the state of the pair.
func (s *Standby) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Role: s.role.Role, Mode: s.role.Mode, Term: s.role.Term, Connected: s.connected, Reason: s.reason, Seeded: s.seeded}
	if s.paired() {
		status.Mode = ModePaired
	}
	if s.view.version != "" {
		status.Register = s.view.entry.registered(s.cfg.Timing.Now() - s.view.at)
	}
	if s.apply != nil {
		status.At, status.Lag = s.apply.tail.end(), s.apply.tail.length.Load()-s.apply.bytes.Load()
		if err := s.apply.trouble(); err != nil { // it holds the session
			status.Reason = err.Error()
		}
	}
	return status
}

// syncStores brings all that is applied to the disk.
func syncStores(dbs map[stream.Store]*disk.DB) (err error) {
	for _, db := range dbs {
		err = errors.Join(err, db.LogData(nil, pebble.Sync))
	}
	return err
}
