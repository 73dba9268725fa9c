package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/admin"
	"fanfare/internal/archive"
	"fanfare/internal/archiving"
	"fanfare/internal/backoff"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/obs"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

// waitsForStandby is the reason in /readyz of a paired primary that starts without its standby.
const waitsForStandby = "this machine waits for its standby, or until the register lets it be alone"

// seedRate is the maximum number of bytes a second of a seed, so that the primary keeps most of its disk and network for calls.
const seedRate = 50 << 20

// switchGrace is the time for work in progress when the roles of a pair change: the clients of all other work wait.
const switchGrace = 2 * time.Second

// pairing is the primary's side of a pair, and its goroutines.
type pairing struct {
	*pair.Primary
	p       *process
	roots   *roots
	metrics *obs.Pair
	gate    *promised // nil without an API
	place   archive.Pair
	tail    pair.KeptTail
	// leaving means that this machine hands over to the standby when the stores are closed.
	leaving bool
}

// openPrimary opens the primary's side of a pair before the stores are opened. A primary that is paired waits for its standby
// (P17). Without a pair openPrimary returns nil, and no store has a tap.
func (p *process) openPrimary(ctx context.Context, dir *datadir.Dir) (*pairing, error) {
	if p.role == nil {
		return nil, nil
	}
	tail := pair.KeptTail{FS: vfs.Default, Dir: dir.Path(pair.TailDir)}
	err := os.RemoveAll(dir.Path(seedDir))
	if p.cfg.Archive == "" {
		err = errors.Join(err, tail.Forget())
	}
	if err != nil {
		return nil, err
	}
	primary, err := pair.OpenPrimary(pair.PrimaryConfig{
		Role: p.role, Stream: dir.Path(spoolDir), Queue: dir.Path(datadir.Queue), Table: dir.Path(datadir.Table), Seeds: dir.Path(seedDir), Tail: dir.Path(pair.TailDir),
		Spool: int64(p.cfg.StreamSpool), SeedRate: seedRate, Archive: p.cfg.Archive != "", Timing: p.pairTiming(), Dial: p.dialPeer, Register: p.registry,
		DataFormat: dir.Format(), Version: p.opt.Version, Secret: p.cfg.DevSecret, Log: p.log.Named("pair"),
	})
	if err != nil {
		return nil, err
	}
	k := &pairing{
		Primary: primary, p: p, roots: newRoots(context.WithoutCancel(ctx), p.log),
		tail:  tail,
		place: archive.Pair{Lineage: p.role.Lineage, Term: p.role.Term, Disk: p.role.Disk}, // before a session may change the role
	}
	p.cleanups.addOwn("pair", k.stop) // after the stores are closed, because Pebble writes until then
	if k.metrics, err = obs.NewPair(p.reg, primary.Status); err != nil {
		return nil, err
	}
	listener, err := p.listen(ctx, "peer", "FANFARE_PEER_ADDR", p.cfg.PeerAddr)
	if err != nil {
		return nil, err
	}
	k.roots.start("primary", func(ctx context.Context) error {
		k.Run(ctx)
		return nil
	})
	k.roots.start("standbys", func(ctx context.Context) error {
		return newDoor(p.pairKeys(), p.cfg.Peer, p.work).accept(ctx, listener, k.session)
	})
	shown := admin.Config{Metrics: p.reg, Log: p.log.Named("admin"), Host: p.cfg.AdminHost(), Domain: admin.Domain{Pair: k, About: p.about()}}
	p.operator.set(admin.NewWaitingHandler(shown, k.waits))
	p.scrapes.set(admin.NewWaitingHandler(admin.Config{Metrics: p.reg}, k.waits))
	if err := k.Paired(ctx); err != nil {
		return nil, k.ends(err)
	}
	return k, nil
}

// ends returns the error that ends a process which must not be the primary any more.
func (k *pairing) ends(reason error) error {
	if !errors.Is(reason, pair.ErrReplaced) {
		return reason
	}
	return errOtherRole // the register decides at the next start
}

// waits returns the reasons for which a paired primary waits at its start.
func (k *pairing) waits() []string {
	if why := k.Status().Reason; why != "" {
		return []string{waitsForStandby, OneLine(errors.New(why))}
	}
	return []string{waitsForStandby}
}

// shared returns the stream for the archive; nil without a pair.
func (k *pairing) shared() *archiving.Shared {
	if k == nil {
		return nil
	}
	all, receiver := k.Archive()
	return &archiving.Shared{Stream: all, Receiver: receiver, Upto: k.Archivable, Pair: k.place, Tail: k.tail}
}

// leaves reports whether this machine hands over to the standby.
func (k *pairing) leaves() bool { return k != nil && k.leaving }

// mayBeReplaced reports whether an error of the archive means that the next start has to decide about the role of this
// machine again: the other machine may have become the primary.
func (k *pairing) mayBeReplaced(err error) bool {
	return k != nil && (archive.Ended(err) || errors.Is(err, archive.ErrReplaced))
}

// session serves a session of the standby, and counts a session that fails.
func (k *pairing) session(ctx context.Context, conn net.Conn) error {
	err := k.Serve(ctx, conn)
	if err != nil && ctx.Err() == nil {
		k.metrics.Refused(obs.RefusedSession)
	}
	return err
}

// tapped returns the file system for a store, whose writes are answered when the standby has them.
func (k *pairing) tapped(store stream.Store) vfs.FS {
	return disk.TappedFS{
		Tap: k.Tap(store), Patience: k.p.cfg.StandbyTimeout,
		Confirmed: func(log, offset uint64) <-chan struct{} {
			return k.Confirmed(store, stream.Place{Log: log, Offset: offset})
		},
	}
}

// start begins to make copies for standbys. The stores are open.
func (k *pairing) start(b *backups) {
	k.SetCheckpoint(b.forArchive)
	k.SetBeginLog(b.beginLog)
	// A stop waits for no standby: the writes that were answered are on both machines, and nobody waits for the rest.
	k.p.cleanups.add("answers of the pair", func(ctx context.Context) error {
		k.StopWaiting()
		// A store that still reports its wait would be abandoned instead of closed.
		for errors.Is(errors.Join(b.table.Health(), b.queue.Health()), disk.ErrUnconfirmed) {
			if err := backoff.Wait(ctx, k.p.cfg.Heartbeat()/100); err != nil {
				return err
			}
		}
		return nil
	})
}

// grace returns the time for work in progress at a stop. Call it after the stop began.
func (p *process) grace() time.Duration {
	if p.pairing.leaves() {
		return min(switchGrace, p.opt.Grace)
	}
	return p.opt.Grace
}

// watch returns an error when this machine must not be the primary any more.
func (k *pairing) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.roots.ctx.Done():
		return k.roots.wait()
	case <-k.Over():
		return k.ends(k.Reason())
	case <-k.Asked():
		k.p.log.Info("the standby asks this machine to hand over")
		k.leaving = true
		return errOtherRole
	case <-k.Moved():
		return errOtherRole
	}
}

// answering returns the handler that passes requests to the API during a promise of the standby.
func (k *pairing) answering(api http.Handler) http.Handler {
	k.gate = &promised{next: api, of: k, origins: k.p.origins(), refused: func() { k.metrics.Refused(obs.RefusedUnpromised) }, stop: k.roots.ctx.Done()}
	return k.gate
}

// stop hands over if the standby asked for that, and ends the sessions and the stream. The hand-over may wait for the standby's stores, so it
// has a time of its own.
func (k *pairing) stop(ctx context.Context) error {
	var err error
	if k.leaving {
		err = k.HandOver(ctx)
	}
	k.roots.cancel()
	err = errors.Join(err, k.roots.wait(), k.Close())
	if k.gate != nil {
		k.gate.watching.Wait()
	}
	return err
}

// checks returns the tests of the pair for /readyz.
func (k *pairing) checks() []admin.Check {
	return []admin.Check{
		{Name: "this machine has the only copy", Warn: true, Ask: func(context.Context) error {
			if k.Status().Mode == pair.ModePaired {
				return nil
			}
			return errors.New("no standby is paired with this machine, so its loss would lose writes: start the standby")
		}},
		{Name: "the standby has no session", Warn: true, Ask: func(context.Context) error {
			if why := k.Status().Reason; why != "" {
				return errors.New(why)
			}
			return nil
		}},
		{Name: "the register is away", Warn: true, Ask: k.register},
	}
}

// register tries to read the register. A pair works without the register, but neither machine can take the place of both.
func (k *pairing) register(ctx context.Context) error {
	_, _, err := k.p.registry.Read(ctx)
	return err
}
