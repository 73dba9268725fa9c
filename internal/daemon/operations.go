package daemon

import (
	"context"
	"time"

	"fanfare/internal/admin"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/removal"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue/sqs"
)

// OpenOperations returns the operations on the table of a configuration on AWS. The caller
// must call end.
func OpenOperations(ctx context.Context, cfg config.Config) (d admin.Domain, end func() error, err error) {
	clk := clock.New(time.Now)
	store, err := OpenTable(ctx, cfg, clk)
	if err != nil {
		return d, nil, err
	}
	broker, err := OpenSQS(ctx, sqs.Options{Prefix: cfg.QueuePrefix}, clk)
	if err != nil {
		return d, nil, err
	}
	ids := id.NewGenerator(time.Now)
	lives := lifetime.New(lifetime.Config{Store: store, Now: time.Now, TTL: cfg.TimelineTTL})
	way := access.New(access.Config{Store: store, Publisher: broker, IDs: ids, Now: time.Now, Clock: clk, Lifetimes: lives})
	posts := feed.New(feed.Config{Access: way})
	homes := home.New(home.Config{Access: way, Items: posts, Mutes: posts})
	checks := audit.New(audit.Config{
		Store: store, Feed: posts, IDs: ids, Now: time.Now, Clock: clk, Lifetimes: lives, LikesByUser: bool(cfg.LikesByUser),
	})
	reads := domain{feed: posts, homes: homes, views: view.New(way, posts), deliveries: delivery.New(way), removals: removal.New(way, posts)}
	d = reads.operated(admin.Domain{Letters: broker, Audit: checks, Items: itemsOf(store), Now: time.Now})
	return reads.moderated(d, bool(cfg.LikesByUser)), broker.Close, nil
}
