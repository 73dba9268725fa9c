package pair

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// moveLeases is the number of leases for which a move waits for the two registers and the standby.
const moveLeases = 3

var (
	// ErrMoves means that the machine begins again with another register.
	ErrMoves = errors.New("the pair moves to another register: try again when fanfare pair status answers")
	// errNotNow refuses a move while the register may say one thing and the role another one.
	errNotNow = errors.New("the pair changes at the moment: run the command again when fanfare pair status shows paired or alone")
)

// Move is the newest move of a pair to another register (P23).
type Move struct {
	// From is the address with which the machine was configured at that time. A machine that still has this configuration uses To.
	From string `json:"from"`
	To   string `json:"to"`
	// Pending means that To has no entry of this primary yet. Leaves is the register whose entry has to end before, empty for none.
	Pending bool   `json:"pending,omitempty"`
	Leaves  string `json:"leaves,omitempty"`
}

// arrived returns the move after To has the entry of the primary.
func (m *Move) arrived() *Move {
	if m == nil {
		return nil
	}
	return &Move{From: m.From, To: m.To}
}

// RegisterFor returns the address of the register for a machine that is configured with an address.
func (r *Role) RegisterFor(configured string) string {
	if r != nil && r.Move != nil && r.Move.From == configured {
		return r.Move.To
	}
	return configured
}

// Leaves returns the address of the register whose entry has to end before the pair uses the register of an address, empty for none.
func (r *Role) Leaves(address string) string {
	if !r.moving(address) {
		return ""
	}
	return r.Move.Leaves
}

// moving reports whether the register of an address lacks the entry of this primary because a move is not over.
func (r *Role) moving(address string) bool {
	return r.Role == RolePrimary && r.Move != nil && r.Move.Pending && r.Move.To == address
}

// MoveTo is a move that an operator wants.
type MoveTo struct {
	Address  string
	Register Register
	// Configured is the address with which this machine is configured. Leaves is the address of its present register, empty if an
	// operator declares that this register is gone.
	Configured, Leaves string
	// StandbyIsGone means that the disk of the standby is lost.
	StandbyIsGone bool
}

// Moved returns a channel that is closed when this process has to begin again with the register that the role names.
func (p *Primary) Moved() <-chan struct{} { return p.moved }

// Move moves the pair to a register without an entry. The standby stores its address first, then this machine does. The next start ends the
// entry of the present register, and makes the first entry of the new one, whatever happens before (P23). After an error, Move may be repeated.
func (p *Primary) Move(ctx context.Context, to MoveTo) error {
	ctx, cancel := context.WithTimeout(ctx, moveLeases*p.cfg.Timing.Lease)
	defer cancel()
	if err := p.mayMove(ctx, to); err != nil {
		return err
	}
	if err := p.moveStandby(ctx, to); err != nil {
		return err
	}
	return p.move(ctx, to)
}

// mayMove reads both registers.
func (p *Primary) mayMove(ctx context.Context, to MoveTo) error {
	if to.Register.Name() == p.cfg.Register.Name() {
		return errors.New("the pair uses this register already: name another place")
	}
	switch _, _, err := to.Register.Read(ctx); {
	case err == nil:
		return fmt.Errorf("%s has an entry of a pair: name a place without one", to.Address)
	case !errors.Is(err, ErrNoEntry):
		return fmt.Errorf("%s: %w", to.Address, err)
	}
	if to.Leaves == "" {
		return nil
	}
	switch entry, _, err := p.cfg.Register.Read(ctx); {
	case errors.Is(err, ErrNoEntry):
		return nil
	case err != nil:
		return fmt.Errorf("the entry of the present register has to end, so that no machine uses it later: mend the register, or, if it is gone for good, confirm that with --register-is-gone: %w", err)
	case entry.Primary != p.tenure.disk || entry.Term != p.tenure.term:
		return ErrReplaced
	}
	return nil
}

// moveStandby makes the standby store the new register. A standby that an earlier try has moved asks for the new register already.
func (p *Primary) moveStandby(ctx context.Context, to MoveTo) error {
	p.mu.Lock()
	s, calm, mode := p.session, p.calm(), p.role.Mode
	gone := to.StandbyIsGone && mode == ModeAlone || p.asks == to.Register.Name()
	p.mu.Unlock()
	switch {
	case !calm:
		return errNotNow
	case s == nil && gone:
		return nil
	case s == nil:
		return fmt.Errorf("%w: start the standby, so that it learns of the new register; or, if its disk is gone, confirm that with --standby-is-gone", ErrAway)
	}
	if err := s.send(msgMove, []byte(to.Address)); err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	select {
	case <-s.moved:
		return nil
	case <-s.done:
	case <-ctx.Done():
	}
	select {
	case <-s.moved: // before the end of the session
		return nil
	default:
		return fmt.Errorf("%w, or has not stored the new register: run the command again", ErrAway)
	}
}

// hasMoved notes that the standby has stored the new register.
func (s *session) hasMoved() error {
	select {
	case <-s.moved:
		return unexpected(msgMoved)
	default:
		close(s.moved)
		return nil
	}
}

// calm reports whether the register and the role have the same, and no standby is about to change that. The caller holds mu.
func (p *Primary) calm() bool {
	t := p.tenure
	whole := p.session == nil || p.session.whole
	return whole && !p.joining && t.unsure == "" && !t.leaves && !t.leaving && !p.stopping && p.reason == nil
}

// move stores the new register, with the term of its first entry. From then on, this process writes no register.
func (p *Primary) move(ctx context.Context, to MoveTo) error {
	done, err := p.tenure.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.calm() {
		return errNotNow
	}
	role := *p.role
	role.Claimed = max(role.Term, role.Claimed) + 1
	role.Move = &Move{From: to.Configured, To: to.Address, Pending: true, Leaves: to.Leaves}
	if err := role.Save(); err != nil {
		return err
	}
	*p.role = role
	p.tenure.leaving = true
	close(p.moved)
	p.cfg.Log.Warn("the pair moves to another register", zap.String("from", to.Leaves), zap.String("to", to.Address))
	return nil
}

// move stores the register to which the primary moves. The session continues, because the primary needs acks until it begins again. At its end
// the standby begins again, too.
func (f *following) move(address string) error {
	s := f.standby
	if f.seeding != nil || address == "" {
		return unexpected(msgMove)
	}
	s.mu.Lock()
	s.moves = true
	s.mu.Unlock()
	if err := s.save(func(r *Role) { r.Move = &Move{From: s.cfg.Configured, To: address} }); err != nil {
		return err
	}
	s.cfg.Log.Warn("the pair moves to another register", zap.String("to", address))
	f.outcome = Moved
	return f.send(msgMoved, nil)
}

// enter makes the first entry of the register to which the pair moves, after the entry of the former register has ended. The role has the term
// of this entry since the move.
func (b *beginning) enter(ctx context.Context) (done bool, err error) {
	if err := b.Role.compare(b.stores); err != nil {
		return true, err
	}
	if err := b.leave(ctx); err != nil {
		return errors.Is(err, ErrReplaced), err
	}
	role := *b.Role
	entry := Entry{Lineage: role.Lineage, Term: role.Claimed, Primary: role.Disk, Mode: role.Mode, Lease: b.Timing.Lease.Milliseconds()}
	if role.Mode == ModePaired {
		entry.Standby = role.Peer
	}
	if _, err := b.Register.Swap(ctx, "", entry); err != nil {
		return false, err
	}
	role.Since, role.Term, role.Move = role.reign(), role.Claimed, role.Move.arrived()
	if err := role.Save(); err != nil {
		return true, err
	}
	*b.Role = role
	return false, errFirst
}

// leave ends the entry of the register that the pair leaves: nobody becomes the primary by it (P24).
func (b *beginning) leave(ctx context.Context) error {
	if b.Former == nil {
		return nil
	}
	entry, version, err := b.Former.Read(ctx)
	switch {
	case errors.Is(err, ErrNoEntry):
		return nil
	case err != nil:
		return fmt.Errorf("end the entry of the register that the pair leaves (if it is gone for good, stop both machines, run fanfare unpair --standby-is-gone here, and start both): %w", err)
	case entry.Primary != b.Role.Disk || entry.Term > b.Role.Term:
		return ErrReplaced
	case entry.Mode == ModeEnded:
		return nil
	}
	entry.Mode, entry.Standby, entry.Since = ModeEnded, "", 0
	_, err = b.Former.Swap(ctx, version, entry)
	return err
}
