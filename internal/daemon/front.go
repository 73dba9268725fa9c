package daemon

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"fanfare/internal/admin"
	"fanfare/internal/config"
)

// front is an additional address. It opens before the stores, and gets its final handler
// when the stores work.
type front struct {
	address string
	now     atomic.Pointer[http.Handler]
	roots   *roots
}

func (f *front) set(h http.Handler) { f.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*f.now.Load()).ServeHTTP(w, r) }

// stop ends the address. A second call does nothing.
func (f *front) stop(context.Context) error {
	serving := f.roots
	if serving == nil {
		return nil
	}
	f.roots = nil
	serving.cancel()
	return serving.wait()
}

// setting returns the names of a setting: the variable, and the flag if the program has
// flags. The daemons on AWS have no flags.
func (p *process) setting(variable, flag string) string {
	if p.cfg.Engine == config.EngineEmbedded {
		return variable + " or " + flag
	}
	return variable
}

// beside opens an additional address and serves on it. If addr is "", beside opens nothing.
// The address ends after the roots, so that an operator can watch a stop.
func (p *process) beside(ctx context.Context, name, variable, addr string, profiles bool) (*front, error) {
	f := &front{}
	f.set(admin.Starting())
	if addr == "" {
		return f, nil
	}
	listener, err := p.listen(ctx, name, variable, addr)
	if err != nil {
		return nil, err
	}
	server := newServer(f, p.log)
	if profiles {
		server.WriteTimeout = 0 // pprof streams for as long as the caller wants
	}
	f.address, f.roots = listener.Addr().String(), newRoots(context.WithoutCancel(ctx), p.log)
	f.roots.start(name, func(ctx context.Context) error {
		return serve(ctx, server, netutil.LimitListener(listener, connsBeside), func() time.Duration { return time.Second })
	})
	p.cleanups.add(name, f.stop)
	return f, nil
}
