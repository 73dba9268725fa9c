package pair

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/datadir"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

const (
	// equalFor is the number of leases for which a primary that hands over waits until the standby has the whole stream.
	equalFor = 2
	// patientFor is the number of leases for which a primary that hands over waits for the standby to become the primary.
	patientFor = 10
	// smallRest is the number of bytes that a standby applies in a moment.
	smallRest = 1 << 20
)

// errTaken ends the session of a standby that has become the primary.
var errTaken = errors.New("the standby has become the primary")

// HandOver makes the standby the primary, and this machine its standby. Before the call, the stores are closed, and no read
// is answered any more. If HandOver returns an error, the role decides how the machine starts again: as
// the primary, or as a standby. HandOver ends within equalFor and patientFor leases.
func (p *Primary) HandOver(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, equalFor*p.cfg.Timing.Lease)
	defer cancel()
	s, err := p.equal(soon)
	if err != nil {
		return err
	}
	// The standby serves without a wait, so this machine must neither read nor be the primary after a crash.
	p.promise.forget()
	if err := p.cfg.FS.RemoveAll(p.cfg.Tail); err != nil { // it is from an earlier time as the standby
		return err
	}
	term, err := p.giveUp(soon)
	if err != nil {
		return err
	}
	s.silence.Store(int64(patientFor * p.cfg.Timing.Lease))
	err = errors.Join(
		s.conn.SetReadDeadline(time.Now().Add(patientFor*p.cfg.Timing.Lease)),
		s.send(msgTakeOver, binary.LittleEndian.AppendUint64(nil, term)),
	)
	if err != nil {
		return fmt.Errorf("hand over to the standby: %w", err)
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	select {
	case t := <-s.taken: // it was sent before the end of the session
		if err := p.submit(s, t.term); err != nil {
			return err
		}
		return beginTail(p.cfg, t.at)
	default:
		return fmt.Errorf("hand over to the standby: %w", errors.Join(ErrAway, context.Cause(ctx)))
	}
}

// equal waits until the standby has all of the stream.
func (p *Primary) equal(ctx context.Context) (*session, error) {
	for {
		p.mu.Lock()
		s, changed := p.session, p.changed
		equal := s != nil && s.told && p.role.Mode == ModePaired && p.acked.Covers(p.stream.End())
		p.mu.Unlock()
		if equal {
			return s, nil
		}
		select {
		case <-changed:
		case <-time.After(p.cfg.Timing.Heartbeat / 10): // acks do not wake
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, or is behind: %w", ErrAway, context.Cause(ctx))
		}
	}
}

// giveUp ends the requests of this primary to the register, and returns the next term. The swap of the standby decides.
func (p *Primary) giveUp(ctx context.Context) (term uint64, err error) {
	done, err := p.tenure.take(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenure.leaving = true
	return p.role.Term + 1, nil
}

// submit stores the role of a standby that has the same data as the machine of a session, which is the primary of a term.
func (p *Primary) submit(s *session, term uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	role := *p.role
	role.Role, role.Mode, role.Term, role.Peer, role.Since = RoleStandby, ModeFollowing, term, s.peer.Disk, 0
	if err := role.Save(); err != nil {
		return err
	}
	*p.role = role
	p.cfg.Log.Info("this machine hands over to its standby", zap.Uint64("term", role.Term))
	return nil
}

// beginTail stores the position from which this machine follows the new primary: the stores are equal, but the new
// primary has logs of its own. Without the position, the machine gets a seed.
func beginTail(cfg PrimaryConfig, at stream.Position) error {
	t, err := openTail(cfg.FS, cfg.Tail, tailSize)
	if err != nil {
		return err
	}
	if err = t.append(stream.SafeAt(at, 0)); err == nil {
		_, err = t.sync()
	}
	return errors.Join(err, t.finish())
}

// takeOver makes the standby the primary. Nothing is confirmed any more. The old primary may be a standby already, so the end
// of the session does not end the promotion.
func (f *following) takeOver(session context.Context, data []byte) error {
	ctx := context.WithoutCancel(session)
	s := f.standby
	if len(data) != 8 || !f.told || binary.LittleEndian.Uint64(data) != s.role.Term+1 {
		return unexpected(msgTakeOver)
	}
	if err := f.stopApply(); err != nil {
		return err
	}
	if _, err := s.tail.sync(); err != nil {
		return err
	}
	s.promotes(true)
	err := s.look(ctx)
	if err == nil {
		err = s.claim(ctx, false)
	}
	if err != nil {
		s.promotes(false)
		return err
	}
	if _, err := s.apply.finish(ctx, false); err != nil {
		return applyError{err}
	}
	if err := s.become(true); err != nil {
		return applyError{err}
	}
	f.outcome = TakeOver
	stores := follow.Stores{FS: s.cfg.FS, Queue: s.path(datadir.Queue), Table: s.path(datadir.Table)}
	at, err := stores.End()
	if err == nil {
		err = f.send(msgTaken, taken{at, s.role.Term}.append(nil))
	}
	if err != nil {
		s.cfg.Log.Warn("the other machine needs a copy of all data", zap.Error(err))
		return errTaken
	}
	// The other machine ends the session: the end of the connection from here could overtake the message.
	late := time.After(greetTime)
	for {
		select {
		case <-f.received:
		case <-session.Done():
			return errTaken
		case <-late:
			return errTaken
		}
	}
}

// promotes notes whether the standby is being promoted.
func (s *Standby) promotes(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promoting = is
}

// CatchUp waits until the standby has applied almost all that it has, or has no session. Call CatchUp before AskToHandOver, because
// during a switch nobody answers until the standby has applied everything.
func (s *Standby) CatchUp(ctx context.Context) error {
	for told := false; ; told = true {
		status := s.Status()
		if status.Lag < smallRest || !status.Connected {
			return nil
		}
		if !told {
			s.cfg.Log.Info("the switch waits until the standby has applied its part of the stream", zap.Int64("bytes", status.Lag))
		}
		if err := backoff.Wait(ctx, s.cfg.Timing.Heartbeat/10); err != nil {
			return fmt.Errorf("the standby has not applied %d bytes of the stream: try again when fanfare pair status shows less: %w", status.Lag, err)
		}
	}
}

// AskToHandOver asks the primary to hand over to this standby. If the primary does, Run returns TakeOver.
func (s *Standby) AskToHandOver(ctx context.Context) error {
	s.mu.Lock()
	own, paired := AskingHello(s.role, s.cfg.DataFormat, s.cfg.Version), s.paired()
	s.mu.Unlock()
	if !paired {
		return ErrNotPaired
	}
	own.HandOver = true
	_, err := Ask(ctx, s.cfg.Dial, own)
	return err
}
