// Package fanfare runs a whole Fanfare inside another program: the HTTP API, fan-out, like counts and
// notifications, on the embedded engine. Run serves an address. Start returns a Server, which is an
// http.Handler, for tests and for programs with a server of their own.
//
// The package must never have a setting of its own: each field of Config is a setting of docs/CONFIGURATION.md,
// and all other settings have their defaults. It reads no environment and handles no signal.
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
	"net/http"
	"os"
	"reflect"
	"runtime/debug"
	"strings"

	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
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

	// JWTIssuer enables the tokens of an identity provider (FANFARE_JWT_ISSUER). It needs JWTAudience. Without
	// JWTIssuer the Server has dev tokens, with which anyone who reaches the API can be any user: then HTTPAddr
	// has to be a loopback address, and ServeHTTP answers only requests whose Host is localhost or an IP address.
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
	if cfg.HTTPAddr == "" {
		return errors.New("fanfare: HTTPAddr is missing: nobody could reach the API; set it, or use Start and its handler")
	}
	s, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	return s.Wait()
}

// Server is a running Fanfare. All methods may be called by many goroutines at once.
type Server struct {
	api       http.Handler
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
	if cfg.DataDir == "" {
		if settings.DataDir, err = os.MkdirTemp("", "fanfare-"); err != nil {
			return nil, fmt.Errorf("fanfare: temporary data directory: %w", err)
		}
		removeData = func() error { return os.RemoveAll(settings.DataDir) }
	}
	running, stop := context.WithCancel(ctx)
	s := &Server{stop: stop, ended: make(chan struct{})}
	ready := make(chan struct{})
	go func() { // Start, Wait and Close wait for its end
		defer close(s.ended)
		defer stop()
		s.err = errors.Join(daemon.Run(running, daemon.Options{
			Config: settings, Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Version: version(), Log: log,
			Handle: func(h http.Handler) { s.api = h },
			Ready:  func(at daemon.Addresses) { s.addresses = at; close(ready) },
		}), removeData())
	}()
	select {
	case <-ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("fanfare: not started: %w", cmp.Or(ctx.Err(), s.err, errEnded))
	}
}

// ServeHTTP answers a request to the API and the console, whose paths begin at the root. After the stop the
// answer is 503. It implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.api.ServeHTTP(w, r) }

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
	auth := config.AuthDev
	if cfg.JWTIssuer != "" || len(cfg.JWTAudience) > 0 || cfg.JWKSURL != "" {
		auth = config.AuthJWT
	}
	settings, err := config.Load([]string{
		"FANFARE_ENGINE=" + string(config.EngineEmbedded), "FANFARE_AUTH=" + string(auth),
		"FANFARE_DATA_DIR=" + cfg.DataDir, "FANFARE_HTTP_ADDR=" + cfg.HTTPAddr, "FANFARE_ADMIN_ADDR=" + cfg.AdminAddr,
		"FANFARE_JWT_ISSUER=" + cfg.JWTIssuer, "FANFARE_JWT_AUDIENCE=" + strings.Join(cfg.JWTAudience, ","),
		"FANFARE_JWKS_URL=" + cfg.JWKSURL, "FANFARE_DEV_SECRET=" + cfg.DevSecret,
	}, config.API)
	if err != nil {
		return settings, fmt.Errorf("fanfare: Config is not usable, by the names of its settings: %w", err)
	}
	settings.HTTPAddr, settings.AdminAddr = cfg.HTTPAddr, cfg.AdminAddr // "" is no address, not the default
	return settings, nil
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
