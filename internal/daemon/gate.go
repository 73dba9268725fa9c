package daemon

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fanfare/internal/events"
	"fanfare/internal/httpapi"
)

// gate passes the requests of the embedding program to the API until the stop. The stores may close only after
// the last passed request, or after the grace.
type gate struct {
	next  http.Handler
	grace time.Duration
	// cut ends the requests that are unanswered after the grace.
	cut    context.Context //nolint:containedctx // the end of cut ends the contexts of requests
	cutAll context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running int
	// idle is closed when the gate has stopped and no request runs.
	idle chan struct{}
}

func newGate(next http.Handler, grace time.Duration) *gate {
	cut, cutAll := context.WithCancel(context.Background())
	return &gate{next: next, grace: grace, cut: cut, cutAll: cutAll, idle: make(chan struct{})}
}

// hand gives the handler of the API and the log of events to the program that embeds the process.
func (p *process) hand(api http.Handler, kept *events.Reader) {
	if p.opt.Handle == nil {
		return
	}
	inside := newGate(api, p.opt.Grace)
	p.roots.start("handler", inside.run)
	p.opt.Handle(inside, kept)
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		httpapi.Stopped(w)
		return
	}
	defer g.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.cut, cancel)()
	g.next.ServeHTTP(w, r.WithContext(ctx))
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.running++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.stopped && g.running == 0 {
		close(g.idle)
	}
}

// stop refuses further requests.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	if g.running == 0 {
		close(g.idle)
	}
}

// run waits until ctx ends. Then the gate refuses further requests, waits at most the grace for unanswered
// requests, and ends the contexts of the remaining requests.
func (g *gate) run(ctx context.Context) error {
	defer g.cutAll()
	<-ctx.Done()
	g.stop()
	late := time.NewTimer(g.grace)
	defer late.Stop()
	select {
	case <-g.idle:
		return nil
	case <-late.C:
		return fmt.Errorf("requests of the program were still unanswered after %s", g.grace)
	}
}
