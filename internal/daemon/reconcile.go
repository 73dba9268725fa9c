package daemon

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/admin"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue/sqs"
)

// reconciler is the domain's Reconcile as the admin address offers it.
type reconciler struct{ feed *feed.Service }

func (r reconciler) Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (admin.Reconciled, error) {
	done, err := r.feed.Reconcile(ctx, since, until, cursor, limit)
	if bad, ok := errors.AsType[*feed.Error](err); ok && bad.Kind == feed.Malformed {
		return admin.Reconciled{}, &admin.CursorError{Detail: bad.Detail}
	}
	return admin.Reconciled(done), err
}

// operations are those of the admin address that need the table.
type operations struct {
	reconciler
	explainer
	verifier
}

// OpenOperations returns the operations on the table of a configuration on AWS. The caller
// calls end.
func OpenOperations(ctx context.Context, cfg config.Config) (o admin.Operations, end func() error, err error) {
	clk := clock.New(time.Now)
	store, err := OpenTable(ctx, cfg, clk)
	if err != nil {
		return nil, nil, err
	}
	broker, err := OpenSQS(ctx, sqs.Options{Prefix: cfg.QueuePrefix}, clk)
	if err != nil {
		return nil, nil, err
	}
	ids := id.NewGenerator(time.Now)
	posts := feed.New(feed.Config{Store: store, Publisher: broker, IDs: ids, Now: time.Now, Clock: clk, TimelineTTL: cfg.TimelineTTL})
	checks := audit.New(audit.Config{
		Store: store, Feed: posts, IDs: ids, Now: time.Now, Clock: clk, TimelineTTL: cfg.TimelineTTL, LikesByUser: bool(cfg.LikesByUser),
	})
	return operations{reconciler{posts}, explainer{posts, broker}, verifier{checks}}, broker.Close, nil
}
