// Package daemon runs a process from start to stop: it opens the engine that the configuration
// names, checks that the dependencies answer, runs the roles, and stops in two phases. Only
// package daemon knows all parts, and it must never make the decisions of a part.
//
// Start: each resource registers its cleanup at once, so a failed start undoes its steps in reverse
// order. Stop: an API first serves for a drain, in which its balancer notices the stop. Then the
// roots take no new work and finish their work within the grace period. Then unfinished work returns
// to its queue, and the cleanups run in reverse order under one deadline. The hand-over to a standby has a time of its own.
// Every answered call is durable (I5), so neither a stop nor kill -9 loses anything.
//
// Package daemon has no global state, so a test can run several daemons in one process.
package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/console"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/events"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/ops/audit"
	"fanfare/internal/pair"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/internal/throttle"
	"fanfare/internal/trace/otlp"
)

const (
	// defaultGrace is the default of Options.Grace. A stop must end within 30 seconds after
	// its drain. The 30 seconds are enough for the grace, cleanupTime, five seconds for the
	// last poll of a queue, and four seconds in which AWS takes the answers.
	defaultGrace = 15 * time.Second
	cleanupTime  = 5 * time.Second
	// keyTimeout is the timeout for a fetch of the issuer's keys.
	keyTimeout = 10 * time.Second
)

// Roles are the duties of a process.
type Roles struct {
	API    bool `json:"api"`
	Fanout bool `json:"fanout"`
	Likes  bool `json:"likes"`
}

// Names returns the names of the daemons that have the roles in r.
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
	// Environ is the environment, as os.Environ returns it. Its OTEL_* variables enable
	// traces.
	Environ []string
	// Grace is the time after the stop for work in progress; 0 is 15 seconds.
	Grace time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Suggested are the ids of users that the console suggests.
	Suggested []string
	// Standby makes a data directory that was in no pair the directory of a standby.
	Standby bool
	// KeptNames is the time for which the process shows a name after a read of the name; 0 is the default.
	KeptNames time.Duration
	// ChunkSize is the number of followers in a chunk; 0 is the default.
	ChunkSize int
	// Site, if not nil, identifies the callers of the API. The Config then has config.AuthSite.
	Site *auth.Site
	// Prefix is the path below which the API and its pages are, such as /feed. "" is the root.
	Prefix string
	// Handle, if not nil, gets the handler of the API and the log of events before each call of Ready. A program that embeds
	// the process sends its requests there. After the stop each answer is 503.
	Handle func(http.Handler, *events.Reader)
	// Ready is called when the process serves, or follows its primary. A machine of a pair may change its role; then
	// Ready is called again. Ready may be nil.
	Ready func(Addresses)
}

// Addresses are the addresses of a process.
type Addresses struct {
	// HTTP is the address of the API, "" for none.
	HTTP string
	// Admin is the address of metrics and operations, "" for none.
	Admin string
	// Metrics is the address that has only metrics and health, "" for none.
	Metrics string
	// Standby means that the machine follows a primary, and refuses requests.
	Standby bool
}

// process is one call of Run. Run sets the fields before reg, open sets the fields from reg
// to health, and run sets roots.
type process struct {
	opt   Options
	cfg   config.Config
	log   *zap.Logger
	clock *clock.Clock
	ids   *id.Generator
	// lifetimes is the time for which homes show posts.
	lifetimes *lifetime.View
	shares    throttle.Shares
	cleanups  cleanups
	// work is the log for messages and requests. It is sampled, because in an outage all of them fail.
	work *zap.Logger

	reg     *prometheus.Registry
	metrics *obs.Metrics
	// operator is the address of the operations, and scrapes is the address of only the metrics.
	operator, scrapes *front
	// history has the metrics of the past hour, nil on AWS.
	history *admin.History
	eng     *engine
	traces  *otlp.Traces
	authn   authn
	health  *admin.Health

	roots *roots

	// role is the role of this machine in its pair, nil without a pair. pairing is nil unless the machine is a primary.
	// registry has the register of the pair, at an address; nil without one.
	role     *pair.Role
	registry pair.Register
	address  string // of registry
	pairing  *pairing
}

// Run runs a process until ctx ends or a root fails. Its error names the failed part. A machine of a pair that gets
// another role ends all parts, and starts again.
func Run(ctx context.Context, opt Options) error {
	if opt.Grace <= 0 {
		opt.Grace = defaultGrace
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	for {
		err := runOnce(ctx, opt)
		if !errors.Is(err, errOtherRole) || ctx.Err() != nil {
			return err
		}
		opt.Log.Info("the role of this machine changes", zap.Error(err))
	}
}

// workLog returns the log for messages and requests. A user can cause each of its lines at any rate, also an info line: a post that is deleted
// before its delivery has one.
func workLog(log *zap.Logger) *zap.Logger { return obs.Sampled(log, zap.InfoLevel) }

func runOnce(ctx context.Context, opt Options) (err error) {
	p := &process{opt: opt, cfg: opt.Config, log: opt.Log, work: workLog(opt.Log), clock: clock.New(opt.Now), ids: id.NewGenerator(opt.Now)}
	if ignored := config.FromPlatform(opt.Environ); len(ignored) > 0 {
		p.log.Info("ignored variables that the platform made for a service or a link", zap.Strings("names", ignored))
	}
	defer func() {
		err = errors.Join(err, p.cleanups.run(context.WithoutCancel(ctx), cleanupTime))
	}()
	p.cleanups.add("log", func(context.Context) error { return synced(p.work) })
	return p.run(ctx)
}

func (p *process) run(ctx context.Context) error {
	dir, err := p.openAddresses(ctx)
	if errors.Is(err, errNotBegun) {
		p.log.Info("stopped", zap.Error(err))
		return nil
	}
	if err != nil {
		return err
	}
	if p.role != nil && p.role.Role == pair.RoleStandby {
		return p.runStandby(ctx, dir)
	}
	err = p.open(ctx, dir)
	if ctx.Err() != nil && (errors.Is(err, pair.ErrAway) || errors.Is(err, disk.ErrUnconfirmed)) {
		p.log.Info("stopped before the standby came: nothing was answered and nothing is lost", zap.Error(err))
		return nil
	}
	if err != nil {
		return err
	}
	pages, err := console.New(console.Config{Operator: "/", Topics: queue.Topics(), Process: p.described(), Images: p.cfg.ConsoleImages})
	if err != nil {
		return err
	}
	if err := awaitDependencies(ctx, p.health, p.log); err != nil {
		return err
	}
	if err := p.decideLifetimes(ctx); err != nil {
		return err
	}
	if p.pairing != nil {
		if err := p.pairing.Serves(); err != nil {
			return p.pairing.ends(err)
		}
	}
	p.noteSettings(ctx)
	p.roots = newRoots(context.WithoutCancel(ctx), p.log) // the roots end after ctx, by the time of the drain
	defer p.roots.cancel()
	audits := p.auditOf()
	address, err := p.startRoles(ctx)
	if err == nil {
		err = errors.Join(p.startCanary(), p.startAuditor(audits))
	}
	if err != nil {
		p.roots.cancel()
		return errors.Join(err, p.roots.wait())
	}
	if p.cfg.Engine == config.EngineEmbedded { // on AWS each look would ask all queues, which costs money
		p.history = admin.NewHistory(p.reg, console.Charted())
		p.roots.start("history", p.history.Run)
	}
	// The roles start first, because a client that sees a ready process sends requests at once.
	p.operate(audits, pages)
	if p.pairing != nil {
		p.roots.start("pair", p.pairing.watch)
	}
	p.roots.start("clock", func(ctx context.Context) error { return watchClock(ctx, p.log, p.clock) })
	if p.eng.watch != nil {
		p.roots.start("disk", p.eng.watch)
	}
	if p.eng.archived != nil {
		p.roots.start("archive", p.eng.archived)
	}
	p.log.Info("ready", zap.String("http", address), zap.String("admin", p.operator.address),
		zap.String("metrics", p.scrapes.address), zap.String("engine", string(p.cfg.Engine)), zap.String("version", p.opt.Version), zap.Any("roles", p.opt.Roles))
	if p.opt.Ready != nil {
		p.opt.Ready(Addresses{HTTP: address, Admin: p.operator.address, Metrics: p.scrapes.address})
	}

	p.drain(ctx)
	p.log.Info("stopping", zap.Duration("grace", p.opt.Grace))
	err = p.roots.wait()
	p.log.Info("stopped", zap.Error(err))
	return err
}

// openAddresses opens the data directory, finds out the role of the machine, and opens the addresses beside the API.
func (p *process) openAddresses(ctx context.Context) (dir *datadir.Dir, err error) {
	p.reg = prometheus.NewRegistry()
	if p.metrics, err = obs.NewMetrics(p.reg); err != nil {
		return nil, err
	}
	if dir, err = p.openDirectory(); err != nil { // first, because the error explains more than "address in use"
		return nil, err
	}
	if p.operator, err = p.beside(ctx, "admin", p.setting("FANFARE_ADMIN_ADDR", "--admin"), p.cfg.AdminAddr, true); err != nil {
		return nil, err
	}
	if p.scrapes, err = p.beside(ctx, "metrics", "FANFARE_METRICS_ADDR", p.cfg.MetricsAddr, false); err != nil {
		return nil, err
	}
	p.warnOfPublicAdmin()
	return dir, p.decideRole(ctx, dir)
}

// open opens everything that the roles need, but makes no call yet.
func (p *process) open(ctx context.Context, dir *datadir.Dir) (err error) {
	if err := p.openEngine(ctx, dir); err != nil {
		return err
	}
	if err := p.openTraces(ctx); err != nil {
		return err
	}
	if p.authn, err = p.newAuthn(); err != nil {
		return err
	}
	p.health = admin.NewHealth(slices.Concat(p.eng.checks, p.authn.checks, []admin.Check{
		{Name: "the clock is in doubt", Ask: func(context.Context) error { return p.clock.Doubt() }, Warn: true},
	})...)
	if p.pairing != nil {
		p.health.Promise(p.pairing.Promised)
	}
	return p.register()
}

// register adds the metrics of the clock, the throttle, the engine and the tokens.
func (p *process) register() error {
	err := errors.Join(
		obs.RegisterClock(p.reg, p.clock.Offset),
		obs.RegisterThrottle(p.reg, p.shares.Throttle.Limit, p.shares.Throttle.HotKeys),
		p.eng.register(p.reg),
	)
	if p.authn.fetches != nil {
		err = errors.Join(err, obs.RegisterKeys(p.reg, p.authn.fetches))
	}
	if p.authn.remembered != nil {
		err = errors.Join(err, obs.RegisterTokens(p.reg, p.authn.remembered))
	}
	return err
}

// operate sets the handlers of the admin address and the metrics address.
func (p *process) operate(audits audit.Config, pages admin.Pages) {
	reads := p.newDomain(table.Measure(p.eng.store, p.metrics.Table(obs.FlowFanout)))
	domain := reads.operated(admin.Domain{Letters: p.eng.broker, Audit: audit.New(audits), Items: p.eng.items, Now: p.opt.Now})
	if p.opt.Roles.API { // as the API, whose daemon may write all that a moderator ends
		domain = reads.moderated(domain, bool(p.cfg.LikesByUser))
	}
	if p.cfg.Engine == config.EngineEmbedded { // on AWS each process of an operator may open the table
		domain.Transfers = p.transfers()
	}
	domain.History, domain.About = p.history, p.about()
	if p.eng.backups != nil {
		domain.Backups = p.eng.backups
	}
	if p.pairing != nil {
		domain.Pair = p.pairing
	}
	p.operator.set(admin.NewHandler(admin.Config{
		Metrics: p.reg, Health: p.health, Log: p.log.Named("admin"), Domain: domain, Host: p.cfg.AdminHost(), Profiles: bool(p.cfg.Pprof), Console: pages,
	}))
	p.scrapes.set(admin.NewMetricsHandler(p.reg, p.health))
	p.cleanups.add("admin", p.operator.stop) // before the stores, because the handlers read the stores
	p.cleanups.add("metrics", p.scrapes.stop)
}
