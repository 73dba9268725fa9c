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
)

// Timeouts of the HTTP servers. A slow client may hold a connection for so long and
// not longer.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	writeTimeout      = 45 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// listen opens addr. Its error names the variable that sets it.
func listen(ctx context.Context, what, variable, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s address %s is in use: stop the other process, or set %s", what, addr, variable)
	}
	if err != nil {
		return nil, fmt.Errorf("%s address %s (%s): %w", what, addr, variable, err)
	}
	return l, nil
}

func newServer(h http.Handler, log *zap.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(log.Named("http")),
	}
}

// working are the connections on which a request has begun and is not answered.
type working struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is an http.Server's ConnState.
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

// serve answers on l until ctx ends. Then it takes no more requests, waits for those
// in work, grace at most, and cuts the rest. Connections on which nothing was asked,
// as probes and browsers open them, are cut without a word.
func serve(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
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
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(stop)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if requests.count() > 0 {
		return errors.Join(fmt.Errorf("requests were still in work after %s", grace), srv.Close())
	}
	return srv.Close()
}
