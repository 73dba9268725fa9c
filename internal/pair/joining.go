package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
)

// ready lets join make the two paired, if there is a register.
func (s *session) ready() error {
	if s.primary.tenure == nil {
		return s.pair()
	}
	select {
	case s.joins <- struct{}{}:
	default:
	}
	return nil
}

// join makes the two paired by the register. Acks arrive meanwhile, and answers wait for them.
func (s *session) join(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.joins: // each ack asks again
		}
		if err := s.pairByRegister(ctx); err != nil {
			s.primary.cfg.Log.Warn("cannot write into the register that the two are paired", zap.Error(err))
			if err := backoff.Wait(ctx, s.primary.cfg.Timing.Heartbeat); err != nil {
				return err
			}
		}
	}
}

// pairByRegister writes into the register that the two are paired. From before the request on, until its result is known, the
// standby may become the primary, so answers wait for its disk even if the session ends.
func (s *session) pairByRegister(ctx context.Context) error {
	p, t := s.primary, s.primary.tenure
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timing.Lease)
	defer cancel()
	done, err := t.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	p.mu.Lock()
	due := p.session == s && p.joining && p.role.Mode == ModeAlone && !t.leaving && p.reason == nil
	if due {
		t.unsure = s.peer.Disk
	}
	p.mu.Unlock()
	if !due {
		return nil
	}
	if err := p.answered(t.write(ctx, ModePaired, s.peer.Disk)); err != nil { // P6: the disk of this session
		return err
	}
	return s.pair()
}

// pair stores that the two are paired, and then sends it to the standby. Without a register, the standby cannot be
// promoted until the role is stored, so the primary may still answer by itself after a crash.
func (s *session) pair() error {
	p := s.primary
	role := *p.role
	role.Mode, role.Peer = ModePaired, s.peer.Disk // P6: the disk of this session
	if err := role.Save(); err != nil {
		return fmt.Errorf("store the role: %w", err)
	}
	p.mu.Lock()
	if t := p.tenure; t != nil {
		now := p.cfg.Timing.Now()
		t.unsure, t.alone = "", t.alone+now-t.since
	}
	*p.role = role
	p.joining = false
	p.keepFrames()
	p.promise.need()
	p.release()
	p.wake() // Paired waits for either: the standby, or a promise of the register
	p.mu.Unlock()
	p.cfg.Log.Info("paired: each answered write is on both machines", zap.String("standby", role.Peer))
	return s.tell()
}

// left makes a paired primary alone at once, because its standby has stopped in order.
func (p *Primary) left() {
	if p.tenure == nil {
		return
	}
	p.mu.Lock()
	p.tenure.heard = min(p.tenure.heard, p.cfg.Timing.Now()-p.cfg.Timing.Patience-time.Nanosecond)
	p.mu.Unlock()
	p.tenure.wake()
}

// errLeft ends the session of a standby that has stopped in order.
var errLeft = errors.New("the standby has stopped")

// other reports whether the register may say that the primary is paired with another disk.
func (t *tenure) other(disk string) bool { return t != nil && t.unsure != "" && t.unsure != disk }

// granted notes the answer to a heartbeat. A promise counts only for a paired primary: with a register, a primary that is
// not paired needs the register's promise. The caller holds mu.
func (p *Primary) granted(asked time.Duration, promised bool) {
	if p.tenure == nil {
		p.promise.renew(asked, p.cfg.Timing.Lease)
		return
	}
	p.tenure.heard = max(p.tenure.heard, asked)
	if promised && p.role.Mode == ModePaired {
		p.promise.renew(asked, p.cfg.Timing.Lease)
	}
}
