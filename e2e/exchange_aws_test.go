//go:build e2e

package e2e

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/porttest"
)

// exchangeRequests is the number of requests of the exchange test.
var exchangeRequests = flag.Int("exchange-requests", 2000, "requests during the rolling exchanges of the api")

// balancer passes each connection on to one of the processes that serve. Like kube-proxy and the
// balancers of AWS, it follows a change of /servez only after reaction, and tries no second process if a
// process refuses.
type balancer struct {
	net.Listener
	running sync.WaitGroup
	mu      sync.Mutex
	serving []string
	turn    int
}

const reaction = 2 * time.Second

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &balancer{Listener: l}
	b.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.running.Go(func() { b.pass(conn) })
		}
	})
	t.Cleanup(b.running.Wait)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return b
}

// pass connects a client with a process. The end of one connection also ends the second connection.
func (b *balancer) pass(from net.Conn) {
	defer from.Close()
	b.mu.Lock()
	target := b.serving[b.turn%len(b.serving)]
	b.turn++
	b.mu.Unlock()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() {
		_, _ = io.Copy(from, to) // the client notices a cut answer
		_ = from.Close()
		_ = to.Close()
	})
	_, _ = io.Copy(to, from) // the process notices a cut request
	_ = to.Close()
}

// watch polls an api's /servez until stopped is closed.
func (b *balancer) watch(address string, stopped <-chan struct{}) {
	b.running.Go(func() {
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		was := false
		for {
			select {
			case <-stopped:
				return
			case <-look.C:
			}
			if is := b.servez(address); is != was {
				was = is
				b.running.Add(1)
				time.AfterFunc(reaction, func() { defer b.running.Done(); b.set(address, is) })
			}
		}
	})
}

// servez reports whether an api serves. A late answer of a busy machine is no refusal: without an api the balancer could pass nothing on.
func (b *balancer) servez(address string) bool {
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Get("http://" + address + "/servez")
	return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

func (b *balancer) set(address string, serves bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = slices.DeleteFunc(b.serving, func(a string) bool { return a == address })
	if serves {
		b.serving = append(b.serving, address)
	}
}

func (b *balancer) passesTo(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.serving, address)
}

// visitor calls an API once for each call, because a retry would hide a refused or cut call.
type visitor struct {
	address, request string
	// keeps lets the visitor use a connection until the API closes the connection.
	keeps bool
	conn  net.Conn
	in    *bufio.Reader
}

func (v *visitor) call() error {
	if v.conn == nil {
		conn, err := net.DialTimeout("tcp", v.address, time.Minute)
		if err != nil {
			return err
		}
		v.conn, v.in = conn, bufio.NewReader(conn)
	}
	closes, err := v.exchange()
	if err != nil || closes || !v.keeps {
		err = errors.Join(err, v.conn.Close())
		v.conn = nil
	}
	return err
}

func (v *visitor) exchange() (closes bool, err error) {
	if err := v.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return false, err
	}
	if _, err := io.WriteString(v.conn, v.request); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(v.in, nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "" {
			err = fmt.Errorf("%w: %w", errBusy, err)
		}
	}
	return res.Close, err
}

// errBusy is the answer of an api whose table or machine is slow. A client retries such a call.
var errBusy = errors.New("busy")

// visits counts the calls of a test.
type visits struct {
	done   atomic.Int64
	mu     sync.Mutex
	failed []error
	busy   int
}

func (v *visits) note(err error) {
	v.done.Add(1)
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		if errors.Is(err, errBusy) {
			v.busy++
			return
		}
		v.failed = append(v.failed, err)
	}
}

// every makes a call at each interval pace. All calls have the same visitor, or each call has a new
// visitor.
func (v *visits) every(pace time.Duration, stop <-chan struct{}, from func() *visitor) {
	var calls sync.WaitGroup
	defer calls.Wait()
	// On a slow machine the test makes fewer calls, because an API refuses a user with too many calls in
	// progress.
	under := make(chan struct{}, 8)
	kept := from()
	for tick := time.NewTicker(pace); ; {
		select {
		case <-stop:
			tick.Stop()
			return
		case <-tick.C:
		}
		if kept.keeps {
			v.note(kept.call())
			continue
		}
		under <- struct{}{}
		calls.Go(func() { v.note(from().call()); <-under })
	}
}

// TestARollingExchangeRefusesNothing replaces api processes behind a balancer, as a rollout does: it
// starts a new process, and then stops an old process. Meanwhile one client opens a connection each 5 ms,
// and another client writes over one open connection.
func TestARollingExchangeRefusesNothing(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	b := newBalancer(t)
	stopped := make(chan struct{})
	add := func() (m *member, address string) {
		address = porttest.Free(t)
		m = &member{kind: "api", admin: porttest.Free(t)}
		m.env = append(append([]string(nil), c.env...), "FANFARE_HTTP_ADDR="+address, "FANFARE_ADMIN_ADDR="+m.admin, "FANFARE_DRAIN=4s")
		m.start(t)
		b.watch(address, stopped)
		return m, address
	}
	serves := func(m *member, address string) *member {
		await(t, "the balancer passes connections to a new api", func() bool {
			return b.passesTo(address) || !m.running() && assert.Fail(t, "an api ended", tail(m.log))
		})
		return m
	}
	first, at := add()
	apis := []*member{serves(add()), serves(first, at)}
	api, err := client.New("http://" + b.Addr().String())
	require.NoError(t, err)
	token, err := api.DevToken(t.Context(), "ann", time.Hour)
	require.NoError(t, err)
	api.CloseIdleConnections()
	head := " /v1/me HTTP/1.1\r\nHost: " + b.Addr().String() + "\r\nAuthorization: Bearer " + token.Token + "\r\n"
	const profile = `{"name":"Ann"}`
	put := fmt.Sprintf("PUT%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head, len(profile), profile)
	require.NoError(t, (&visitor{address: b.Addr().String(), request: put}).call())

	var seen visits
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for _, who := range []visitor{
		{address: b.Addr().String(), request: "GET" + head + "\r\n"}, {address: b.Addr().String(), request: put, keeps: true},
	} {
		clients.Go(func() { seen.every(5*time.Millisecond, stop, func() *visitor { one := who; return &one }) })
	}
	exchanges := 0
	for ; exchanges < 2 || seen.done.Load() < int64(*exchangeRequests); exchanges++ {
		apis = append(apis, serves(add()))
		apis[0].stop(t)
		apis = apis[1:]
	}
	close(stop)
	clients.Wait()
	close(stopped)
	t.Logf("%d of %d requests failed in %d exchanges, and %d were answered busy", len(seen.failed), seen.done.Load(), exchanges, seen.busy)
	assert.Less(t, seen.busy, int(seen.done.Load())/10, "the apis mostly work")
	assert.NoError(t, errors.Join(seen.failed[:min(10, len(seen.failed))]...))
}
