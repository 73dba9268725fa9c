package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// tcpProxy is a proxy of TCP before the machines of a pair. It asks each machine for /readyz, as haproxy does.
type tcpProxy struct {
	t        *testing.T
	address  string
	machines []string

	mu    sync.Mutex
	up    map[string]bool
	conns map[net.Conn]string // the machine of each connection
}

func newTCPProxy(t *testing.T, machines ...string) *tcpProxy {
	t.Helper()
	b := &tcpProxy{t: t, machines: machines, up: map[string]bool{}, conns: map[net.Conn]string{}}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.address = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.check(ctx) })
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			running.Go(func() { b.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, l.Close())
		b.cut(machines...)
		running.Wait()
	})
	return b
}

// check asks each machine for its health, until ctx ends.
func (b *tcpProxy) check(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, machine := range b.machines {
			ready := b.ready(ctx, machine)
			b.mu.Lock()
			b.up[machine] = ready
			b.mu.Unlock()
			if !ready {
				b.cut(machine)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *tcpProxy) ready(ctx context.Context, machine string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+machine+"/readyz", http.NoBody)
	if !assert.NoError(b.t, err) {
		return false
	}
	resp, err := (&http.Client{Timeout: time.Second}).Do(req)
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// cut ends the connections with machines.
func (b *tcpProxy) cut(machines ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn, machine := range b.conns {
		if slices.Contains(machines, machine) {
			_ = conn.Close() // the other side may have closed it
		}
	}
}

// serve connects a client with the machine that is up. Without such a machine serve ends the connection.
func (b *tcpProxy) serve(ctx context.Context, in net.Conn) {
	defer in.Close()
	b.mu.Lock()
	at := slices.IndexFunc(b.machines, func(machine string) bool { return b.up[machine] })
	b.mu.Unlock()
	if at < 0 {
		return
	}
	out, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", b.machines[at])
	if err != nil {
		return
	}
	defer out.Close()
	b.mu.Lock()
	b.conns[in], b.conns[out] = b.machines[at], b.machines[at]
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, in)
		delete(b.conns, out)
	}()
	var answers sync.WaitGroup
	defer answers.Wait()
	answers.Go(func() {
		_, _ = io.Copy(in, out) // the end of a connection
		_ = in.Close()          // the other goroutine may have closed it
		_ = out.Close()         // the other goroutine may have closed it
	})
	_, _ = io.Copy(out, in) // the end of a connection
	_ = in.Close()          // the other goroutine may have closed it
	_ = out.Close()         // the other goroutine may have closed it
}

// application is a client of a pair that posts, with a reader whose stream is open.
type application struct {
	name           string
	writer, reader *client.Client
	first          string // the post after which the stream begins

	mu       sync.Mutex
	answered []string
	seen     []string
}

func newApplication(t *testing.T, name, url string, others ...string) *application {
	t.Helper()
	c, err := client.New(url, client.WithFailover(others...))
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	as := func(user string) *client.Client {
		token, err := c.DevToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
		api := c.AsToken(token.Token)
		_, err = api.PutMe(t.Context(), client.ProfileInput{Name: user})
		require.NoError(t, err)
		return api
	}
	a := &application{name: name, writer: as(name + "-writer"), reader: as(name + "-reader")}
	require.NoError(t, a.reader.Follow(t.Context(), name+"-writer"))
	first, err := a.writer.CreatePost(t.Context(), client.PostInput{Text: "first"})
	require.NoError(t, err)
	a.first = first.ID
	return a
}

// read reads the stream until ctx ends.
func (a *application) read(ctx context.Context, t *testing.T) {
	t.Helper()
	for u, err := range a.reader.Live(ctx, a.first) {
		if ctx.Err() != nil {
			return
		}
		if !assert.NoError(t, err, "%s: the stream", a.name) {
			return
		}
		if u.Entry != nil {
			a.mu.Lock()
			a.seen = append(a.seen, u.Entry.Post.ID)
			a.mu.Unlock()
		}
	}
}

// write posts until stop ends.
func (a *application) write(stop context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; stop.Err() == nil; n++ {
		post, err := a.writer.CreatePost(t.Context(), client.PostInput{Text: fmt.Sprint("post ", n)})
		if !assert.NoError(t, err, "%s: a post", a.name) {
			return
		}
		a.mu.Lock()
		a.answered = append(a.answered, post.ID)
		a.mu.Unlock()
		<-tick.C
	}
}

// posts returns the numbers of answered posts and of posts in the stream.
func (a *application) posts() (answered, seen int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.answered), len(a.seen)
}

// TestClientsOutliveTheirPrimary kills the primary of a pair and promotes its standby, while applications post and read
// streams, one behind a balancer and one with both addresses. No call fails, and each answered post is in the stream once.
func TestClientsOutliveTheirPrimary(t *testing.T) {
	t.Parallel()
	one, two := twins(t)
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	b := newTCPProxy(t, two.http, one.http)
	applications := []*application{newApplication(t, "balanced", "http://"+b.address), newApplication(t, "both", "http://"+two.http, "http://"+one.http)}
	var readers, writers sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	defer readers.Wait()
	defer end()
	stop, rest := context.WithCancel(ctx)
	defer writers.Wait()
	defer rest()
	for _, a := range applications {
		readers.Go(func() { a.read(ctx, t) })
		writers.Go(func() { a.write(stop, t) })
	}
	more := func(what string) {
		t.Helper()
		for _, a := range applications {
			before, shown := a.posts()
			await(t, fmt.Sprintf("%s: 20 posts %s", a.name, what), func() bool {
				answered, seen := a.posts()
				return answered >= before+20 && seen >= shown+20
			})
		}
	}
	more("of the first primary")
	p.kill(t)
	lost := time.Now()
	two.fanfare(t, "promote", "--primary-is-gone", "--yes", "--admin", two.admin)
	t.Logf("the standby answers %v after the loss", two.answers(t).Sub(lost))
	more("of the second primary")
	rest()
	writers.Wait()
	for _, a := range applications {
		var late string
		await(t, a.name+": each answered post is in the stream", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			late = ""
			for _, post := range a.answered {
				if !slices.Contains(a.seen, post) {
					late = post
				}
			}
			return late == ""
		})
	}
	end()
	readers.Wait()
	for _, a := range applications {
		slices.Sort(a.seen)
		slices.Sort(a.answered)
		assert.Equal(t, a.answered, a.seen, "%s: each post once", a.name)
		t.Logf("%s: %d posts", a.name, len(a.answered))
	}
	s.stop(t)
}
