package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/pair"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
	tableembedded "fanfare/internal/table/embedded"
)

// OpenTransfer returns the parts of an import or an export, on the data of a configuration: on the table
// of FANFARE_ENGINE=aws, or on a data directory that no other process has open. The caller must call end.
func OpenTransfer(ctx context.Context, cfg config.Config, log *zap.Logger) (t transfer.Config, end func() error, err error) {
	clk := clock.New(time.Now)
	log = obs.Sampled(log, zap.WarnLevel)
	t = transferOf(cfg)
	t.Now, t.Clock, t.Log = time.Now, clk, log
	if cfg.Engine == config.EngineAWS {
		t.Writers, t.PageSize = awsWriters, PageSize
		store, err := OpenTable(ctx, cfg, clk, dynamo.WithRefusals(obs.RefusalLog(log)))
		if err == nil {
			err = pingTable(ctx, store)
		}
		t.Store = store
		return t, func() error { return synced(log) }, err
	}
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return t, nil, err
	}
	if err := pair.Alone(cfg.DataDir); err != nil {
		return t, nil, errors.Join(err, dir.Close())
	}
	store, err := openTable(dir, tableembedded.Options{Doubt: clk.Doubt, Log: log, Stop: ctx.Done()})
	if err != nil {
		return t, nil, errors.Join(err, dir.Close())
	}
	t.Store, t.Alone = store, true
	return t, func() error { return errors.Join(store.Close(), dir.Close(), synced(log)) }, nil
}

// transferOf returns the settings of an import or an export.
func transferOf(cfg config.Config) transfer.Config {
	return transfer.Config{
		TTL: cfg.TimelineTTL, LikeWindow: cfg.LikeWindow, LikesByUser: bool(cfg.LikesByUser),
		PushLimit: cfg.PushLimit, ActiveDays: cfg.ActiveDays, MaxFollowing: cfg.MaxFollowing, Writers: 1,
	}
}

// transfers returns the parts of imports and exports beside the traffic of this process.
func (p *process) transfers() *transfer.Config {
	t := transferOf(p.cfg)
	t.Store, t.Now, t.Clock, t.Log = table.Measure(p.eng.store, p.metrics.Table(obs.FlowFanout)), p.opt.Now, p.clock, p.work.Named("transfer")
	return &t
}

// openTable opens the table of a data directory. A new directory gets both stores.
func openTable(dir *datadir.Dir, options tableembedded.Options) (*tableembedded.Store, error) {
	if !dir.IsNew() {
		return tableembedded.Open(dir.Path(datadir.Table), options)
	}
	broker, err := queueembedded.Create(dir.Path(datadir.Queue), queueembedded.Options{Doubt: options.Doubt, Log: options.Log, Stop: options.Stop})
	if err != nil {
		return nil, err
	}
	if err := broker.Close(); err != nil {
		return nil, err
	}
	store, err := tableembedded.Create(dir.Path(datadir.Table), options)
	if err != nil {
		return nil, err
	}
	if err := dir.Made(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// synced writes the lines that a sampled logger still holds. An error from syncing a
// terminal or a pipe does not matter.
func synced(log *zap.Logger) error {
	_ = log.Sync() // this error means no lost line
	return nil
}

// users makes the removals of package removal usable by package fanout.
type users struct{ removals *removal.Removals }

func (u users) Forget(ctx context.Context, user, event string, most int) (fanout.Forgotten, error) {
	done, err := u.removals.Forget(ctx, user, event, most)
	return fanout.Forgotten{Removed: done.Sum(), Unliked: done.Likes, Wait: done.Wait, Left: done.Left, Overtaken: done.Overtaken}, err
}

// OpenRemovals returns the removals of users of a configuration, on the same data as OpenTransfer and
// with the queues of the configuration. The caller must call end.
func OpenRemovals(ctx context.Context, cfg config.Config, log *zap.Logger) (d admin.Domain, end func() error, err error) {
	t, closeTable, err := OpenTransfer(ctx, cfg, log)
	if err != nil {
		return d, nil, err
	}
	var broker queue.Broker
	if cfg.Engine == config.EngineAWS {
		broker, err = OpenSQS(ctx, sqs.Options{Prefix: cfg.QueuePrefix}, t.Clock)
	} else {
		broker, err = queueembedded.Open(filepath.Join(cfg.DataDir, "queue"), queueembedded.Options{Doubt: t.Clock.Doubt, Log: log, Stop: ctx.Done()})
	}
	if err != nil {
		return d, nil, errors.Join(err, closeTable())
	}
	way := access.New(access.Config{
		Store: t.Store, Publisher: broker, IDs: id.NewGenerator(time.Now), Now: time.Now, Clock: t.Clock, Lifetimes: lifetime.New(lifetime.Config{Store: t.Store, Now: time.Now, TTL: cfg.TimelineTTL, Log: log}), Log: log,
	})
	d = admin.Domain{Removals: removal.New(way, feed.New(feed.Config{Access: way})), LikesByUser: bool(cfg.LikesByUser)}
	return d, func() error { return errors.Join(broker.Close(), closeTable()) }, nil
}
