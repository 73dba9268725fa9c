package pair

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/objects"
)

// tenure is the primary's hold on the register.
type tenure struct {
	register Register
	disk     string
	term     uint64
	lease    int64 // in milliseconds

	// turn orders the requests. It is no mutex, because a request may take long. Its holder uses the two fields below.
	turn    chan struct{}
	entry   Entry
	version objects.Version // empty if unknown

	// The primary's mu guards the fields below.
	unsure  string        // the disk with which the register may say that this primary is paired, empty for none
	leaves  bool          // the register may say that this paired primary is alone
	heard   time.Duration // when the newest heartbeat was sent that the standby has answered
	renewed time.Duration // when the newest renewal was asked for
	until   time.Duration // the end of the register's promise
	leaving bool          // the primary hands over
	known   *Entry
	at      time.Duration // of the newest answer
	since   time.Duration // when this process became alone
	alone   time.Duration // all earlier time alone
	nudge   chan struct{} // wakes keep
}

func newTenure(cfg PrimaryConfig) *tenure {
	now := cfg.Timing.Now()
	return &tenure{
		register: cfg.Register, disk: cfg.Role.Disk, term: cfg.Role.Term, lease: cfg.Timing.Lease.Milliseconds(), turn: make(chan struct{}, 1), nudge: make(chan struct{}, 1),
		heard: now, since: now, renewed: now - cfg.Timing.Lease,
	}
}

// take takes the turn. It returns the function that gives it back.
func (t *tenure) take(ctx context.Context) (func(), error) {
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wake wakes keep.
func (t *tenure) wake() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

// read reads the register. It returns ErrReplaced if the register names another primary, or another process of this one.
func (t *tenure) read(ctx context.Context) error {
	entry, version, err := t.register.Read(ctx)
	if err != nil {
		return err
	}
	t.entry, t.version = entry, version
	if entry.Primary != t.disk || entry.Term != t.term {
		return ErrReplaced
	}
	return nil
}

// write makes a change of mode and standby in the register, while the register names this primary. After an error
// except ErrReplaced, the register may have the change, or may get it until the next successful write.
func (t *tenure) write(ctx context.Context, mode, standby string) error {
	for {
		if t.version == "" {
			if err := t.read(ctx); err != nil {
				return err
			}
		}
		next := t.entry
		next.Mode, next.Standby, next.Lease = mode, standby, t.lease
		if !next.same(t.entry) {
			next.Since = time.Now().UnixMilli()
		}
		version, err := t.register.Swap(ctx, t.version, next)
		if err == nil {
			t.entry, t.version = next, version
			return nil
		}
		t.version = ""
		if !errors.Is(err, ErrSwapped) {
			return err
		}
	}
}

// keep goes alone when the standby does not answer, and renews the register's promise while the primary is alone.
func (p *Primary) keep(ctx context.Context) {
	ticker := time.NewTicker(p.cfg.Timing.Heartbeat / 2)
	defer ticker.Stop()
	for failures := 0; ; {
		p.mu.Lock()
		due := p.loneDue()
		p.mu.Unlock()
		if due {
			err := p.beAlone(ctx)
			if failures++; err == nil {
				failures = 0
			} else if failures == 1 && ctx.Err() == nil {
				p.cfg.Log.Warn("cannot write the register", zap.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-p.tenure.nudge:
		}
	}
}

// loneDue reports whether the register has to be asked: a paired primary whose standby is silent wants to be alone (P4), and a
// primary that is alone needs the next promise (P12). The caller holds mu.
func (p *Primary) loneDue() bool {
	t, now := p.tenure, p.cfg.Timing.Now()
	switch {
	case t.leaving || p.stopping || p.reason != nil:
		return false
	case p.role.Mode == ModePaired:
		return p.met && (t.leaves || p.silent())
	default:
		return now-t.renewed >= p.cfg.Timing.Lease || t.unsure != "" && p.session == nil
	}
}

// silent reports whether the standby does not answer. The caller holds mu.
func (p *Primary) silent() bool {
	return p.cfg.Timing.Now()-p.tenure.heard > p.cfg.Timing.Patience
}

// beAlone makes the register say that this primary answers by itself: the primary becomes alone (P4), or stays alone (P12).
func (p *Primary) beAlone(ctx context.Context) error {
	t := p.tenure
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timing.Lease)
	defer cancel()
	done, err := t.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	p.mu.Lock()
	due, paired := p.loneDue(), p.role.Mode == ModePaired
	back := paired && !p.silent()
	t.leaves = due && paired
	p.mu.Unlock()
	asked := p.cfg.Timing.Now() // P13
	switch {
	case !due:
		return nil
	case back:
		return p.stay(ctx)
	}
	if err = p.answered(t.write(ctx, ModeAlone, "")); err != nil {
		return err
	}
	return p.lone(asked, paired)
}

// stay makes the register say that the primary is paired, after a swap to alone whose result is unknown. The primary has answered
// nothing by itself, so its standby has each answered write.
func (p *Primary) stay(ctx context.Context) error {
	if err := p.answered(p.tenure.write(ctx, ModePaired, p.role.Peer)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenure.leaves = false
	return nil
}

// answered notes an answer of the register.
func (p *Primary) answered(err error) error {
	t := p.tenure
	p.mu.Lock()
	if entry := t.entry; err == nil || errors.Is(err, ErrReplaced) {
		t.known, t.at = &entry, p.cfg.Timing.Now()
	}
	p.mu.Unlock()
	if errors.Is(err, ErrReplaced) {
		return p.cease(replacedIn(t.entry.Term))
	}
	return err
}

// lone lets this primary answer by itself, as the register allows. The caller has the turn, so no other goroutine changes the role.
func (p *Primary) lone(asked time.Duration, paired bool) error {
	t, role := p.tenure, *p.role
	role.Mode = ModeAlone
	if paired {
		if err := role.Save(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != nil {
		return p.reason
	}
	t.unsure, t.leaves, t.renewed, t.until = "", false, asked, asked+p.cfg.Timing.aloneLease()
	*p.role = role
	p.keepFrames()
	if paired {
		p.cfg.Log.Error("alone: this machine has the only copy of new writes")
		t.since = p.cfg.Timing.Now()
		if p.session != nil {
			p.session.told = false
		}
	}
	p.promise.renew(asked, p.cfg.Timing.aloneLease())
	p.release()
	p.wake()
	return nil
}

// leased reports whether a primary that is not paired may answer a write (P12).
func (p *Primary) leased() bool { return p.promise.holds() }

// fill adds the state of the register to a status. The caller holds the primary's mu.
func (t *tenure) fill(s *Status, now time.Duration) {
	s.AloneTotal = t.alone
	if s.Mode == ModeAlone {
		s.AloneFor.Duration = now - t.since
		s.AloneTotal += now - t.since
	}
	if t.known != nil {
		s.Register = t.known.registered(now - t.at)
	}
}
