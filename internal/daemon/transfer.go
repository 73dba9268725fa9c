package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	tableembedded "fanfare/internal/table/embedded"
	"fanfare/internal/transfer"
)

// OpenTransfer returns the parts of an import or an export of a configuration: on the table of
// FANFARE_ENGINE=aws, or on a data directory that no other process has open. The caller calls
// end.
func OpenTransfer(ctx context.Context, cfg config.Config, log *zap.Logger) (t transfer.Config, end func() error, err error) {
	clk := clock.New(time.Now)
	t = transfer.Config{
		Now: time.Now, Clock: clk, TimelineTTL: cfg.TimelineTTL, LikeWindow: cfg.LikeWindow, LikesByUser: bool(cfg.LikesByUser),
		PushLimit: cfg.FollowersPushed(), ActiveDays: cfg.ActiveDays, MaxFollowing: cfg.MaxFollowing, Writers: 1, Log: log,
	}
	if cfg.Engine == config.EngineAWS {
		t.Writers, t.PageSize = awsWriters, PageSize
		t.Store, err = openTable(ctx, cfg, clk)
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
