package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/archive"
	"fanfare/internal/backoff"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/events"
	"fanfare/internal/httpapi"
	"fanfare/internal/obs"
	"fanfare/internal/pair"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/stream"
	tableembedded "fanfare/internal/table/embedded"
)

const (
	// exchangeTime is the time for which a promotion waits for the primary to hand over.
	exchangeTime = time.Minute
	// catchUpTime is the time for which a promotion waits until the standby has applied almost all that it has.
	catchUpTime = 10 * time.Minute
)

// runStandby runs this machine as the standby until ctx ends, or until it becomes the primary.
func (p *process) runStandby(ctx context.Context, dir *datadir.Dir) error {
	if err := p.leaveArchive(dir); err != nil {
		return err
	}
	if err := dir.Made(); err != nil { // the stores of a standby come with a seed: it never makes one
		return err
	}
	standby, err := pair.OpenStandby(pair.StandbyConfig{
		Role: p.role, Dir: dir.Path("."), Stream: dir.Path(spoolDir), Timing: p.pairTiming(), Dial: p.dialPeer,
		Configured: p.cfg.Register, Register: p.registry, FailoverAfter: p.cfg.FailoverAfter, Succeeded: p.succeeds(dir),
		Open: func(store stream.Store, path string) (*disk.DB, error) {
			if store == stream.Queue {
				return queueembedded.OpenReplica(path, p.log, disk.Logged)
			}
			return tableembedded.OpenReplica(path, p.log, disk.Logged)
		},
		DataFormat: dir.Format(), Version: p.opt.Version, Secret: p.cfg.DevSecret, Log: p.log.Named("pair"),
	})
	if err != nil {
		return err
	}
	p.cleanups.addCloser("standby", standby.Close)
	f := &followed{standby: standby, log: p.log, peer: p.cfg.Peer, timing: p.pairTiming()}
	if _, err := obs.NewPair(p.reg, standby.Status); err != nil {
		return err
	}
	strangers, operators, err := p.standbyPages()
	if err != nil {
		return err
	}
	p.operator.set(admin.NewStandbyHandler(admin.Config{
		Metrics: p.reg, Log: p.log.Named("admin"), Host: p.cfg.AdminHost(), Domain: admin.Domain{Pair: f, About: p.about()}, Console: operators,
	}, p.cfg.Peer))
	p.scrapes.set(admin.NewStandbyHandler(admin.Config{Metrics: p.reg}, p.cfg.Peer))
	p.cleanups.add("admin", p.operator.stop)
	p.cleanups.add("metrics", p.scrapes.stop)
	files, err := descriptors()
	if err != nil {
		return err
	}
	refuses := httpapi.Below(p.opt.Prefix, admin.ForPeople(strangers, refusing(p.cfg.Peer, p.origins())))
	address, listening, err := p.listening(ctx, refuses, files)
	if err != nil {
		return err
	}
	listener, err := p.listen(ctx, "peer", "FANFARE_PEER_ADDR", p.cfg.PeerAddr)
	if err != nil {
		return err
	}
	p.roots = newRoots(context.WithoutCancel(ctx), p.log)
	defer p.roots.cancel()
	p.roots.start("standby", f.run)
	p.roots.start("peer", func(ctx context.Context) error {
		return newDoor(p.pairKeys(), p.cfg.Peer, p.work).accept(ctx, listener, standby.Answer)
	})
	if listening != nil {
		p.roots.start("http", listening)
	}
	p.hand(refuses, events.NewReader(nil, "this machine is the standby of a pair: its primary has the events"))
	p.log.Info("standby", zap.String("primary", p.cfg.Peer), zap.String("http", address), zap.String("admin", p.operator.address), zap.String("version", p.opt.Version))
	if p.opt.Ready != nil {
		p.opt.Ready(Addresses{HTTP: address, Admin: p.operator.address, Metrics: p.scrapes.address, Standby: true})
	}
	select {
	case <-p.roots.ctx.Done():
	case <-ctx.Done():
	}
	p.log.Info("stopping")
	p.roots.cancel()
	return p.roots.wait()
}

// leaveArchive removes the files that belong to the directory of a primary: the logs of a standby are no part of an archive's terms.
// It also checks the place of the archive, because a promotion would find a fault too late.
func (p *process) leaveArchive(dir *datadir.Dir) error {
	if p.cfg.Archive != "" {
		if _, err := p.archiveOf(dir); err != nil {
			return err
		}
	}
	for _, name := range []string{seedDir, checkpoint, archive.StateFile, baseDir} {
		if err := os.RemoveAll(dir.Path(name)); err != nil {
			return err
		}
	}
	return nil
}

// refusing returns the handler of the API's address of a standby. primary is the address of the other machine.
func refusing(primary string, origins httpapi.Origins) http.Handler {
	health := admin.Standby(primary)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admin.IsHealth(r.URL.Path) {
			health.ServeHTTP(w, r)
			return
		}
		if !origins.Allow(w, r) {
			httpapi.Standby(w)
		}
	})
}

// followed is the standby of a process, as operators see it.
type followed struct {
	standby   *pair.Standby
	log       *zap.Logger
	peer      string
	timing    pair.Timing
	promoting sync.Mutex
}

// run follows the primary.
func (f *followed) run(ctx context.Context) error {
	outcome, err := f.standby.Run(ctx)
	switch {
	case err != nil:
		return err
	case outcome != pair.Stopped:
		return errOtherRole
	case ctx.Err() != nil:
		return nil
	}
	// A promotion has stopped Run. If the promotion fails, the standby starts again, too.
	f.promoting.Lock()
	defer f.promoting.Unlock()
	return errOtherRole
}

// Promote implements admin.Pair.
func (f *followed) Promote(ctx context.Context, in admin.Promotion) error {
	if !f.promoting.TryLock() {
		return errors.New("another promotion is under way: wait for its end")
	}
	defer f.promoting.Unlock()
	if !in.PrimaryIsGone && !in.AcceptLoss && !in.RegisterIsGone {
		return f.exchange(ctx)
	}
	// The loss of a machine is noticed when nothing has arrived for the time of the lease.
	for began := time.Now(); f.standby.Status().Connected; {
		if time.Since(began) > f.timing.Lease+2*f.timing.Heartbeat {
			return errors.New("the primary is not gone, but connected: stop its process first")
		}
		if err := backoff.Wait(ctx, f.timing.Heartbeat/10); err != nil {
			return err
		}
	}
	f.log.Warn("an operator promotes this standby", zap.Bool("accept_loss", in.AcceptLoss), zap.Bool("register_is_gone", in.RegisterIsGone))
	ctx = context.WithoutCancel(ctx) // a promotion is not given up half-way
	if in.RegisterIsGone {
		return f.standby.Refound(ctx)
	}
	err := f.standby.Promote(ctx, in.AcceptLoss)
	if errors.Is(err, pair.ErrNotPaired) {
		err = errors.Join(err, errors.New("to lose these writes, run fanfare promote --accept-loss"))
	}
	return err
}

// exchange asks the primary to hand over, and waits until this machine is the primary.
func (f *followed) exchange(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	if err := f.standby.CatchUp(soon); err != nil {
		return err
	}
	if !f.standby.Status().Connected {
		return errors.New("the primary cannot be reached, so it cannot hand over: if it is gone, confirm that with --primary-is-gone")
	}
	ctx, cancel = context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	if err := f.standby.AskToHandOver(ctx); err != nil {
		return fmt.Errorf("the primary does not hand over (if it is gone, confirm that with --primary-is-gone): %w", err)
	}
	for f.standby.Status().Role != pair.RolePrimary {
		if backoff.Wait(ctx, f.timing.Heartbeat/10) != nil {
			return errors.New("the primary has not handed over: look at fanfare pair status on both machines")
		}
	}
	return nil
}

// PairStatus implements admin.Pair.
func (f *followed) PairStatus() pair.Status { return shown(f.standby.Status(), f.peer) }

// PairStatus implements admin.Pair.
func (k *pairing) PairStatus() pair.Status { return shown(k.Status(), k.p.cfg.Peer) }

// Promote implements admin.Pair.
func (k *pairing) Promote(context.Context, admin.Promotion) error {
	return errors.New("this machine is the primary already")
}

// Move implements admin.Pair.
func (*followed) Move(context.Context, admin.Move) error {
	return errors.New("this machine is the standby: run the command on the primary; if the primary and the register are gone for good, run fanfare promote --register-is-gone here")
}

// Move implements admin.Pair.
func (k *pairing) Move(ctx context.Context, in admin.Move) error {
	register, err := OpenRegister(ctx, in.To)
	if err != nil {
		return err
	}
	to := pair.MoveTo{Address: in.To, Register: register, Configured: k.p.cfg.Register, StandbyIsGone: in.StandbyIsGone}
	if !in.RegisterIsGone {
		to.Leaves = k.p.address
	}
	return k.Primary.Move(ctx, to)
}

// shown returns a status for operators.
func shown(s pair.Status, peer string) pair.Status {
	s.Peer, s.Reason = peer, OneLine(errors.New(s.Reason))
	return s
}
