package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
)

// ready lets join make the two paired.
func (s *session) ready() {
	select {
	case s.joins <- struct{}{}:
	default:
	}
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
		p.promise.atMost(t.heard + p.cfg.Timing.Lease) // P14: a standby that takes over from a pair waits only for its own promise
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

// pair stores that the two are paired, and then sends it to the standby.
func (s *session) pair() error {
	p := s.primary
	role := *p.role
	role.Mode, role.Peer = ModePaired, s.peer.Disk // P6: the disk of this session
	if err := role.Save(); err != nil {
		return fmt.Errorf("store the role: %w", err)
	}
	p.mu.Lock()
	t := p.tenure
	t.unsure, t.alone = "", t.alone+p.cfg.Timing.Now()-t.since
	*p.role = role
	p.joining = false
	p.keepFrames()
	p.release()
	p.wake() // Paired waits for either: the standby, or a promise of the register
	p.mu.Unlock()
	p.cfg.Log.Info("paired: each answered write is on both machines", zap.String("standby", role.Peer))
	return s.tell()
}

// left makes a paired primary alone at once, because its standby has stopped in order.
func (p *Primary) left() {
	p.mu.Lock()
	p.tenure.heard = min(p.tenure.heard, p.cfg.Timing.Now()-p.cfg.Timing.Patience-time.Nanosecond)
	p.mu.Unlock()
	p.tenure.wake()
}

// errLeft ends the session of a standby that has stopped in order.
var errLeft = errors.New("the standby has stopped")

// other reports whether the register may say that the primary is paired with another disk.
func (t *tenure) other(disk string) bool { return t.unsure != "" && t.unsure != disk }

// granted notes the answer to a heartbeat. A promise counts only for a paired primary: a primary that is not paired needs the register's promise.
// The caller holds mu.
func (p *Primary) granted(asked time.Duration, promised bool) {
	t := p.tenure
	t.heard = max(t.heard, asked)
	switch {
	case promised && p.role.Mode == ModePaired:
		p.promise.renew(asked, p.cfg.Timing.Lease)
	case t.unsure != "": // the register may have the pair already: the promise of the register and the wait of the standby must hold
		p.promise.renew(asked, min(p.cfg.Timing.Lease, t.until-asked))
	}
}
