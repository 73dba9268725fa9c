package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/fanout"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/notices"
	"fanfare/internal/feed/removal"
	"fanfare/internal/feed/view"
	"fanfare/internal/httpapi"
	"fanfare/internal/likeagg"
	"fanfare/internal/notify"
	"fanfare/internal/obs"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/internal/throttle"
	"fanfare/messages"
)

// startRoles starts the roots of the roles and returns the API's address.
func (p *process) startRoles(ctx context.Context) (string, error) {
	address := ""
	if p.opt.Roles.API {
		var err error
		if address, err = p.startAPI(ctx); err != nil {
			return "", err
		}
	}
	if p.opt.Roles.Fanout {
		p.startFanout()
		p.startNotices()
	}
	if p.opt.Roles.Likes {
		p.startLikes()
	}
	return address, nil
}

// domain has the parts of the domain that processes use. All parts use the same store.
type domain struct {
	feed       *feed.Service
	homes      *home.Homes
	views      *view.Views
	notices    *notices.Notices
	deliveries *delivery.Deliveries
	removals   *removal.Removals
}

func (p *process) newDomain(store table.Store) domain {
	way := access.New(access.Config{
		Store: store, Local: p.eng.local, Publisher: p.eng.broker, IDs: p.ids, Now: p.opt.Now, Clock: p.clock,
		Lifetimes: p.lifetimes, LikeWindow: p.cfg.LikeWindow, KeptNames: p.opt.KeptNames, Reactions: p.cfg.Reactions, ActiveDays: p.cfg.ActiveDays,
		RequestID: obs.RequestID, Log: p.work.Named("feed"),
	})
	service := feed.New(feed.Config{
		Access: way, Authors: p.eng.authors, LikesByUser: bool(p.cfg.LikesByUser), MaxFollowing: p.cfg.MaxFollowing, UserUnits: p.cfg.UserUnits, Notices: p.eng.notices, Posted: p.metrics.Post,
	})
	homes := home.New(home.Config{Access: way, Items: service, Mutes: service, HeadAge: time.Second, HeadsHeld: p.metrics.Heads})
	return domain{service, homes, view.New(way, service), notices.New(way, service, bool(p.cfg.Notifications), p.metrics.UnreadRead), delivery.New(way), removal.New(way, service)}
}

// operated returns by with the parts of the feed that operations read.
func (d domain) operated(by admin.Domain) admin.Domain {
	by.Deliveries, by.Homes, by.Shown = d.deliveries, d.homes, httpapi.NewShown(d.feed, d.views)
	return by
}

// moderated returns by with the parts of the feed with which operations end posts and users.
func (d domain) moderated(by admin.Domain, likesByUser bool) admin.Domain {
	by.Posts, by.Removals, by.LikesByUser = d.feed, d.removals, likesByUser
	return by
}

func (p *process) startAPI(ctx context.Context) (string, error) {
	store := p.shares.Store(table.Measure(p.eng.store, p.metrics.Table(obs.FlowAPI)), throttle.API)
	files, err := descriptors()
	if err != nil {
		return "", err
	}
	pages, operations, err := p.console()
	if err != nil {
		return "", err
	}
	reads := p.newDomain(store)
	api, err := httpapi.New(httpapi.Config{
		Feed: reads.feed, Homes: reads.homes, Views: reads.views, Notices: reads.notices, Deliveries: reads.deliveries, Removals: reads.removals, Events: p.eng.kept, Export: p.exportUser(store),
		Verifier: p.authn.verifier, Site: p.opt.Site, Tokens: p.authn.tokens,
		OwnHost: p.authn.tokens != nil, Direct: p.authn.tokens != nil && p.cfg.DevAuthPublic == "", Hosts: p.cfg.DevAuthHosts,
		Health: p.health, RateLimit: p.cfg.RateLimit, ServiceRateLimit: p.cfg.ServiceRateLimit(), Scopes: p.scopes(), Origins: p.cfg.CORSOrigins, PageHeaders: p.cfg.CORSHeaders,
		Streams: httpapi.Streams{
			// The second half of the connections is for requests.
			Process: max(1, min(p.cfg.Streams, connections(files)/2)), User: p.cfg.StreamsPerUser, Likes: p.eng.likesEach,
			Alone: p.eng.local, Wakes: p.eng.wakes,
		},
		Prefix: p.opt.Prefix, Console: pages, Operations: operations, Counters: p.metrics, Tracer: p.traces.Tracer(), Now: p.opt.Now, Log: p.log.Named("http"),
	})
	if err != nil {
		return "", err
	}
	serving := leaving(p.health, api)
	if p.pairing != nil {
		serving = p.pairing.answering(serving)
	}
	serving = httpapi.Below(p.opt.Prefix, serving)
	address, listening, err := p.listening(ctx, serving, files)
	if err != nil {
		return "", err
	}
	if p.authn.tokens != nil { // log after the address is open, so that a failed start prints one line
		// The level is at least the logger's own, so no FANFARE_LOG_LEVEL hides the line.
		p.log.Log(max(zap.WarnLevel, p.log.Level()), "DEV TOKENS ARE ON: anyone who reaches this API can be any user (FANFARE_AUTH=dev)")
	}
	if p.authn.run != nil {
		p.roots.start("keys", p.authn.run)
	}
	p.roots.start("streams", api.Run)
	p.roots.start("events", p.eng.kept.Run)
	if listening != nil {
		p.roots.start("http", listening)
	}
	p.hand(serving, p.eng.kept)
	return address, nil
}

// listening opens the API's address, and returns the function that serves there until its context ends. Without a
// configured address the function is nil.
func (p *process) listening(ctx context.Context, api http.Handler, files uint64) (address string, run func(context.Context) error, err error) {
	if p.cfg.HTTPAddr == "" {
		return "", nil, nil
	}
	listener, err := p.listen(ctx, "http", p.setting("FANFARE_HTTP_ADDR", "--http"), p.cfg.HTTPAddr)
	if err != nil {
		return "", nil, err
	}
	return listener.Addr().String(), func(ctx context.Context) error {
		return serve(ctx, newServer(api, p.log), bounded(listener, files), p.grace)
	}, nil
}

// exportUser returns a function that exports one user. If likes by user are off, the export has no likes.
func (p *process) exportUser(store table.Store) func(context.Context, string, io.Writer) error {
	cfg := transfer.Config{Store: store, Now: p.opt.Now, TTL: p.cfg.TimelineTTL, LikesByUser: bool(p.cfg.LikesByUser)}
	return func(ctx context.Context, user string, out io.Writer) error {
		err := transfer.ExportUser(ctx, cfg, user, out)
		if off, ok := errors.AsType[*fault.Error](err); ok && off.Kind == fault.IndexOff {
			return nil
		}
		return err
	}
}

func (p *process) startFanout() {
	measured := table.Measure(p.eng.store, p.metrics.Table(obs.FlowFanout))
	for _, c := range []struct {
		topic   string
		handle  func(*fanout.Worker) queue.Handler
		workers int
		urgency throttle.Urgency
	}{
		{queue.TopicPosts, func(w *fanout.Worker) queue.Handler { return w.HandlePosts }, p.eng.workers.posts, throttle.Posts},
		{queue.TopicBackfills, func(w *fanout.Worker) queue.Handler { return w.HandleBackfills }, p.eng.workers.backfills, throttle.Backfills},
		{queue.TopicChunks, func(w *fanout.Worker) queue.Handler { return w.HandleChunks }, p.eng.workers.chunks, throttle.Chunks},
	} {
		store := p.shares.Store(measured, c.urgency)
		parts := p.newDomain(store)
		worker := fanout.New(fanout.Config{
			Store: store, Posts: parts.feed, Users: users{parts.removals}, Publisher: p.eng.broker, IDs: p.ids, Now: p.opt.Now, Clock: p.clock,
			Lifetimes: p.lifetimes, PushLimit: p.cfg.PushLimit, ActiveDays: p.cfg.ActiveDays, Writers: p.eng.writers, PageSize: cmp.Or(p.opt.ChunkSize, p.eng.pageSize), ChunkSize: p.opt.ChunkSize,
			Walks: p.eng.workers.walks, Observe: p.metrics.Delivered, Skipped: p.metrics.Skipped, Events: p.eng.events, Notices: p.eng.notices, Log: p.work.Named("fanout"),
		})
		seen := p.metrics.Receives("fanout", c.topic)
		consumer := &queue.Consumer{
			Topic: c.topic, Broker: p.eng.broker, Handle: c.handle(worker), Workers: c.workers,
			Grace: p.opt.Grace, Now: p.opt.Now, Clock: p.clock, Taken: seen.Taken, Observe: seen.Answered, Log: p.work.Named("fanout"), Tracer: p.traces.Tracer(),
		}
		p.roots.start("fanout of "+c.topic, consumer.Run)
	}
}

func (p *process) startLikes() {
	seen := p.metrics.Receives("likeagg", queue.TopicLikes)
	aggregator := likeagg.New(likeagg.Config{
		Store: table.Measure(p.eng.store, p.metrics.Table(obs.FlowLikes)), Broker: p.eng.broker, Now: p.opt.Now, Clock: p.clock,
		Window: p.cfg.LikeWindow, MaxMessages: likesInFlight, IndexLikes: bool(p.cfg.LikesByUser), Kinds: p.cfg.Reactions,
		Grace: p.opt.Grace, Log: p.work.Named("likes"), Tracer: p.traces.Tracer(),
		Observe: func(o likeagg.Outcome) {
			if o.Flushed {
				p.metrics.Flush(o.LedgerBytes)
				p.metrics.LikeLag(o.Lag)
			}
			p.metrics.LikeWindow(o.Lost, o.Fences, o.Pruned)
		},
		Events: each(p.eng.events, p.eng.notices), Taken: seen.Taken, Answered: seen.Answered,
	})
	p.roots.start("likes", aggregator.Run)
}

// each returns a function that sends events to all given queues, nil if no queue is given.
func each(queues ...func(context.Context, ...messages.Event) error) func(context.Context, ...messages.Event) error {
	queues = slices.DeleteFunc(queues, func(send func(context.Context, ...messages.Event) error) bool { return send == nil })
	if len(queues) == 0 {
		return nil
	}
	return func(ctx context.Context, events ...messages.Event) error {
		for _, send := range queues {
			if err := send(ctx, events...); err != nil {
				return err
			}
		}
		return nil
	}
}

// mentionsAnHour is the number of notifications of mentions by one user that a recipient gets in an hour.
const mentionsAnHour = 20

// startNotices starts the notifier. If notifications are off, startNotices starts a consumer that
// empties the queue, because earlier events must not wait for 14 days.
func (p *process) startNotices() {
	seen := p.metrics.Receives("fanout", queue.TopicNotices)
	if !p.cfg.Notifications {
		drain := &queue.Consumer{
			Topic: queue.TopicNotices, Broker: p.eng.broker, Handle: func(context.Context, messages.Event) error { return nil }, Workers: 1,
			Grace: p.opt.Grace, Now: p.opt.Now, Clock: p.clock, Taken: seen.Taken, Observe: seen.Answered, Log: p.work.Named("notices"),
		}
		p.roots.start("notices", drain.Run)
		return
	}
	notifier := notify.New(notify.Config{
		Store: p.shares.Store(table.Measure(p.eng.store, p.metrics.Table(obs.FlowNotices)), throttle.Notices), Broker: p.eng.broker, IDs: p.ids, Now: p.opt.Now, Clock: p.clock,
		Window: p.cfg.NotifyWindow(), TTL: p.cfg.NotificationTTL, Workers: p.eng.workers.notices, Mentions: mentionsAnHour,
		Grace: p.opt.Grace, Log: p.work.Named("notices"), Observe: func(o notify.Outcome) { p.metrics.Notice(string(o.Kind), string(o.Result), o.Messages, o.Lag) },
		Held: p.metrics.NoticesHeld, Events: p.eng.events, Taken: seen.Taken, Answered: seen.Answered,
	})
	p.roots.start("notices", notifier.Run)
}
