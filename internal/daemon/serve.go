package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"fanfare/internal/admin"
	"fanfare/internal/backoff"
	"fanfare/internal/httpapi"
	"fanfare/internal/obs"
)

// Limits of the HTTP servers, which bound the time for which a slow client can hold a connection.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	writeTimeout      = 45 * time.Second
	// idleTimeout is longer than the idle timeout of balancers, which is 60 s by default on
	// AWS. If a process closes a connection before the balancer does, the balancer may answer
	// 502 to a request that it has just sent on this connection.
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	// sendBuffer is the size of a connection's send buffer, in bytes. Linux doubles this size.
	sendBuffer = 128 << 10
	// maxConns is the maximum number of connections of the API, even if the process may
	// have more descriptors.
	maxConns = 16384
	// connsBeside is the maximum number of connections of the admin address, and of the metrics address.
	connsBeside = 64
)

// descriptors returns the maximum number of open files and connections of the process.
func descriptors() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return limit.Cur, nil
}

// connections returns the maximum number of connections of the API. A quarter of the
// descriptors is reserved for the stores and the queue.
func connections(descriptors uint64) int {
	return int(min(maxConns, max(1, descriptors-descriptors/4)))
}

// bounded limits the number of connections of l. Further connections wait in the kernel
// until a connection ends.
func bounded(l net.Listener, descriptors uint64) net.Listener {
	return netutil.LimitListener(l, connections(descriptors))
}

// patient repeats a failed Accept: the process or the machine has too few descriptors or too little memory at the moment, or a connection has
// ended before it was accepted. net/http repeats only some of these errors, and each other error would end the process.
type patient struct {
	net.Listener
	log    *zap.Logger
	again  backoff.Exponential
	once   sync.Once
	closed chan struct{}
}

func newPatient(l net.Listener, log *zap.Logger) *patient {
	return &patient{Listener: l, log: log, again: backoff.Exponential{First: 5 * time.Millisecond, Most: time.Second}, closed: make(chan struct{})}
}

// Accept returns an error only after Close.
func (p *patient) Accept() (net.Conn, error) {
	for failures := 1; ; failures++ {
		conn, err := p.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		p.log.Warn("no connection can be accepted at the moment: look at the limit of open files (ulimit -n) and at the memory of this machine", zap.Error(err))
		select {
		case <-time.After(p.again.Bound(failures)):
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
}

func (p *patient) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Listener.Close()
}

// listen opens addr. Its error names the variable that sets the address.
func (p *process) listen(ctx context.Context, what, variable, addr string) (net.Listener, error) {
	lc := net.ListenConfig{Control: boundSends}
	l, err := lc.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s address %s is in use: stop the other process, or set %s", what, addr, variable)
	}
	if err != nil {
		return nil, fmt.Errorf("%s address %s (%s): %w", what, addr, variable, err)
	}
	return newPatient(l, p.work), nil
}

// warnOfPublicAdmin logs a warning if other machines may reach the admin address.
func (p *process) warnOfPublicAdmin() {
	if p.cfg.AdminIsPublic() {
		p.log.Warn("other machines may reach the admin address, and it asks for no token: set FANFARE_METRICS_ADDR for scrapers and probes, and FANFARE_ADMIN_ADDR to a loopback address",
			zap.String("admin", p.operator.address))
	}
}

// origins returns the origins of the pages that may read the answers.
func (p *process) origins() httpapi.Origins {
	return httpapi.NewOrigins(p.cfg.CORSOrigins, p.cfg.CORSHeaders, p.opt.Site != nil)
}

// boundSends limits the kernel's memory for bytes that clients have not read. Connections
// inherit the limit. The kernel's own limit is about 4 MiB for each connection, and a
// container's limit includes this memory.
func boundSends(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
	})
	return errors.Join(err, set)
}

func newServer(h http.Handler, log *zap.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(obs.Sampled(log.Named("http"), zap.InfoLevel)),
	}
}

// leaving closes each connection after its answer while the process drains. Then the client
// opens a new connection, which the balancer leads to another process. Idle connections stay
// open, because a client may be sending on an idle connection.
func leaving(health *admin.Health, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if health.Draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// working has the connections with an unanswered request.
type working struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is a hook for http.Server.ConnState.
func (w *working) note(c net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if state == http.StateActive {
		w.conns[c] = struct{}{}
	} else {
		delete(w.conns, c)
	}
}

func (w *working) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// serve answers requests on l until ctx ends. Then serve accepts no more requests, waits at
// most atMost for unanswered requests, and cuts the remaining requests. Connections without
// a request, which probes and browsers open, are cut without an error.
func serve(ctx context.Context, srv *http.Server, l net.Listener, atMost func() time.Duration) error {
	requests := &working{conns: make(map[net.Conn]struct{})}
	srv.ConnState = requests.note
	var running sync.WaitGroup
	defer running.Wait()
	failed := make(chan error, 1)
	running.Go(func() { failed <- srv.Serve(l) })
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace := atMost() // only now it is known why the process stops
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(stop)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if requests.count() > 0 {
		return errors.Join(fmt.Errorf("requests were still unanswered after %s", grace), srv.Close())
	}
	return srv.Close()
}
