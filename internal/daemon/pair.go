package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/datadir"
	"fanfare/internal/objects"
	"fanfare/internal/pair"
)

const (
	// askPeer is the time for which a start waits for the answer of the other machine.
	askPeer = 2 * time.Second
	// seedDir is the directory, within the data directory, of the copies for a standby.
	seedDir = "seed"
)

// errOtherRole ends the process of a machine that has another role in its pair from now on. Run starts a process with
// this role.
var errOtherRole = errors.New("this machine has another role in its pair from now on")

func (p *process) pairTiming() pair.Timing {
	return pair.Timing{Heartbeat: p.cfg.Heartbeat(), Patience: p.cfg.StandbyTimeout, Lease: p.cfg.Lease}
}

func (p *process) pairKeys() pair.Keys {
	return pair.Keys{Cert: p.cfg.PeerCert, Key: p.cfg.PeerKey, CA: p.cfg.PeerCA}
}

// dialPeer connects with the other machine.
func (p *process) dialPeer(ctx context.Context) (net.Conn, error) {
	return p.pairKeys().Dial(ctx, p.cfg.Peer)
}

// decideRole finds out which machine of the pair this process is. Without a pair there is no role.
func (p *process) decideRole(ctx context.Context, dir *datadir.Dir) error {
	if !p.cfg.HasPair() {
		if p.opt.Standby {
			return errors.New("a standby needs FANFARE_PEER and FANFARE_PEER_ADDR: set both, or leave --standby out")
		}
		if dir == nil {
			return nil
		}
		return pair.Alone(dir.Path("."))
	}
	if err := p.pairKeys().Check(); err != nil {
		return err
	}
	role, err := pair.LoadRole(dir.Path("."))
	fresh := err == nil && role == nil
	if fresh {
		role, err = p.newRole(ctx, dir)
	}
	if err != nil {
		return err
	}
	p.role = role
	return p.begin(ctx, dir, fresh)
}

// errNotBegun ends a start that was stopped while it waited for the register.
var errNotBegun = errors.New("stopped before the register of the pair has answered")

// begin asks the register for the role with which the process starts (P17).
func (p *process) begin(ctx context.Context, dir *datadir.Dir, fresh bool) (err error) {
	var former pair.Register
	p.address = p.role.RegisterFor(p.cfg.Register)
	if p.address != p.cfg.Register {
		p.log.Warn("the pair has moved to another register: set FANFARE_REGISTER to it on both machines", zap.String("configured", p.cfg.Register), zap.String("register", p.address))
	}
	p.registry, err = OpenRegister(ctx, p.address)
	if leaves := p.role.Leaves(p.address); err == nil && leaves != "" {
		former, err = OpenRegister(ctx, leaves)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	var asks func(context.Context) (pair.Hello, error)
	if !fresh { // else newRole has asked
		asks = func(ctx context.Context) (pair.Hello, error) { return p.askPeer(ctx, p.role) }
	}
	if err == nil {
		err = pair.Begin(ctx, pair.BeginConfig{
			Role: p.role, Address: p.address, Register: p.registry, Former: former, Timing: p.pairTiming(), Waiting: p.waitsForRegister, Ask: asks, Log: p.log.Named("pair"),
			Queue: dir.Path(datadir.Queue), Table: dir.Path(datadir.Table),
		})
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errNotBegun, err)
	case fresh && errors.Is(err, pair.ErrLineage):
		// This directory is in no pair, so the next start decides again.
		err = errors.Join(fmt.Errorf("%w: start this machine with --standby and an empty data directory, or name another place in FANFARE_REGISTER; if both machines of the other pair are gone, and this directory was restored, run fanfare pair begin --after-restore", err), os.Remove(dir.Path(pair.RoleFile)))
	}
	return fmt.Errorf("FANFARE_REGISTER %s: %w", p.address, err)
}

// waitsForRegister shows the reason for which the start waits.
func (p *process) waitsForRegister(reason error) {
	text := OneLine(reason)
	if !errors.Is(reason, pair.ErrAway) {
		text = "the register of the pair: " + text
	}
	waiting := admin.NewWaitingHandler(admin.Config{Metrics: p.reg}, func() []string { return []string{text} })
	p.operator.set(waiting)
	p.scrapes.set(waiting)
}

// OpenRegister opens the register of a pair at an address. It makes no call.
func OpenRegister(ctx context.Context, address string) (pair.Register, error) {
	location, err := objects.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("FANFARE_REGISTER: %w", err)
	}
	store, err := location.OpenConditional(ctx)
	if err != nil {
		return nil, fmt.Errorf("FANFARE_REGISTER: %w", err)
	}
	return pair.StoreRegister(store, location.Bucket+"/"+location.Prefix), nil
}

// newRole returns the role of a data directory that was in no pair until now.
func (p *process) newRole(ctx context.Context, dir *datadir.Dir) (*pair.Role, error) {
	if p.opt.Standby {
		for _, name := range []string{datadir.Table, datadir.Queue} {
			if _, err := os.Stat(dir.Path(name)); err == nil {
				return nil, fmt.Errorf("data directory %s has data of its own, which a standby would lose: choose an empty one, or start without --standby", dir.Path("."))
			}
		}
		role := pair.NewRole(dir.Path("."), pair.RoleStandby)
		return role, role.Save()
	}
	if peer, err := p.askPeer(ctx, nil); err == nil && peer.Role == pair.RolePrimary {
		return nil, fmt.Errorf("the other machine %s is a primary already: start this one with --standby and an empty data directory", p.cfg.Peer)
	}
	role := pair.NewRole(dir.Path("."), pair.RolePrimary)
	return role, role.Save()
}

// askPeer asks the other machine for its role.
func (p *process) askPeer(ctx context.Context, role *pair.Role) (pair.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, askPeer)
	defer cancel()
	return pair.Ask(ctx, p.dialPeer, pair.AskingHello(role, 0, p.opt.Version))
}
