package daemon

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"fanfare/internal/admin"
	"fanfare/internal/httpapi"
)

// promises are the promises of a standby, during which a primary may answer reads (P11).
type promises interface {
	Promised() bool
	PromiseEnds() <-chan struct{}
}

// promised passes requests to the API during a promise of the standby. An answer that begins, and each later part of
// it, needs a promise, because after a promise the other machine may serve.
type promised struct {
	next http.Handler
	of   promises
	// origins are the pages that may read a refusal.
	origins httpapi.Origins
	// refused counts a request without an answer.
	refused func()
	// stop ends the goroutines, which wait waits for.
	stop <-chan struct{}

	mu       sync.Mutex
	ends     <-chan struct{} // the end of the present promise
	ctx      context.Context //nolint:containedctx // its end is the end of the promise
	watching sync.WaitGroup
}

// errPromise is the error of a write after the promise.
var errPromise = errors.New("the promise of the standby has ended")

// ServeHTTP implements http.Handler.
func (g *promised) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if admin.IsHealth(r.URL.Path) { // admin.Health knows of promises
		g.next.ServeHTTP(w, r)
		return
	}
	if !g.of.Promised() {
		g.refuse(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.promise(), cancel)()
	answer := &promisedAnswer{ResponseWriter: w, of: g.of}
	g.next.ServeHTTP(answer, r.WithContext(ctx))
	switch {
	case answer.refused && answer.begun:
		panic(http.ErrAbortHandler) // the client must not mistake a part of an answer for the whole answer
	case answer.refused:
		g.refuse(w, r)
	}
}

func (g *promised) refuse(w http.ResponseWriter, r *http.Request) {
	if g.origins.Allow(w, r) {
		return
	}
	g.refused()
	httpapi.Unpromised(w)
}

// promise returns a context that ends with the present promise.
func (g *promised) promise() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ends := g.of.PromiseEnds(); ends != g.ends {
		ctx, cancel := context.WithCancel(context.Background())
		g.ends, g.ctx = ends, ctx
		g.watching.Go(func() {
			defer cancel()
			select {
			case <-ends:
			case <-g.stop:
			}
		})
	}
	return g.ctx
}

// promisedAnswer is an answer that needs a promise.
type promisedAnswer struct {
	http.ResponseWriter
	of             promises
	begun, refused bool
}

// may reports whether a part of the answer may leave this machine.
func (a *promisedAnswer) may() bool {
	if !a.refused && !a.of.Promised() {
		a.refused = true
		if !a.begun {
			clear(a.Header())
		}
	}
	return !a.refused
}

// WriteHeader implements http.ResponseWriter.
func (a *promisedAnswer) WriteHeader(status int) {
	if a.may() {
		a.begun = a.begun || status >= http.StatusOK
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (a *promisedAnswer) Write(p []byte) (int, error) {
	if !a.may() {
		return 0, errPromise
	}
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// FlushError sends the answer so far, see http.ResponseController.
func (a *promisedAnswer) FlushError() error {
	if !a.may() {
		return errPromise
	}
	a.begun = true
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController find the connection.
func (a *promisedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
