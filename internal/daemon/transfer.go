package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"fanfare/internal/feed/access"

	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/fanout"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/queue/sqs"
	tableembedded "fanfare/internal/table/embedded"
)

// OpenTransfer returns the parts of an import or an export of a configuration: on the table of
// FANFARE_ENGINE=aws, or on a data directory that no other process has open. The caller calls
// end.
func OpenTransfer(ctx context.Context, cfg config.Config, log *zap.Logger) (t transfer.Config, end func() error, err error) {
	clk := clock.New(time.Now)
	t = transfer.Config{
		Now: time.Now, Clock: clk, TTL: cfg.TimelineTTL, LikeWindow: cfg.LikeWindow, LikesByUser: bool(cfg.LikesByUser),
		PushLimit: cfg.FollowersPushed(), ActiveDays: cfg.ActiveDays, MaxFollowing: cfg.MaxFollowing, Writers: 1, Log: log,
	}
	if cfg.Engine == config.EngineAWS {
		t.Writers, t.PageSize = awsWriters, PageSize
		store, err := OpenTable(ctx, cfg, clk)
		if err == nil {
			err = pingTable(ctx, store)
		}
		t.Store = store
		return t, func() error { return nil }, err
	}
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return t, nil, err
	}
	store, err := tableembedded.Open(dir.Path("table"), tableembedded.Options{Doubt: clk.Doubt, Log: log, Stop: ctx.Done()})
	if err != nil {
		return t, nil, errors.Join(err, dir.Close())
	}
	t.Store = store
	return t, func() error { return errors.Join(store.Close(), dir.Close()) }, nil
}

// users is the domain's Forget as the fan-out calls it.
type users struct{ feed *feed.Service }

func (u users) Forget(ctx context.Context, user, event string, most int) (fanout.Forgotten, error) {
	done, err := u.feed.Forget(ctx, user, event, most)
	return fanout.Forgotten{Removed: done.Sum(), Unliked: done.Likes, Left: done.Left, Overtaken: done.Overtaken}, err
}

// OpenUsers returns the users of a configuration, on the data of OpenTransfer and with its
// queues. The caller calls end.
func OpenUsers(ctx context.Context, cfg config.Config, log *zap.Logger) (u *feed.Service, end func() error, err error) {
	t, closeTable, err := OpenTransfer(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	var broker queue.Broker
	if cfg.Engine == config.EngineAWS {
		broker, err = OpenSQS(ctx, sqs.Options{Prefix: cfg.QueuePrefix}, t.Clock)
	} else {
		broker, err = queueembedded.Open(filepath.Join(cfg.DataDir, "queue"), queueembedded.Options{Doubt: t.Clock.Doubt, Log: log, Stop: ctx.Done()})
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeTable())
	}
	u = feed.New(feed.Config{
		Access: access.New(access.Config{
			Store: t.Store, Publisher: broker, IDs: id.NewGenerator(time.Now), Now: time.Now, Clock: t.Clock, Lifetimes: lifetime.New(lifetime.Config{Store: t.Store, Now: time.Now, TTL: cfg.TimelineTTL, Log: log}), Log: log,
		}),
		LikesByUser: bool(cfg.LikesByUser),
	})
	return u, func() error { return errors.Join(broker.Close(), closeTable()) }, nil
}

// Forget removes a user and all that the user made, but for likes that workers have to count
// first: the event that they work by stays in the queue. It calls progress with the number of
// removed things. found reports whether there was a profile or anything else of the user.
func Forget(ctx context.Context, u *feed.Service, user string, progress func(removed int)) (found bool, err error) {
	_, err = u.User(ctx, user)
	if e, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || e.Kind != fault.NotFound) {
		return false, err
	}
	found = err == nil
	event, err := u.AskToForget(ctx, user)
	if err != nil {
		return found, err
	}
	for removed := 0; ; {
		done, err := u.Forget(ctx, user, event, forgetStep)
		if err != nil {
			return found, err
		}
		removed += done.Sum()
		progress(removed)
		if done.Sum() == done.Likes {
			return found || removed > 0, nil
		}
	}
}

// forgetStep is the number of things between two calls of progress.
const forgetStep = 100
