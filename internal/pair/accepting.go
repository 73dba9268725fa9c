package pair

import (
	"errors"
	"fmt"
	"strings"

	"fanfare/internal/stream"
)

// errOtherSession means that another machine is the standby of the present session.
var errOtherSession = errors.New("the primary has a session with another standby: stop one of the two")

// errSoon means that the process of the newest session may connect again: a clone of its disk must not be the first.
var errSoon = errors.New("the data directory of the standby looks moved, so the primary waits whether its former process connects again")

// refusal returns the reason for which a primary has refused this standby. The text of an error that shows which data a standby lacks is the same on
// both machines.
func refusal(text string) error {
	for _, known := range []error{ErrMustSeed, errTwin} {
		if rest, is := strings.CutPrefix(text, known.Error()); is {
			return fmt.Errorf("the primary refuses the standby: %w%s", known, rest)
		}
	}
	return fmt.Errorf("the primary refuses the standby: %s", text)
}

// begins returns an error for a peer that gets no session. The caller holds mu.
func (p *Primary) begins(peer Hello) error {
	err := p.accept(p.hello(stream.Position{}), peer)
	switch {
	case err != nil:
		return err
	case p.session != nil && p.session.peer.Disk != peer.Disk:
		return errOtherSession
	case p.session != nil && p.session.peer.Process != peer.Process: // a standby that has lost its power is silent soon
		return errTwin
	case p.session == nil && peer.Moved && p.former != "" && p.former != peer.Process && p.cfg.Timing.Now()-p.leftAt < p.cfg.Timing.Lease:
		return errSoon
	case p.role.Mode == ModePaired && !p.resumes(peer):
		return fmt.Errorf("%w (%w)", ErrMustSeed, errNoPosition)
	case p.role.Mode == ModePaired && !peer.position().Covers(p.acked):
		return fmt.Errorf("%w (%w)", ErrMustSeed, errForgot)
	}
	return nil
}

// refused notes why a machine gets no session. The reason of the standby stays, if the machine is not the standby.
func (p *Primary) refused(peer Hello, why error) {
	p.mu.Lock()
	other := p.session != nil || p.role.Mode == ModePaired && peer.Disk != p.role.Peer
	if !other {
		p.asks = peer.Register
	}
	p.mu.Unlock()
	if !other {
		p.ended(why)
	}
}
