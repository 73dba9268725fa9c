package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/backoff"
	"fanfare/internal/ops/audit"
	"fanfare/internal/pair"
)

// oneConn is a listener that returns the connections of a channel.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (oneConn) Close() error   { return nil }
func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// Connections without requests leave descriptors for the stores, and end after a time, so that other connections
// are accepted.
func TestConnectionsLeaveDescriptorsForTheStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := oneConn{make(chan net.Conn, 100)}
		const limit, conns = 16, 20
		srv := newServer(http.NotFoundHandler(), zap.NewNop())
		var open atomic.Int64
		srv.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed:
				open.Add(-1)
			case http.StateActive, http.StateIdle, http.StateHijacked:
			}
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(bounded(l, limit)) }()
		for range conns {
			client, server := net.Pipe()
			defer client.Close()
			l.conns <- server
		}
		synctest.Wait()
		n := open.Load()
		assert.Equalf(t, int64(12), n, "%d of %d connections are open with %d descriptors", n, conns, limit)
		<-time.After(readHeaderTimeout) // virtual time: the first connections end
		synctest.Wait()
		assert.Equal(t, int64(conns-12), open.Load(), "connections are open afterwards")
		close(l.conns)
		assert.NoError(t, srv.Close())
		if err := <-served; !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// If a client does not read, the kernel keeps at most one send buffer for it.
func TestConnectionsHaveASmallSendBuffer(t *testing.T) {
	t.Parallel()
	l, err := (&process{work: zap.NewNop()}).listen(t.Context(), "http", "FANFARE_HTTP_ADDR", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var size int
	var read error
	if err := raw.Control(func(fd uintptr) {
		size, read = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	}); err != nil || read != nil {
		t.Fatal(err, read)
	}
	assert.LessOrEqualf(t, size, 2*sendBuffer, "the send buffer has %d bytes", size)
}

// A slow client is cut after a bounded time. The test uses virtual time.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	const request = "POST / HTTP/1.1\r\nHost: fanfare\r\nContent-Length: 2\r\n\r\n"
	for _, tt := range []struct {
		name, sends string
		// reads is the number of answers that the client reads.
		reads int
		after time.Duration
	}{
		{"a header that does not end", "POST / HTTP/1.1\r\nHost: fanfare\r\n", 0, readHeaderTimeout},
		{"a body that does not end", request + "x", 0, readTimeout},
		{"an answer that nobody reads", request + "ok", 0, writeTimeout},
		{"a connection without requests", request + "ok", 1, idleTimeout},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				l := oneConn{make(chan net.Conn, 1)}
				l.conns <- server
				cut := make(chan error, 1) // the error in the handler
				srv := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					if err == nil {
						_, err = w.Write(make([]byte, 1<<20))
					}
					if err != nil {
						cut <- err
					}
				}), zap.NewNop())
				began, served := time.Now(), make(chan error, 1)
				go func() { served <- srv.Serve(l) }()
				if _, err := io.WriteString(client, tt.sends); err != nil {
					t.Fatal(err)
				}
				var err error
				if strings.HasPrefix(tt.sends, request) && tt.reads == 0 {
					err = <-cut
					assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "the handler ended by")
				} else {
					r := bufio.NewReader(client)
					for range tt.reads {
						res, err := http.ReadResponse(r, nil)
						require.NoError(t, err)
						if n, err := io.Copy(io.Discard, res.Body); n != 1<<20 || err != nil {
							t.Errorf("an answer of %d bytes, %v", n, err)
						}
						res.Body.Close()
					}
					_, err = r.ReadByte()
					assert.ErrorIs(t, err, io.EOF, "the connection ended by")
				}
				assert.Equal(t, tt.after, time.Since(began))
				close(l.conns)
				assert.NoError(t, errors.Join(client.Close(), srv.Close()))
				if err := <-served; !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// slow does operations that take some time.
type slow struct{ takes time.Duration }

func (slow) PairStatus() pair.Status { return pair.Status{Role: "primary"} }

func (slow) Move(context.Context, admin.Move) error { return nil }

func (s slow) Promote(ctx context.Context, _ admin.Promotion) error {
	return backoff.Wait(ctx, s.takes)
}

func (s slow) Backup(ctx context.Context, _ string) (admin.Backup, error) {
	return admin.Backup{}, backoff.Wait(ctx, s.takes)
}

func (s slow) Run(ctx context.Context, _ audit.Walk) (audit.Summary, error) {
	return audit.Summary{}, backoff.Wait(ctx, s.takes)
}

// A promotion, a backup and a walk may take longer than the limits of the server and of the client. The test uses virtual time.
func TestALongOperationIsAnswered(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *admin.Client) error{
		"promote": func(ctx context.Context, c *admin.Client) error {
			status, err := admin.Promote().Do(ctx, c, admin.Promotion{})
			assert.Equal(t, "primary", status.Role)
			return err
		},
		"backup": func(ctx context.Context, c *admin.Client) error {
			_, err := admin.MakeBackup().Do(ctx, c, admin.BackingUp{Dir: "/x"})
			return err
		},
		"verify": func(ctx context.Context, c *admin.Client) error {
			_, err := admin.Verify().Do(ctx, c, admin.Verification{Rate: 1})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				l := oneConn{make(chan net.Conn, 1)}
				l.conns <- far
				s := slow{time.Hour}
				srv := newServer(admin.NewHandler(admin.Config{
					Metrics: prometheus.NewRegistry(), Health: admin.NewHealth(), Domain: admin.Domain{Pair: s, Backups: s, Audit: s},
				}), zap.NewNop())
				served := make(chan error, 1)
				go func() { served <- srv.Serve(l) }()
				transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
				require.NoError(t, do(t.Context(), admin.NewClient("localhost:1", &http.Client{Transport: transport, Timeout: time.Minute})))
				close(l.conns)
				transport.CloseIdleConnections()
				assert.NoError(t, srv.Close())
				if err := <-served; !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}
