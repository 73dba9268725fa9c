// Package admin is the admin address of a process: its metrics, profiles and health,
// and the operations on dead letters with their client.
//
// It asks for no token, so it must never take a change from a web page, and the error of
// a dependency goes to the log, never into an answer (I10). It decides nothing about
// messages: the queue and the messages do.
package admin

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
	"fanfare/internal/queue"
)

// Check asks one dependency whether it works.
type Check struct {
	Name string
	Ask  func(context.Context) error
}

// checkTimeout is how long a dependency has to answer.
const checkTimeout = 2 * time.Second

// Health answers /healthz and /readyz. A process is ready while every check passes,
// until it drains.
type Health struct {
	checks   []Check
	draining atomic.Bool
}

// NewHealth returns a Health.
func NewHealth(checks ...Check) *Health { return &Health{checks: checks} }

// Drain makes the process not ready, so that no new work is sent to it.
func (h *Health) Drain() { h.draining.Store(true) }

// Failing asks all dependencies at once and returns the failures in the order of the
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
			failing = append(failing, Failure{h.checks[i].Name, err})
		}
	}
	return failing
}

// Failure is a dependency that does not work.
type Failure struct {
	Name string
	Err  error
}

type healthBody struct {
	Status string `json:"status"`
	// Failing holds names only. The errors are for the log, not for strangers.
	Failing []string `json:"failing,omitempty"`
}

// Live answers /healthz. The process is up if it can answer.
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
	// A failed write means that the client is gone.
	_ = json.NewEncoder(w).Encode(body)
}

// NewHandler returns the handler of the admin address: /metrics, /debug/pprof/, /healthz,
// /readyz, and the operations on broker's dead letters.
func NewHandler(reg prometheus.Gatherer, health *Health, broker queue.DeadLetters, now func() time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", health.Live)
	mux.HandleFunc("GET /readyz", health.Ready)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	handleDeadLetters(mux, NewOperator(broker, now))
	return mux
}
