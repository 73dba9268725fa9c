// Package daemon is the life of a process: it opens the engine that the configuration
// names, checks that the dependencies answer, runs the roles, and stops in two phases. It
// is the only place that knows all parts, and must never make their decisions.
//
// Start: each resource registers its cleanup at once, so a start that fails undoes its
// steps in reverse. Stop: an API serves on for a drain, in which its balancer notices the
// stop. Then the roots take no new work and get the grace period for the work that they hold.
// Then the rest goes back to its queue, and the cleanups run in reverse under one deadline. Every answered call is durable (I5), so a stop, or kill -9, loses
// nothing.
//
// There is no global state, so a test can run several processes in one.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/console"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/likeagg"
	"fanfare/internal/obs"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/internal/trace/otlp"
)

const (
	// defaultGrace is the default of Options.Grace. A stop must end within 30 seconds, after
	// its drain: the grace, cleanupTime, five seconds for the last poll of a queue, and four
	// for AWS to take the answers.
	defaultGrace = 15 * time.Second
	cleanupTime  = 5 * time.Second
	// keyTimeout bounds a fetch of the issuer's keys.
	keyTimeout = 10 * time.Second
)

// Roles are the duties of a process.
type Roles struct {
	API    bool `json:"api"`
	Fanout bool `json:"fanout"`
	Likes  bool `json:"likes"`
}

// Names returns the daemons that have these roles.
func (r Roles) Names() (names []string) {
	for _, role := range []struct {
		is   bool
		name string
	}{{r.API, "api"}, {r.Fanout, "fanout"}, {r.Likes, "likeagg"}} {
		if role.is {
			names = append(names, role.name)
		}
	}
	return names
}

// Options are the settings of Run.
type Options struct {
	Config config.Config
	Roles  Roles
	// Version is the version of the program.
	Version string
	Log     *zap.Logger
	// Environ is the environment, as os.Environ returns it. Its OTEL_* turn traces on.
	Environ []string
	// Grace is the time that held work has after the stop; 0 is 15 s.
	Grace time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Suggested are users to sign in as and to follow, on the console.
	Suggested []string
	// ChunkSize is the number of followers in a chunk of a delivery; 0 is the default.
	ChunkSize int
	// Ready is called once, when the process serves. It may be nil.
	Ready func(Addresses)
}

// Addresses are the addresses of a process.
type Addresses struct {
	// HTTP is the address of the API, "" without that role.
	HTTP string
	// Admin is the address of metrics and operations.
	Admin string
	// Metrics is the address of metrics alone, "" without one.
	Metrics string
}

// process is one run.
type process struct {
	opt      Options
	cfg      config.Config
	log      *zap.Logger
	clock    *clock.Clock
	pace     table.Pace
	cleanups cleanups
	traces   *otlp.Traces
}

// Run runs a process until ctx ends or a root fails. Its error names the failed part.
func Run(ctx context.Context, opt Options) (err error) {
	if opt.Grace <= 0 {
		opt.Grace = defaultGrace
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	p := &process{opt: opt, cfg: opt.Config, log: opt.Log, clock: clock.New(opt.Now)}
	if ignored := config.FromPlatform(opt.Environ); len(ignored) > 0 {
		p.log.Info("ignored variables that the platform made for a service or a link", zap.Strings("names", ignored))
	}
	defer func() {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		err = errors.Join(err, p.cleanups.run(deadline))
	}()
	return p.run(ctx)
}

func (p *process) run(ctx context.Context) error {
	reg := prometheus.NewRegistry()
	metrics, err := obs.NewMetrics(reg)
	if err != nil {
		return err
	}
	dir, err := p.openDirectory() // before the addresses, whose errors say less to a second process
	if err != nil {
		return err
	}
	operations, err := p.beside(ctx, "admin", p.setting("FANFARE_ADMIN_ADDR", "--admin"), p.cfg.AdminAddr, true)
	if err != nil {
		return err
	}
	scrapes, err := p.beside(ctx, "metrics", "FANFARE_METRICS_ADDR", p.cfg.MetricsAddr, false)
	if err != nil {
		return err
	}
	addresses := Addresses{Admin: operations.address, Metrics: scrapes.address}
	p.warnOfPublicAdmin(addresses.Admin)
	eng, err := p.openEngine(ctx, dir)
	if err != nil {
		return err
	}
	if err := eng.register(reg); err != nil {
		return err
	}
	if err := p.openTraces(ctx); err != nil {
		return err
	}
	authn, err := p.newAuthn(eng)
	if err != nil {
		return err
	}
	if err := p.register(reg, authn); err != nil {
		return err
	}
	health := admin.NewHealth(slices.Concat(eng.checks, authn.checks, []admin.Check{
		{Name: "the clock is in doubt", Ask: func(context.Context) error { return p.clock.Doubt() }, Warn: true},
	})...)
	operator, err := console.New(console.Config{Operator: "/", Topics: queue.Topics(), Process: p.described()})
	if err != nil {
		return err
	}
	if err := awaitDependencies(ctx, health, p.log); err != nil {
		return err
	}

	roots := newRoots(context.WithoutCancel(ctx), p.log) // they outlive ctx by the drain
	defer roots.cancel()
	ids := id.NewGenerator(p.opt.Now)
	audits := p.auditOf(eng, metrics, ids)
	addresses.HTTP, err = p.startRoles(ctx, roots, eng, metrics, health, authn, ids, operations)
	if err == nil {
		err = errors.Join(p.startCanary(roots, eng, reg, metrics, ids), p.startAuditor(roots, audits, reg, metrics))
	}
	if err != nil {
		roots.cancel()
		return errors.Join(err, roots.wait())
	}
	// The roles come first: a client that sees the process ready sends requests at once.
	posts := p.newFeed(eng, table.Measure(eng.store, metrics.Table(obs.FlowFanout)), metrics, ids)
	operations.set(p.operations(reg, health, eng, posts, verifier{audit.New(audits)}, operator))
	scrapes.set(admin.NewMetricsHandler(reg, health))
	p.cleanups.add("admin", operations.stop) // before the stores, which the handlers ask
	p.cleanups.add("metrics", scrapes.stop)
	roots.start("clock", func(ctx context.Context) error { return watchClock(ctx, p.log, p.clock) })
	if eng.watch != nil {
		roots.start("disk", eng.watch)
	}
	p.log.Info("ready", zap.String("http", addresses.HTTP), zap.String("admin", addresses.Admin),
		zap.String("metrics", addresses.Metrics), zap.String("engine", string(p.cfg.Engine)), zap.String("version", p.opt.Version), zap.Any("roles", p.opt.Roles))
	if p.opt.Ready != nil {
		p.opt.Ready(addresses)
	}

	p.drain(ctx, roots, health)
	p.log.Info("stopping", zap.Duration("grace", p.opt.Grace))
	err = roots.wait()
	p.log.Info("stopped", zap.Error(err))
	return err
}

// warnOfPublicAdmin logs a warning if other machines may reach the admin address.
func (p *process) warnOfPublicAdmin(address string) {
	if p.cfg.AdminIsPublic() {
		p.log.Warn("other machines may reach the admin address, and it asks for no token: set FANFARE_METRICS_ADDR for scrapers and probes, and FANFARE_ADMIN_ADDR to a loopback address",
			zap.String("admin", address))
	}
}

// register adds the metrics of the clock, the writes and the tokens to reg.
func (p *process) register(reg prometheus.Registerer, authn authn) error {
	if err := obs.RegisterClock(reg, p.clock.Offset); err != nil {
		return err
	}
	if err := obs.RegisterPace(reg, p.pace.Limit, p.pace.HotKeys, p.pace.Refusals); err != nil {
		return err
	}
	if authn.fetches != nil {
		if err := obs.RegisterKeys(reg, authn.fetches); err != nil {
			return err
		}
	}
	if authn.remembered != nil {
		if err := obs.RegisterTokens(reg, authn.remembered); err != nil {
			return err
		}
	}
	return nil
}

// operations returns the handler of the admin address.
func (p *process) operations(reg *prometheus.Registry, health *admin.Health, eng *engine, posts *feed.Service, checks verifier, pages http.Handler) http.Handler {
	return admin.NewHandler(admin.Config{
		Metrics: reg, Health: health, Letters: eng.broker, Now: p.opt.Now, Posts: reconciler{posts},
		Explain: explainer{posts, eng.broker}, Verify: checks, Backups: eng.backups, Host: p.cfg.AdminHost(), Profiles: bool(p.cfg.Pprof),
		Console: pages,
	})
}

// front is an address beside the API's. It is open from before the stores are, and its
// handler is exchanged when they work.
type front struct {
	address string
	now     atomic.Pointer[http.Handler]
	roots   *roots
}

func (f *front) set(h http.Handler) { f.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*f.now.Load()).ServeHTTP(w, r) }

// stop may be called again.
func (f *front) stop(context.Context) error {
	serving := f.roots
	if serving == nil {
		return nil
	}
	f.roots = nil
	serving.cancel()
	return serving.wait()
}

// setting names a setting that has a flag, too. The daemons on AWS have no flags.
func (p *process) setting(variable, flag string) string {
	if p.cfg.Engine == config.EngineEmbedded {
		return variable + " or " + flag
	}
	return variable
}

// beside opens an address beside the API's, and serves on it. With no address it does
// neither. It outlives the roots, so that an operator can watch a stop.
func (p *process) beside(ctx context.Context, name, variable, addr string, profiles bool) (*front, error) {
	f := &front{}
	f.set(admin.Starting())
	if addr == "" {
		return f, nil
	}
	listener, err := listen(ctx, name, variable, addr)
	if err != nil {
		return nil, err
	}
	server := newServer(f, p.log)
	if profiles {
		server.WriteTimeout = 0 // pprof streams for as long as its caller asks
	}
	f.address, f.roots = listener.Addr().String(), newRoots(context.WithoutCancel(ctx), p.log)
	f.roots.start(name, func(ctx context.Context) error {
		return serve(ctx, server, netutil.LimitListener(listener, connsBeside), time.Second)
	})
	p.cleanups.add(name, f.stop)
	return f, nil
}

// startRoles starts the roots of the roles and returns the API's address.
func (p *process) startRoles(ctx context.Context, roots *roots, eng *engine, metrics *obs.Metrics, health *admin.Health, authn authn, ids *id.Generator, operations http.Handler) (string, error) {
	address := ""
	if p.opt.Roles.API {
		var err error
		if address, err = p.startAPI(ctx, roots, eng, metrics, health, authn, ids, operations); err != nil {
			return "", err
		}
	}
	if p.opt.Roles.Fanout {
		p.startFanout(roots, eng, metrics, ids)
	}
	if p.opt.Roles.Likes {
		p.startLikes(roots, eng, metrics)
	}
	return address, nil
}

func (p *process) newFeed(eng *engine, store table.Store, metrics *obs.Metrics, ids *id.Generator) *feed.Service {
	return feed.New(feed.Config{
		Store: store, Local: eng.local, Authors: eng.authors, Publisher: eng.broker, IDs: ids, Now: p.opt.Now, Clock: p.clock,
		TimelineTTL: p.cfg.TimelineTTL, LikesByUser: bool(p.cfg.LikesByUser), LikeWindow: p.cfg.LikeWindow,
		HeadAge: time.Second, HeadsHeld: metrics.Heads, ActiveDays: p.cfg.ActiveDays,
		MaxFollowing: p.cfg.MaxFollowing, Posted: metrics.Post, RequestID: obs.RequestID, Log: p.log.Named("feed"),
	})
}

func (p *process) startAPI(ctx context.Context, roots *roots, eng *engine, metrics *obs.Metrics, health *admin.Health, authn authn, ids *id.Generator, operations http.Handler) (string, error) {
	store := p.pace.Store(table.Measure(eng.store, metrics.Table(obs.FlowAPI)), table.UrgencyAPI)
	files, err := descriptors()
	if err != nil {
		return "", err
	}
	pages, operations, err := p.console(authn, operations)
	if err != nil {
		return "", err
	}
	api, err := httpapi.New(httpapi.Config{
		Feed:     p.newFeed(eng, store, metrics, ids),
		Verifier: authn.verifier, Tokens: authn.tokens,
		OwnHost: authn.tokens != nil && p.cfg.DevAuthPublic == "",
		Health:  health, RateLimit: p.cfg.RequestsPerSecond(), ServiceRateLimit: p.cfg.ServiceRequestsPerSecond(), ServiceScope: p.serviceScope(), Origins: p.cfg.CORSOrigins, PageHeaders: p.cfg.CORSHeaders,
		Streams: httpapi.Streams{
			// The other half of the connections is for requests.
			Process: max(1, min(p.cfg.Streams, connections(files)/2)), User: p.cfg.StreamsPerUser, Poll: p.cfg.StreamPoll, Wakes: eng.wakes,
		},
		Console: pages, Operations: operations, Counters: metrics, Tracer: p.traces.Tracer(), Now: p.opt.Now, Log: p.log.Named("http"),
	})
	if err != nil {
		return "", err
	}
	listener, err := listen(ctx, "http", p.setting("FANFARE_HTTP_ADDR", "--http"), p.cfg.HTTPAddr)
	if err != nil {
		return "", err
	}
	if authn.tokens != nil { // logged once the address is open: a failed start prints one line
		// The level is at least the logger's own, so no FANFARE_LOG_LEVEL hides the line.
		p.log.Log(max(zap.WarnLevel, p.log.Level()), "DEV TOKENS ARE ON: anyone who reaches this API can be any user (FANFARE_AUTH=dev)")
	}
	if authn.run != nil {
		roots.start("keys", authn.run)
	}
	roots.start("streams", api.Run)
	roots.start("http", func(ctx context.Context) error {
		return serve(ctx, newServer(leaving(health, api), p.log), bounded(listener, files), p.opt.Grace)
	})
	return listener.Addr().String(), nil
}

// authn holds the parts that check tokens for the API.
type authn struct {
	verifier auth.Verifier
	// tokens issues dev tokens, if not nil.
	tokens httpapi.TokenIssuer
	checks []admin.Check
	// run, if not nil, keeps the keys fresh.
	run func(context.Context) error
	// remembered returns the bytes for tokens that were verified. It is nil without an API.
	remembered func() int64
	// fetches counts the fetches of the issuer's keys. It is nil without an issuer.
	fetches func() (done, failed int64)
}

func (p *process) newAuthn(eng *engine) (authn, error) {
	switch {
	case !p.opt.Roles.API:
		return authn{}, nil
	case p.cfg.Auth == config.AuthDev:
		dev, err := auth.NewDev(eng.devSecret, p.opt.Now)
		if err != nil {
			return authn{}, err
		}
		return authn{verifier: dev, tokens: dev, remembered: dev.RememberedBytes}, nil
	default:
		keys := NewKeySet(p.cfg, p.opt.Now, p.log)
		verifier := auth.NewJWT(auth.Rules{
			Issuer: p.cfg.JWTIssuer, Audiences: p.cfg.JWTAudience, UserClaim: p.cfg.JWTUserClaim, Scope: p.cfg.ServiceScope,
		}, keys, p.opt.Now)
		return authn{
			verifier: verifier, remembered: verifier.RememberedBytes, fetches: keys.Fetches,
			checks: []admin.Check{{Name: "keys", Ask: keys.Ready, Needed: true}},
			run:    keys.Run,
		}, nil
	}
}

// serviceScope is the scope that lets a token act for users. Dev tokens have one of their own.
func (p *process) serviceScope() string {
	if p.cfg.Auth == config.AuthDev {
		return auth.ActScope
	}
	return p.cfg.ServiceScope
}

// NewKeySet returns the keys of the issuer of a configuration.
func NewKeySet(cfg config.Config, now func() time.Time, log *zap.Logger) *auth.KeySet {
	client := &http.Client{Timeout: keyTimeout}
	if cfg.JWKSURL == "" {
		return auth.NewDiscoveredKeySet(cfg.JWTIssuer, client, now, log.Named("keys"))
	}
	return auth.NewKeySet(cfg.JWKSURL, client, now, log.Named("keys"))
}

func (p *process) startFanout(roots *roots, eng *engine, metrics *obs.Metrics, ids *id.Generator) {
	measured := table.Measure(eng.store, metrics.Table(obs.FlowFanout))
	for _, c := range []struct {
		topic   string
		handle  func(*fanout.Worker) queue.Handler
		workers int
		urgency table.Urgency
	}{
		{queue.TopicPosts, func(w *fanout.Worker) queue.Handler { return w.HandlePosts }, eng.workers.posts, table.UrgencyPosts},
		{queue.TopicBackfills, func(w *fanout.Worker) queue.Handler { return w.HandleBackfills }, eng.workers.backfills, table.UrgencyBackfills},
		{queue.TopicChunks, func(w *fanout.Worker) queue.Handler { return w.HandleChunks }, eng.workers.chunks, table.UrgencyChunks},
	} {
		store := p.pace.Store(measured, c.urgency)
		posts := p.newFeed(eng, store, metrics, ids)
		worker := fanout.New(fanout.Config{
			Store: store, Posts: posts, Users: users{posts}, Publisher: eng.broker, IDs: ids, Now: p.opt.Now, Clock: p.clock,
			TimelineTTL: p.cfg.TimelineTTL, PushLimit: p.cfg.FollowersPushed(), ActiveDays: p.cfg.ActiveDays, Writers: eng.writers, PageSize: cmp.Or(p.opt.ChunkSize, eng.pageSize), ChunkSize: p.opt.ChunkSize,
			Walks: eng.workers.walks, Observe: metrics.Delivered, Skipped: metrics.Skipped, Events: eng.events, Log: p.log.Named("fanout"),
		})
		consumer := &queue.Consumer{
			Topic: c.topic, Broker: eng.broker, Handle: c.handle(worker), Workers: c.workers,
			Grace: p.opt.Grace, Now: p.opt.Now, Clock: p.clock, Observe: metrics.Answered, Log: p.log.Named("fanout"), Tracer: p.traces.Tracer(),
		}
		roots.start("fanout of "+c.topic, consumer.Run)
	}
}

func (p *process) startLikes(roots *roots, eng *engine, metrics *obs.Metrics) {
	aggregator := likeagg.New(likeagg.Config{
		Store: table.Measure(eng.store, metrics.Table(obs.FlowLikes)), Broker: eng.broker, Now: p.opt.Now, Clock: p.clock,
		Window: p.cfg.LikeWindow, MaxMessages: likesInFlight, IndexLikes: bool(p.cfg.LikesByUser),
		Grace: p.opt.Grace, Log: p.log.Named("likes"), Tracer: p.traces.Tracer(),
		Observe: func(o likeagg.Outcome) {
			if o.Flushed {
				metrics.Flush(o.LedgerBytes)
				metrics.LikeLag(o.Lag)
			}
			metrics.LikeWindow(o.Lost, o.Fences, o.Pruned)
		},
		Events: eng.events, Answered: metrics.Answered,
	})
	roots.start("likes", aggregator.Run)
}
