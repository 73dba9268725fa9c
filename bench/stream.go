package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"fanfare/client"
)

const (
	streamID = "stream"
	// These numbers define the load: each user has an open stream, and each post goes into eleven homes.
	streamUsers     = 1000
	streamFollowees = 10
	streamPosts     = 100
	// streamBreaks is the number of connections that the second part cuts each second.
	streamBreaks = 20
	// streamMemory is the GOMEMLIMIT of the server, in MiB. The server of T2 uses 231 MiB without a
	// stream. With a limit of 218 MiB, streams waited for seconds.
	streamMemory = 384
)

// liveHomes opens streams of many homes while users post. It checks that each stream sends each post of
// its home once. In a second part it cuts connections.
func liveHomes(ctx context.Context, e *env) (_ []Result, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	follows := func(yield func(follow) bool) {
		for i := range streamUsers {
			for k := range streamFollowees {
				if !yield(follow{user(i), user((i + 1 + k*7) % streamUsers)}) {
					return
				}
			}
		}
	}
	e.say("load %d users who follow %d each", streamUsers, streamFollowees)
	if err := seed(ctx, dir, graph{users: streamUsers, name: user, follows: follows}); err != nil {
		return nil, err
	}
	s, err := e.up(ctx, dir, fmt.Sprintf("GOMEMLIMIT=%dMiB", streamMemory))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	l := &liveLoad{s: s, posts: map[string]madePost{}}
	if l.tokens, err = s.tokensOf(streamUsers); err != nil {
		return nil, err
	}
	var results []Result
	for _, part := range []struct {
		name    string
		seconds int
		breaks  int
	}{{"", e.size(300, 20), 0}, {", connections cut", e.size(30, 10), streamBreaks}} {
		e.say("%d streams for %d s, %d cut a second", streamUsers, part.seconds, part.breaks)
		got, err := l.run(ctx, time.Duration(part.seconds)*time.Second, part.breaks)
		if err != nil {
			return nil, err
		}
		note := fmt.Sprintf("%d streams of as many users, %d posts a second to %d followers each; %d events, %d gaps, %d repetitions",
			streamUsers, streamPosts, streamFollowees, got.events, got.gaps, got.repeats)
		e.say("%s; p99 %.0f ms, memory %.0f MiB", note, got.latency.P99, got.memory)
		results = append(results,
			Result{ID: streamID, Name: "post to event, p99" + part.name, Value: got.latency.P99, Unit: "ms", Latency: got.latency, Cost: &got.cost, Note: note}.reported(),
			Result{ID: streamID, Name: "gaps and repetitions" + part.name, Value: float64(got.gaps + got.repeats), Unit: "events"}.reach("0", got.gaps+got.repeats == 0),
			Result{ID: streamID, Name: "memory" + part.name, Value: got.memory, Unit: "MiB",
				Note: fmt.Sprintf("the most of RssAnon, with GOMEMLIMIT=%dMiB; with the pages of the binary %.0f MiB (VmRSS)", streamMemory, got.resident),
			}.reach(fmt.Sprintf("≤ %d MiB", streamMemory), got.memory <= streamMemory))
	}
	return results, nil
}

type madePost struct {
	author int
	sent   time.Time
}

// liveLoad is the load of one server.
type liveLoad struct {
	s      *server
	tokens []string

	mu    sync.Mutex
	posts map[string]madePost
	conns []net.Conn
}

type liveResult struct {
	events, gaps, repeats int
	latency               *Latency
	cost                  Cost
	// memory is the peak memory of the server without the pages of its binary, in MiB. resident is the
	// peak memory with these pages.
	memory, resident float64
}

// streamReader is one open stream.
type streamReader struct {
	mu  sync.Mutex
	got map[string][]time.Time
	n   int
}

func (l *liveLoad) run(ctx context.Context, period time.Duration, breaks int) (res liveResult, err error) {
	clear(l.posts)
	var sampling sync.WaitGroup
	measured := make(chan struct{})
	sampling.Go(func() { res.memory, res.resident = l.s.mostMemory(measured) })
	defer sampling.Wait()
	defer close(measured)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			l.mu.Lock()
			l.conns = append(l.conns, conn)
			l.mu.Unlock()
		}
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	anyone, err := client.New("http://"+l.s.http, client.WithHTTPClient(&http.Client{Transport: transport}), client.WithAttempts(20))
	if err != nil {
		return res, err
	}
	reading, stop := context.WithCancelCause(ctx)
	readers := make([]*streamReader, streamUsers)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	for i := range readers {
		readers[i] = &streamReader{got: map[string][]time.Time{}}
		running.Go(func() {
			if err := readers[i].read(reading, anyone.AsToken(l.tokens[i])); reading.Err() == nil {
				stop(err)
			}
		})
	}
	var failed error
	err = until(reading, func() bool {
		var m map[string]float64
		m, failed = l.s.metrics(ctx)
		return failed != nil || m["fanfare_streams"] >= streamUsers
	})
	if err := errors.Join(err, failed); err != nil {
		return res, errors.Join(err, context.Cause(reading))
	}
	before, err := l.s.usage(ctx)
	if err != nil {
		return res, err
	}
	running.Go(func() { l.cut(reading, breaks) })
	err = openLoop(reading, l.s.http, streamPosts, period, newHistogram(), func(c *caller) error {
		author, sent := rand.IntN(streamUsers), time.Now()
		post, err := c.post(l.tokens[author], "live")
		l.mu.Lock()
		defer l.mu.Unlock()
		l.posts[post] = madePost{author, sent}
		return err
	})
	if err != nil {
		return res, errors.Join(err, context.Cause(reading))
	}
	// A post also appears in its author's home.
	want := len(l.posts) * (1 + streamFollowees)
	settled, cancel := context.WithTimeout(reading, time.Minute)
	defer cancel()
	_ = until(settled, func() bool { // after a timeout, the missing posts are counted below
		res.events = 0
		for _, r := range readers {
			res.events += r.count()
		}
		return res.events >= want
	})
	after, err := l.s.usage(ctx)
	if err != nil {
		return res, err
	}
	res.cost = after.since(before, int64(res.events))
	if err := context.Cause(reading); err != nil { // a reader gave up, so missing posts would prove nothing
		return res, err
	}
	stop(nil)
	running.Wait()
	l.judge(readers, &res)
	return res, nil
}

// cut closes random connections, breaks connections each second.
func (l *liveLoad) cut(ctx context.Context, breaks int) {
	if breaks == 0 {
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(breaks))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			_ = l.conns[rand.IntN(len(l.conns))].Close() // the connection may be closed already
			l.mu.Unlock()
		}
	}
}

// judge compares the events of each reader with the posts of its home.
func (l *liveLoad) judge(readers []*streamReader, res *liveResult) {
	times := newHistogram()
	for i, r := range readers {
		home := map[int]bool{i: true}
		for k := range streamFollowees {
			home[(i+1+k*7)%streamUsers] = true
		}
		for post, made := range l.posts {
			got := r.got[post]
			switch {
			case home[made.author] && len(got) == 0:
				res.gaps++
			case !home[made.author] && len(got) > 0:
				res.repeats += len(got)
			case len(got) > 0:
				res.repeats += len(got) - 1
				record(times, got[0].Sub(made.sent))
			}
		}
	}
	res.latency = latencyOf(times)
}

func (r *streamReader) read(ctx context.Context, c *client.Client) error {
	for u, err := range c.Live(ctx, "") {
		if err != nil {
			return err
		}
		if u.Entry != nil {
			r.mu.Lock()
			r.got[u.Entry.Post.ID] = append(r.got[u.Entry.Post.ID], time.Now())
			r.n++
			r.mu.Unlock()
		}
	}
	return nil
}

func (r *streamReader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}
