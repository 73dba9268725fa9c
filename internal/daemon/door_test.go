package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/pair"
)

// fromAddr is a connection that comes from an address.
type fromAddr struct {
	net.Conn
	at string
}

func (c fromAddr) RemoteAddr() net.Addr {
	at, _ := net.ResolveTCPAddr("tcp", c.at)
	return at
}

// street is a listener, and the machines that connect with it.
type street struct {
	*failing
	t      *testing.T
	over   context.Context
	crowd  sync.WaitGroup
	served chan string
}

// openDoor serves the connections of a door in the test's bubble.
func openDoor(t *testing.T, keys pair.Keys, peer string) *street {
	t.Helper()
	s := &street{failing: newFailing(0), t: t, served: make(chan string, 1000)}
	over, stop := context.WithCancel(context.Background())
	s.over = over
	ended := make(chan error, 1)
	go func() {
		ended <- newDoor(keys, peer, zap.NewNop()).accept(over, s, func(ctx context.Context, conn net.Conn) error {
			first := make([]byte, 1)
			if _, err := io.ReadFull(conn, first); err != nil {
				return err
			}
			s.served <- string(first)
			<-ctx.Done()
			return conn.Close()
		})
	}()
	t.Cleanup(func() {
		stop()
		s.crowd.Wait()
		assert.NoError(t, <-ended)
	})
	return s
}

// connect connects from an address.
func (s *street) connect(at string) net.Conn {
	near, far := net.Pipe()
	s.conns <- fromAddr{far, at}
	synctest.Wait()
	return near
}

// strangers connects silently from addresses. Each connection that the door closes is opened again at the next beat of its stranger. At one
// moment of virtual time only some strangers connect: a moment has no order, so a test would not be the same twice if all places
// could change hands while the other machine's bytes are on the way.
func (s *street) strangers(n int, at func(int) string, beat time.Duration) {
	const together = connsStrangers / 2
	for i := range n {
		s.crowd.Go(func() {
			_ = backoff.Wait(s.over, beat*time.Duration(i/together)/time.Duration(n/together+1)) // the loop ends with the context
			began := time.Now()
			for again := 0; s.over.Err() == nil; again++ {
				near, far := net.Pipe()
				select {
				case s.conns <- fromAddr{far, at(i + again*n)}:
				case <-s.over.Done():
					return
				}
				stop := context.AfterFunc(s.over, func() { near.Close() })
				_, _ = io.Copy(io.Discard, near) // it ends when the test closes the connection
				stop()
				_ = backoff.Wait(s.over, beat-time.Since(began)%beat) // the loop ends with the context
			}
		})
	}
}

// calls returns after how long a machine with the key is served. The machine connects again a second after a failure, as a standby does.
func (s *street) calls(at string, keys pair.Keys) time.Duration {
	s.t.Helper()
	began := time.Now()
	for time.Since(began) < time.Minute {
		near, far := net.Pipe()
		s.conns <- fromAddr{far, at}
		if conn := secured(s.t, near, keys); conn != nil {
			if _, err := conn.Write([]byte("!")); err == nil {
				closed := make(chan struct{})
				s.crowd.Go(func() {
					_, _ = io.Copy(io.Discard, conn) // it ends when the door closes the connection
					close(closed)
				})
				select {
				case <-s.served:
					return time.Since(began)
				case <-closed:
				}
			}
		}
		_ = near.Close() // a pipe has no error
		<-time.After(time.Second)
	}
	return time.Since(began)
}

// secured returns the machine's side of a connection, nil if the handshake fails.
func secured(t *testing.T, conn net.Conn, keys pair.Keys) net.Conn {
	t.Helper()
	if keys == (pair.Keys{}) {
		return conn
	}
	cert, err := tls.LoadX509KeyPair(keys.Cert, keys.Key)
	require.NoError(t, err)
	client := tls.Client(conn, &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if client.HandshakeContext(ctx) != nil {
		return nil
	}
	return client
}

func keysOf(t *testing.T) (one, two pair.Keys) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, pair.MakeKeys(dir))
	of := func(name string) pair.Keys {
		return pair.Keys{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, "ca.crt")}
	}
	return of("one"), of("two")
}

const theirs = "10.0.0.2:4000" // the other machine

func same(int) string     { return "10.6.6.6:4000" }
func beside(int) string   { return "10.0.0.2:6666" } // behind the same router as the other machine
func apart(i int) string  { return fmt.Sprintf("10.7.%d.%d:4000", i/250%250, i%250) }
func inside(i int) string { return fmt.Sprintf("[fd00::%x]:4000", i) } // one machine with many addresses

// However many strangers hold connections without the key, the other machine is served at its first attempts.
func TestStrangersDoNotKeepTheOtherMachineOut(t *testing.T) {
	t.Parallel()
	for _, from := range []struct {
		name string
		at   func(int) string
	}{{"one address", same}, {"the other machine's own address", beside}, {"an address each", apart}, {"one network of IPv6", inside}} {
		for _, n := range []int{40, 200} {
			for _, encrypted := range []bool{true, false} {
				t.Run(fmt.Sprint(from.name, "/", n, "/", encrypted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var keys, other pair.Keys
						if encrypted {
							keys, other = keysOf(t)
						}
						s := openDoor(t, keys, "10.0.0.2:7000")
						s.strangers(n, from.at, 50*time.Millisecond)
						<-time.After(time.Second)
						assert.LessOrEqual(t, s.calls(theirs, other), 2*time.Second)
					})
				})
			}
		}
	}
}

// Machines with the key take no place before they speak, and a door that is full of sessions refuses at once.
func TestOnlyMachinesWithTheKeyTakePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, other := keysOf(t)
		s := openDoor(t, keys, "")
		for range 3 * connsPeer {
			require.NotNil(t, secured(t, s.connect(theirs), other), "a handshake, and then silence")
		}
		for range connsPeer {
			require.Less(t, s.calls(theirs, other), time.Second)
		}
		conn := secured(t, s.connect(theirs), other)
		require.NotNil(t, conn)
		_, err := conn.Write([]byte("!"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err, "the door is full")
	})
}

// The connections of an address that fails again and again are closed unread for a while. An address that is, or may be, the other
// machine's has no pause.
func TestAnAddressThatFailsAgainAndAgainHasAPause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at     string
		paused bool
	}{"a stranger": {"10.6.6.6:4000", true}, "the other machine": {theirs, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDoor(t, pair.Keys{}, theirs)
				gone := func() bool {
					conn := s.connect(tt.at)
					defer conn.Close()
					_ = conn.SetReadDeadline(time.Now()) // a pipe has deadlines
					_, err := conn.Read(make([]byte, 1))
					return err == io.EOF //nolint:errorlint // a pipe returns it as it is
				}
				for range mayFail {
					require.False(t, gone(), "closed without a failure")
					synctest.Wait()
				}
				require.Equal(t, tt.paused, gone())
				<-time.After(mostPause)
				require.False(t, gone(), "the pause has no end")
			})
		})
	}
}

// failing is a listener whose Accept fails with the errors of a channel before it returns connections.
type failing struct {
	oneConn
	errs   chan error
	closed chan struct{}
	once   sync.Once
}

func newFailing(errs int) *failing {
	return &failing{oneConn: oneConn{make(chan net.Conn)}, errs: make(chan error, errs), closed: make(chan struct{})}
}

func (l *failing) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, err
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *failing) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// TestNoErrorOfAcceptEndsAListener tests patient; this test holds that each address of a process gets one.
func TestEachAddressOfAProcessIsPatient(t *testing.T) {
	t.Parallel()
	l, err := (&process{work: zap.NewNop()}).listen(t.Context(), "API", "FANFARE_HTTP", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	assert.IsType(t, &patient{}, l)
}

// Whatever error Accept returns, each address of the process accepts connections again when the cause has gone.
func TestNoErrorOfAcceptEndsAListener(t *testing.T) {
	t.Parallel()
	for _, code := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPERM, syscall.ENETDOWN} {
		for name, serves := range map[string]func(context.Context, net.Listener) error{
			"peer": func(ctx context.Context, l net.Listener) error {
				return newDoor(pair.Keys{}, "", zap.NewNop()).accept(ctx, l, func(context.Context, net.Conn) error { return nil })
			},
			"http": func(ctx context.Context, l net.Listener) error {
				return serve(ctx, newServer(nil, zap.NewNop()), bounded(l, 100), func() time.Duration { return time.Second })
			},
		} {
			t.Run(fmt.Sprint(name, " ", code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newFailing(20)
					l.conns = make(chan net.Conn, 1)
					for range cap(l.errs) {
						l.errs <- &net.OpError{Op: "accept", Err: code}
					}
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- serves(ctx, newPatient(l, zap.NewNop())) }()
					near, far := net.Pipe()
					defer near.Close()
					l.conns <- far
					<-time.After(time.Minute) // virtual time
					require.Empty(t, l.conns, "the connection waits")
					require.Empty(t, ended)
					for range cap(l.errs) {
						l.errs <- &net.OpError{Op: "accept", Err: code}
					}
					again, far := net.Pipe()
					defer again.Close()
					l.conns <- far
					stop() // during the wait before the next attempt
					require.NoError(t, <-ended)
				})
			})
		}
	}
}
