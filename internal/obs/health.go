package obs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fanfare/internal/panics"
)

// Check asks one dependency whether it answers.
type Check struct {
	Name string
	Ask  func(context.Context) error
}

// checkTimeout is how long a dependency has to answer.
const checkTimeout = 2 * time.Second

// Health answers /healthz and /readyz. It is ready while every check passes, and
// not once it drains.
type Health struct {
	checks   []Check
	draining atomic.Bool
}

// NewHealth returns a Health.
func NewHealth(checks ...Check) *Health { return &Health{checks: checks} }

// Drain makes the process not ready, so that no new work is sent to it.
func (h *Health) Drain() { h.draining.Store(true) }

// Failing asks every dependency at once and returns what does not answer, in the
// order of the checks.
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
			failing = append(failing, Failure{h.checks[i].Name, err})
		}
	}
	return failing
}

// Failure is a dependency that does not answer.
type Failure struct {
	Name string
	Err  error
}

type healthBody struct {
	Status string `json:"status"`
	// Failing names what does not answer. The errors go to the log of who asks
	// for them, not to strangers.
	Failing []string `json:"failing,omitempty"`
}

// Live answers /healthz: the process is up.
func (h *Health) Live(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, healthBody{Status: "ok"})
}

// Ready answers /readyz.
func (h *Health) Ready(w http.ResponseWriter, r *http.Request) {
	if h.draining.Load() {
		writeHealth(w, http.StatusServiceUnavailable, healthBody{Status: "draining"})
		return
	}
	body := healthBody{Status: "ready"}
	for _, f := range h.Failing(r.Context()) {
		body.Failing = append(body.Failing, f.Name)
	}
	if len(body.Failing) > 0 {
		body.Status = "not ready"
		writeHealth(w, http.StatusServiceUnavailable, body)
		return
	}
	writeHealth(w, http.StatusOK, body)
}

func writeHealth(w http.ResponseWriter, status int, body healthBody) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	// A client that went away does not want the answer.
	_ = json.NewEncoder(w).Encode(body)
}

// AdminMux returns the handler of the admin address: /metrics, /debug/pprof/,
// /healthz and /readyz. Others add to it.
func AdminMux(reg prometheus.Gatherer, health *Health) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", health.Live)
	mux.HandleFunc("GET /readyz", health.Ready)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
