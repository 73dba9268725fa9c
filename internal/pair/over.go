package pair

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
)

// Over returns a channel that is closed when this machine must not be the primary any more.
func (p *Primary) Over() <-chan struct{} { return p.over }

// Reason returns why this machine must not be the primary any more: ErrReplaced, or ErrRewound, after which only an operator
// can continue. It returns nil until then.
func (p *Primary) Reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// Serves ends the start: from now on callers may get answers. It returns the Reason instead, if there is one.
func (p *Primary) Serves() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serves = p.reason == nil
	return p.reason
}

// meets ends the time of this machine as the primary, with an error, if the other machine is the primary of a later term, or
// is a standby that knows of writes which this machine lacks.
func (p *Primary) meets(peer Hello) error {
	p.mu.Lock()
	own := p.hello(p.end())
	p.mu.Unlock()
	if err := SameDisk(own, peer); err != nil {
		p.twin(err)
		return err
	}
	if peer.replaces(own) {
		return p.cease(replacedIn(peer.Term))
	}
	if err := rewound(own, peer); err != nil { // P9
		return p.cease(err)
	}
	return nil
}

// twin notes that the other machine has the same disk. Neither machine can know which one is the copy, so only an operator can continue.
func (p *Primary) twin(why error) {
	p.mu.Lock()
	known := p.apart == why.Error()
	p.apart = why.Error()
	p.mu.Unlock()
	if !known {
		p.cfg.Log.Error("the machine at the peer address has the disk of this one", zap.Error(why))
	}
}

// replacedIn returns the error of a primary whose place the other machine has taken in a term.
func replacedIn(term uint64) error { return fmt.Errorf("%w: its term is %d", ErrReplaced, term) }

// cease notes for which reason this machine must not be the primary any more. It returns the first reason.
func (p *Primary) cease(reason error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == nil {
		p.reason = reason
		p.promise.forget()
		if !p.serves { // the start has no callers yet, and ends sooner
			p.stopping = true
			p.release()
		}
		close(p.over)
		p.cfg.Log.Error("this machine must not be the primary any more", zap.Error(reason))
	}
	return p.reason
}

// ask asks the other machine whether this machine may be the primary. A paired primary that starts is not alone before the first
// try: its disk may be an old copy, and its standby knows that (P9).
func (p *Primary) ask(ctx context.Context) {
	for p.cfg.Dial != nil {
		p.askOnce(ctx)
		p.mu.Lock()
		p.met = true
		p.mu.Unlock()
		if backoff.Wait(ctx, p.cfg.Timing.Patience) != nil {
			return
		}
	}
}

// askOnce asks the other machine, unless it follows this machine.
func (p *Primary) askOnce(ctx context.Context) {
	p.mu.Lock()
	own, connected := p.role.hello(p.end(), p.cfg.DataFormat, p.cfg.Version), p.session != nil
	p.mu.Unlock()
	if connected {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timing.Patience)
	defer cancel()
	peer, err := Ask(ctx, p.cfg.Dial, own)
	if err == nil {
		err = p.meets(peer)
	}
	if err != nil {
		p.cfg.Log.Debug("the other machine does not follow this primary", zap.Error(err))
	}
}
