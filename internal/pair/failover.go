package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/objects"
)

// lookEach is the time between two looks of a standby at the register.
const lookEach = time.Second

// view is the newest state of the register that a standby has read.
type view struct {
	entry   Entry
	version objects.Version // empty if the register has not answered yet
	seen    time.Duration   // the time of the first answer with this version
	at      time.Duration   // when the newest answer was asked for
}

// look reads the register.
func (s *Standby) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Lease)
	defer cancel()
	asked := s.cfg.Timing.Now()
	entry, version, err := s.cfg.Register.Read(ctx)
	if errors.Is(err, ErrNoEntry) {
		return ErrNoPrimary
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Timing.Now() // behind the answer: the version may have been written just before it
	if version != s.view.version {
		s.view = view{entry: entry, version: version, seen: now}
	}
	s.view.at = asked
	return nil
}

// watch looks at the register until ctx ends, and ends the session when the standby has to decide.
func (s *Standby) watch(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Timing.Heartbeat / 2)
	defer ticker.Stop()
	away := false
	for next := s.cfg.Timing.Now(); ; {
		if now := s.cfg.Timing.Now(); now >= next {
			next = now + lookEach
			err := s.look(ctx)
			if err != nil && !away && ctx.Err() == nil {
				s.cfg.Log.Warn("the standby cannot read the register, so it cannot become the primary", zap.Error(err))
			}
			away = err != nil
		}
		if s.decides() {
			s.mu.Lock()
			if s.interrupt != nil {
				s.interrupt()
			}
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.nudge:
			next = s.cfg.Timing.Now()
		}
	}
}

// decides reports whether the standby has to become the primary by itself: the register names it already, because an
// earlier try has had its effect, or the primary is silent.
func (s *Standby) decides() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.promoting || s.view.version == "" || s.role.Mode == ModeSeeding:
		return false
	case s.view.entry.Primary == s.role.Disk:
		return true
	}
	return s.cfg.Timing.Now()-s.heard >= s.cfg.FailoverAfter && s.refuses(false) == nil
}

// refuses returns an error if the register does not allow this standby to become the primary. The caller holds mu.
func (s *Standby) refuses(acceptLoss bool) error {
	entry := s.view.entry
	switch {
	case s.view.version == "":
		return ErrNoPrimary
	case entry.Lineage != s.role.Lineage:
		return ErrLineage
	case entry.Primary == s.role.Disk: // it is the primary already
		return nil
	case entry.Mode == ModeEnded: // P24
		return ErrPairEnded
	case (entry.Mode == ModeAlone || entry.Term < s.role.Term || s.lacks()) && !acceptLoss: // P5, P20
		return ErrNotPaired
	case entry.Mode == ModePaired && entry.Standby != s.role.Disk: // P6
		return ErrNotPaired
	}
	return nil
}

// claim makes the register name this standby as the primary (P5). The role has the claim before, so that a crash after
// the swap is no old copy (P17).
func (s *Standby) claim(ctx context.Context, acceptLoss bool) error {
	if _, err := s.apply.step(ctx); err != nil { // a standby whose stores have failed must not win
		return applyError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Lease)
	defer cancel()
	s.mu.Lock()
	old, err := s.view, s.refuses(acceptLoss)
	givesUp := s.refuses(false) != nil || old.entry.Primary == s.role.Disk && s.role.GivesUp // an earlier claim may have had its effect
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.save(func(r *Role) { r.Claimed, r.GivesUp = max(old.entry.Term, r.Term, r.Claimed)+1, givesUp })
	if err != nil {
		return err
	}
	timing := s.cfg.Timing.with(old.entry.Lease)
	next := Entry{Lineage: old.entry.Lineage, Term: s.role.Claimed, Primary: s.role.Disk, Mode: ModeAlone, Lease: timing.Lease.Milliseconds()}
	version, err := s.cfg.Register.Swap(ctx, old.version, next)
	if err != nil {
		return fmt.Errorf("become the primary: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = view{next, version, s.cfg.Timing.Now(), s.cfg.Timing.Now()}
	if old.entry.Mode == ModeAlone {
		s.serveAt = old.seen + timing.outlastAlone() // P14
	}
	return nil
}

// refound writes the first entry of a register, which names this standby. Its term is above all terms that the role has seen.
func (s *Standby) refound(ctx context.Context) error {
	s.mu.Lock()
	role, stopped, lacks, moves := *s.role, s.apply == nil, s.lacks(), s.moves
	s.mu.Unlock()
	switch {
	case role.Role != RoleStandby || role.Mode == ModeSeeding:
		return ErrSeeding
	case stopped:
		return ErrStopped
	case moves:
		return ErrMoves
	case lacks:
		return ErrNotPaired
	}
	if _, err := s.apply.step(ctx); err != nil {
		return applyError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Lease)
	defer cancel()
	next := Entry{Lineage: role.Lineage, Term: max(role.Term, role.Claimed) + 1, Primary: role.Disk, Mode: ModeAlone, Lease: s.cfg.Timing.Lease.Milliseconds()}
	if err := s.save(func(r *Role) { r.Claimed, r.GivesUp = next.Term, false }); err != nil {
		return err
	}
	version, err := s.cfg.Register.Swap(ctx, "", next)
	if errors.Is(err, ErrSwapped) {
		return fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if err != nil {
		return fmt.Errorf("become the primary: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Timing.Now()
	s.view, s.serveAt = view{next, version, now, now}, now+s.cfg.Timing.with(role.Lease).outlastAlone() // P14: of the lost entry
	return nil
}

// failOver makes the standby the primary, if the register allows that. There is no session (P10).
func (s *Standby) failOver(ctx context.Context) (Outcome, error) {
	if err := s.look(ctx); err != nil || !s.decides() {
		return Stopped, err
	}
	if err := s.claim(ctx, false); err != nil {
		return Stopped, err
	}
	s.cfg.Log.Warn("the primary does not answer: this standby becomes the primary", zap.Uint64("term", s.role.Claimed))
	if err := s.succeed(ctx); err != nil {
		return Stopped, applyError{err}
	}
	return TakeOver, nil
}

// succeed ends a promotion after the register has named this machine. From finish on the stores may get writes that the old primary has lost.
func (s *Standby) succeed(ctx context.Context) error {
	if _, err := s.apply.step(ctx); err != nil {
		return err
	}
	if err := s.outwait(ctx); err != nil {
		return err
	}
	exact, err := s.apply.finish(ctx, s.role.GivesUp)
	if err != nil {
		return err
	}
	return s.become(exact)
}

// outwait waits until no other machine has a promise.
func (s *Standby) outwait(ctx context.Context) error {
	s.mu.Lock()
	until := max(s.serveAt, s.granted+s.cfg.Timing.with(s.role.Lease).outlast()) // P15
	s.mu.Unlock()
	return backoff.Wait(ctx, until-s.cfg.Timing.Now())
}

// grants reports whether an ack is a promise: only the paired standby promises something. The primary's message may
// be newer than the view, so a pair needs no answer of the register. The standby outwaits each promise (P15).
func (s *Standby) grants() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paired() || s.told > s.view.at
}

// paired reports whether the standby has each answered write. The primary may be alone without a message to the standby, so only the register
// has that (P5). The caller holds mu.
func (s *Standby) paired() bool {
	return s.view.entry.Mode == ModePaired && s.view.entry.Standby == s.role.Disk
}

// session makes one session, or becomes the primary. The session ends when the standby has to decide.
func (s *Standby) session(run context.Context) (Outcome, error) {
	if s.decides() {
		if outcome, err := s.failOver(run); outcome == TakeOver || final(err) {
			return outcome, err
		} else if err != nil {
			s.cfg.Log.Warn("the standby cannot become the primary", zap.Error(err))
		}
	}
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	s.mu.Lock()
	s.interrupt = cancel
	s.mu.Unlock()
	return s.once(ctx, run)
}

// asks returns an error if the standby must not be promoted. It reads the register first.
func (s *Standby) asks(ctx context.Context, acceptLoss bool) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	return s.mayPromote(acceptLoss)
}

// leave ends a session. A standby that stops in order sends msgBye, and its primary is alone at once.
func (f *following) leave(run context.Context) error {
	if f.leaving.Swap(true) {
		return nil
	}
	s := f.standby
	s.mu.Lock()
	leaves := run.Err() != nil && !s.promoting && s.connected
	s.mu.Unlock()
	var err error
	if leaves {
		f.silence.Store(int64(s.cfg.Timing.Heartbeat))
		if err = f.send(msgBye, nil); err == nil { // the primary ends the session: the end from here could overtake the message
			select {
			case <-f.silent:
			case <-time.After(s.cfg.Timing.Heartbeat):
			}
		}
	}
	return errors.Join(err, ignoreClosed(f.conn.Close()))
}
