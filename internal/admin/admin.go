// Package admin serves the admin address of a process: its metrics, profiles and health,
// and the operations on dead letters and lost fan-outs. The package also has the client of
// these operations. The metrics address has only the metrics and the health, so that a
// scraper cannot operate.
//
// The admin address needs no token. So it must never answer a web page of another site, or
// accept a change from such a page. The error of a dependency goes to the log, never into
// an answer (I10). Package admin decides nothing about messages: the queue and package
// messages do.
package admin

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"fanfare/internal/panics"
)

// Check is a test of one dependency.
type Check struct {
	Name string
	Ask  func(context.Context) error
	// Warn means that the process stays ready if the check fails: /readyz only names the
	// check.
	Warn bool
	// Needed means that a start waits until the check passes, because the process can do
	// nothing without the dependency.
	Needed bool
}

const (
	// checkTimeout is the timeout of a check.
	checkTimeout = 2 * time.Second
	// checkKept is the time for which /readyz keeps the result of a check. Anybody may
	// request /readyz at any rate, and a check of AWS costs money.
	checkKept = time.Second
)

// Health answers /healthz, /servez and /readyz. A process serves until it drains. The primary of a pair
// serves only during a promise of its standby. A serving process is ready if every check passes and the process is not overloaded.
type Health struct {
	checks   []Check
	draining atomic.Bool
	// overloaded may be nil.
	overloaded func() bool
	// promised may be nil.
	promised func() bool

	// checking guards the result. A caller holds checking during a check for /readyz, so
	// that concurrent callers share the check.
	checking chan struct{}
	checked  time.Time
	failing  []Failure
}

// NewHealth returns a Health.
func NewHealth(checks ...Check) *Health {
	return &Health{checks: checks, checking: make(chan struct{}, 1)}
}

// Drain makes the process neither serving nor ready, so that balancers send no new work to
// the process.
func (h *Health) Drain() { h.draining.Store(true) }

// Draining reports whether Drain was called.
func (h *Health) Draining() bool { return h.draining.Load() }

// Watch makes the process not ready while overloaded reports true. Call it before the
// first request.
func (h *Health) Watch(overloaded func() bool) { h.overloaded = overloaded }

// Promise makes the process neither serving nor ready while promised reports false: the other machine of its pair may
// serve then, and a balancer must not send requests to both. Call it before the first request.
func (h *Health) Promise(promised func() bool) { h.promised = promised }

// promise returns the failure of a process without a promise, none if it has a promise or needs none.
func (h *Health) promise() (failing []string) {
	if h.promised == nil || h.promised() {
		return nil
	}
	return []string{"promise of the standby"}
}

// Failing runs all checks at the same time, and returns the failures in the order of the
// checks.
func (h *Health) Failing(ctx context.Context) []Failure {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	errs := make([]error, len(h.checks))
	var wg sync.WaitGroup
	for i, check := range h.checks {
		wg.Go(func() { errs[i] = panics.Catch(func() error { return check.Ask(ctx) }) })
	}
	wg.Wait()
	var failing []Failure
	for i, err := range errs {
		if err != nil {
			failing = append(failing, Failure{h.checks[i], err})
		}
	}
	return failing
}

// recent returns the newest failures, which are at most checkKept old. One caller runs the
// checks, and concurrent callers wait for the result.
func (h *Health) recent(ctx context.Context) ([]Failure, error) {
	select {
	case h.checking <- struct{}{}:
		defer func() { <-h.checking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.checked.IsZero() || time.Since(h.checked) >= checkKept {
		// The checks continue if their caller leaves, because other callers wait for the
		// result.
		h.failing = h.Failing(context.WithoutCancel(ctx))
		h.checked = time.Now()
	}
	return h.failing, nil
}

// Failure is a check that does not pass.
type Failure struct {
	Check
	Err error
}

type healthBody struct {
	Status string `json:"status"`
	// Role is the role of a standby in its pair, and Primary the address of the other machine. Any other process has
	// neither.
	Role    string `json:"role,omitempty"`
	Primary string `json:"primary,omitempty"`
	// Failing has only the names of the checks. The errors go to the log, because strangers
	// may read the answer.
	Failing []string `json:"failing,omitempty"`
	// Warnings are the names of failed checks that leave the process ready.
	Warnings []string `json:"warnings,omitempty"`
}

// Live answers /healthz. A process that can answer is up.
func (h *Health) Live(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, healthBody{Status: "ok"})
}

// Serving answers /servez, for balancers. Serving calls no dependency: all processes share the dependencies,
// so one missing dependency would remove all processes from the balancer at once.
func (h *Health) Serving(w http.ResponseWriter, _ *http.Request) {
	if h.Draining() {
		writeHealth(w, http.StatusServiceUnavailable, healthBody{Status: "draining"})
		return
	}
	if failing := h.promise(); len(failing) > 0 {
		writeHealth(w, http.StatusServiceUnavailable, healthBody{Status: notReady, Failing: failing})
		return
	}
	writeHealth(w, http.StatusOK, healthBody{Status: "serving"})
}

// Ready answers /readyz, for people.
func (h *Health) Ready(w http.ResponseWriter, r *http.Request) {
	body, status := h.state(r.Context()), http.StatusOK
	if body.Status != ready {
		status = http.StatusServiceUnavailable
	}
	writeHealth(w, status, body)
}

const ready, notReady = "ready", "not ready"

func (h *Health) state(ctx context.Context) healthBody {
	if h.Draining() {
		return healthBody{Status: "draining"}
	}
	if h.overloaded != nil && h.overloaded() {
		return healthBody{Status: "overloaded"}
	}
	failing, err := h.recent(ctx)
	if err != nil { // the client is gone
		return healthBody{Status: notReady}
	}
	body := healthBody{Status: ready, Failing: h.promise()}
	for _, f := range failing {
		if f.Warn {
			body.Warnings = append(body.Warnings, f.Name)
		} else {
			body.Failing = append(body.Failing, f.Name)
		}
	}
	if len(body.Failing) > 0 {
		body.Status = notReady
	}
	return body
}

func writeHealth(w http.ResponseWriter, status int, body healthBody) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	// A failed write means that the client is gone.
	_ = json.NewEncoder(w).Encode(body)
}

// Starting returns the handler of the admin and metrics addresses of a process that does not
// work yet. The handler answers /healthz, so that a process in a long recovery does not seem
// to hang.
func Starting() http.Handler { return starting(func() []string { return nil }) }

// starting returns the handler of Starting. Its refusals name the reasons for which the process waits.
func starting(reasons func() []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", NewHealth().Live)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusServiceUnavailable, healthBody{Status: "starting", Failing: reasons()})
	})
	return mux
}

// Config has the parts of a handler.
type Config struct {
	Metrics prometheus.Gatherer
	Health  *Health
	// Log gets a line for each change by an operator; nil logs nothing.
	Log *zap.Logger
	// Domain has the parts for the operations. The handler sets its trail.
	Domain Domain
	// Host is the host name of the admin address, "" for none.
	Host string
	// Profiles adds /debug/pprof/.
	Profiles bool
	// Console, if not nil, are the pages of the console.
	Console Pages
}

// Pages answers the requests of its patterns.
type Pages interface {
	http.Handler
	Patterns() []string
}

// NewHandler returns the handler of the admin address: /metrics, /healthz, /servez, /readyz and the
// operations that the process has. The configuration may add /debug/pprof/ and the console.
func NewHandler(c Config) http.Handler {
	mux := NewMetricsHandler(c.Metrics, c.Health)
	if c.Profiles {
		for path, handler := range map[string]http.HandlerFunc{
			"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
			"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		} {
			mux.Handle("GET "+path, NotFromOtherSites(handler))
		}
	}
	if c.Console != nil {
		for _, pattern := range c.Console.Patterns() {
			mux.Handle(pattern, c.Console)
		}
	}
	c.Domain.Trail, c.Domain.metrics, c.Domain.health = NewTrail(c.Log), c.Metrics, c.Health
	handleOperations(mux, c.Domain)
	return ownHost(c.Host, byActor(mux))
}

// operatorHeader is the header in which callers name themselves.
const operatorHeader = "Fanfare-Operator"

// byActor adds the caller of a request to the request's context.
func byActor(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get(operatorHeader)
		next.ServeHTTP(w, r.WithContext(WithActor(r.Context(), Actor{Name: name[:min(len(name), maxActor)], From: r.RemoteAddr})))
	})
}

// maxActor is the maximum length of an actor's name in the log, in bytes.
const maxActor = 128

// NewMetricsHandler returns the handler of the metrics address: /metrics, /healthz, /servez
// and /readyz. These paths change nothing and show no user's data, so any Host is allowed.
func NewMetricsHandler(metrics prometheus.Gatherer, health *Health) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsOf(metrics))
	mux.HandleFunc("GET /healthz", health.Live)
	mux.HandleFunc("GET /servez", health.Serving)
	mux.HandleFunc("GET /readyz", health.Ready)
	return mux
}

func metricsOf(metrics prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})
}

// ownHost accepts only requests whose Host names this address.
func ownHost(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsOwnHost(r.Host, name) {
			http.Error(w, "the host is not this address: use an IP address, localhost or the name in FANFARE_ADMIN_ADDR", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsOwnHost reports whether the Host of a request names this address: an IP address,
// localhost, or one of names. A web page can give its own host name the IP address of this
// machine (DNS rebinding), and then the browser lets the page read the answers. A request
// without a Host does not come from a browser.
func IsOwnHost(host string, names ...string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) })
}

// ThroughProxy reports whether a proxy has passed a request with this header on.
func ThroughProxy(h http.Header) bool {
	for name := range h {
		switch name {
		case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Original-Host", "X-Original-Url":
			return true
		}
		if strings.HasPrefix(name, "X-Forwarded") {
			return true
		}
	}
	return false
}

// NotFromOtherSites refuses the requests that a browser makes for a page of another site.
func NotFromOtherSites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			http.Error(w, "a page of another site asked for this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
