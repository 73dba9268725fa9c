// Package fanfare runs a whole Fanfare inside another program: the HTTP API, fan-out, like counts and
// notifications, on the embedded engine. Run serves an address. Start returns a Server, which is an
// http.Handler, for tests and for programs with a server of their own.
//
// The package must never have a setting of its own: the fields of Config and the names in Config.Settings are settings
// of docs/CONFIGURATION.md, except for the parts that only a program has, such as User. It reads no environment and
// handles no signal.
//
// Packages fanfare, client, messages and producer are the stable surface of the module (docs/decisions/0055).
//
// Invariants: the data directory has one owner, so a second Start on a directory fails. Each answered call is
// durable, so neither a stop nor a crash of the program loses an answered call. When Run, Close or Wait returns, no
// goroutine of the Server is left.
package fanfare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"fanfare/internal/auth"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/events"
	"fanfare/messages"
)

// errEnded is the error of a start that ends without an error of its own.
var errEnded = errors.New("it stopped at once")

// Config has the settings of a Server. The zero Config is a Fanfare with a temporary directory and dev tokens,
// and without an address and a log.
type Config struct {
	// DataDir is the directory of the data, which Start makes if it is missing (FANFARE_DATA_DIR). "" is a
	// temporary directory, which is removed after the stop.
	DataDir string
	// HTTPAddr is the address of the API, HOST:PORT (FANFARE_HTTP_ADDR). With port 0 the system chooses a
	// free port. "" is no address: then only ServeHTTP answers.
	HTTPAddr string
	// AdminAddr is the address of metrics and operations, HOST:PORT (FANFARE_ADMIN_ADDR), which needs no token. ""
	// is no address.
	AdminAddr string
	// Log gets the log; nil is no log.
	Log *zap.Logger
	// Settings are further settings by their names in docs/CONFIGURATION.md, with the values of fanfare up:
	// {"FANFARE_REACTIONS": "love,wow"}. A setting with a field of its own may be in either.
	Settings map[string]string

	// Prefix is the path below which the API and the console are, such as /feed. "" is the root. The Server expects the
	// prefix in each request, so do not strip it.
	Prefix string

	// Standby makes a data directory that was in no pair the directory of a standby, as fanfare up --standby does. The
	// pair itself is in Settings (FANFARE_PEER and others).
	Standby bool

	// User returns the id of the user of a request, "" for nobody: the program's own sessions identify the callers,
	// so the Server has no tokens, and no setting of tokens. Nobody, or an error, gets 401; the error goes into the log.
	// User gets the request with the prefix, has to return soon, from any goroutine, and reads no body. It is asked for
	// each call, and every 15 seconds during a stream. A request that may change something has to come from a page of the
	// same origin, or of one in FANFARE_CORS_ORIGINS, whose pages may then send cookies.
	User func(*http.Request) (string, error)
	// Service returns the name of the service that makes a request, "" for none, by the rules of User. A service acts for
	// the user in the header Fanfare-User, takes posts down, and removes users. User is asked if Service names none.
	Service func(*http.Request) (string, error)

	// JWTIssuer enables the tokens of an identity provider (FANFARE_JWT_ISSUER). It needs JWTAudience. Without
	// JWTIssuer, User and Service the Server has dev tokens, with which anyone who reaches the API can be any user:
	// then HTTPAddr has to be a loopback address, and ServeHTTP answers only requests whose Host is localhost or an
	// IP address.
	JWTIssuer string
	// JWTAudience are the accepted audiences of tokens (FANFARE_JWT_AUDIENCE).
	JWTAudience []string
	// JWKSURL is the URL of the issuer's keys (FANFARE_JWKS_URL). Without JWKSURL the issuer's discovery document
	// names the keys.
	JWKSURL string
	// DevSecret, at least 32 bytes, signs dev tokens (FANFARE_DEV_SECRET). Without DevSecret the data directory has
	// a secret.
	DevSecret string
}

// Run runs a Fanfare on cfg.HTTPAddr until ctx ends, and then stops it in order: running requests and workers get
// 15 seconds. The error names the failed part; it is nil after a stop by ctx.
func Run(ctx context.Context, cfg Config) error {
	if cmp.Or(cfg.HTTPAddr, cfg.Settings["FANFARE_HTTP_ADDR"]) == "" {
		return errors.New("fanfare: HTTPAddr is missing: nobody could reach the API; set it, or use Start and its handler")
	}
	s, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	return s.Wait()
}

// inside has the parts of a process for the program around it.
type inside struct {
	api    http.Handler
	events *events.Reader
}

// Server is a running Fanfare. All methods may be called by many goroutines at once.
type Server struct {
	inside    atomic.Pointer[inside] // of the role that a machine of a pair has
	addresses daemon.Addresses
	stop      context.CancelFunc
	// ended is closed after the stop, when err is final.
	ended chan struct{}
	err   error
}

// Start starts a Fanfare and returns when it serves. It stops when ctx ends or at Close. The error of a Start whose
// ctx ends too early wraps the error of ctx.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	settings, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	log := cfg.Log
	if log == nil {
		log = zap.NewNop()
	}
	removeData := func() error { return nil }
	if settings.DataDir == "" {
		if settings.DataDir, err = os.MkdirTemp("", "fanfare-"); err != nil {
			return nil, fmt.Errorf("fanfare: temporary data directory: %w", err)
		}
		removeData = func() error { return os.RemoveAll(settings.DataDir) }
	}
	running, stop := context.WithCancel(ctx)
	s := &Server{stop: stop, ended: make(chan struct{})}
	ready := make(chan struct{})
	var once sync.Once // a machine of a pair is ready again in its next role
	go func() {        // Start, Wait and Close wait for its end
		defer close(s.ended)
		defer stop()
		s.err = errors.Join(daemon.Run(running, daemon.Options{
			Config: settings, Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Version: version(), Log: log, Standby: cfg.Standby, Site: cfg.site(), Prefix: cfg.Prefix,
			Handle: func(h http.Handler, kept *events.Reader) { s.inside.Store(&inside{h, kept}) },
			Ready:  func(at daemon.Addresses) { once.Do(func() { s.addresses = at; close(ready) }) },
		}), removeData())
	}()
	select {
	case <-ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("fanfare: not started: %w", cmp.Or(ctx.Err(), s.err, errEnded))
	}
}

// ServeHTTP answers a request to the API and the console, whose paths begin with Config.Prefix. After the stop the
// answer is 503. It implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inside.Load().api.ServeHTTP(w, r)
}

// Event is an event of applied work (docs/PRODUCERS.md, Events for others). Position is its place in the order of all events.
type Event struct {
	Position string
	Message  messages.Event
}

// Events yields the events behind the position after, the oldest event first, and waits for further events. "" is the position before
// the oldest kept event. Each event comes at least once, and has the same position in each loop. A program keeps the position of
// an event that is done, and continues there after its restart. It needs the setting FANFARE_EVENTS_KEPT.
//
// The loop ends with an error: the error of ctx, the end of the Server, the end of this machine as the primary of a pair, or events
// that were removed before this reader read them. An error of an event that this version cannot read has the event's position.
func (s *Server) Events(ctx context.Context, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for kept, err := range s.inside.Load().events.All(ctx, after) {
			event := Event{Position: kept.Position}
			if err == nil {
				event.Message, err = messages.Decode(kept.Payload)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Addr returns the address of the API as HOST:PORT, "" for none.
func (s *Server) Addr() string { return s.addresses.HTTP }

// AdminAddr returns the address of metrics and operations as HOST:PORT, "" for none.
func (s *Server) AdminAddr() string { return s.addresses.Admin }

// Wait returns when the Server has stopped. Its error names the failed part, and is nil after an ordered stop.
func (s *Server) Wait() error {
	<-s.ended
	return s.err
}

// Close stops the Server in order, as Run does, and returns when it has stopped. A second Close only waits.
// Shut your own http.Server down before Close, because open streams of homes end at Close.
func (s *Server) Close() error {
	s.stop()
	return s.Wait()
}

// settings checks cfg in the way of the environment, so that both have the same rules.
func (cfg Config) settings() (config.Config, error) {
	if cfg.Prefix != "" && !regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`).MatchString(cfg.Prefix) {
		return config.Config{}, fmt.Errorf("fanfare: Prefix: %q is not a path such as /feed: begin it with a slash, and end it without one", cfg.Prefix)
	}
	all := map[string]string{}
	maps.Copy(all, cfg.Settings)
	var twice []string
	for name, value := range cfg.fields() {
		if other := all[name]; value != "" && other != "" && other != value {
			twice = append(twice, name)
		}
		all[name] = cmp.Or(value, all[name])
	}
	if len(twice) > 0 {
		slices.Sort(twice)
		return config.Config{}, fmt.Errorf("fanfare: Settings has another value than a field of Config: set %s in one of both", strings.Join(twice, ", "))
	}
	role := config.API
	if cfg.site() != nil {
		role = config.Site
	}
	settings, err := config.LoadEmbedded(all, role)
	if err != nil {
		return settings, fmt.Errorf("fanfare: Config is not usable, by the names of its settings: %w", err)
	}
	// "" is no address and no directory, not the default.
	settings.DataDir, settings.HTTPAddr, settings.AdminAddr = all["FANFARE_DATA_DIR"], all["FANFARE_HTTP_ADDR"], all["FANFARE_ADMIN_ADDR"]
	return settings, nil
}

// site returns the functions that identify callers, nil for none.
func (cfg Config) site() *auth.Site {
	if cfg.User == nil && cfg.Service == nil {
		return nil
	}
	return &auth.Site{User: cfg.User, Service: cfg.Service}
}

// fields returns the settings of the fields of cfg, by name.
func (cfg Config) fields() map[string]string {
	tokens := ""
	if cfg.JWTIssuer != "" || len(cfg.JWTAudience) > 0 || cfg.JWKSURL != "" {
		tokens = string(config.AuthJWT)
	}
	return map[string]string{
		"FANFARE_AUTH": tokens, "FANFARE_DATA_DIR": cfg.DataDir, "FANFARE_HTTP_ADDR": cfg.HTTPAddr, "FANFARE_ADMIN_ADDR": cfg.AdminAddr,
		"FANFARE_JWT_ISSUER": cfg.JWTIssuer, "FANFARE_JWT_AUDIENCE": strings.Join(cfg.JWTAudience, ","), "FANFARE_JWKS_URL": cfg.JWKSURL, "FANFARE_DEV_SECRET": cfg.DevSecret,
	}
}

// version returns the version of this module in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == reflect.TypeFor[Config]().PkgPath() {
			return module.Version
		}
	}
	return cmp.Or(info.Main.Version, "unknown")
}
