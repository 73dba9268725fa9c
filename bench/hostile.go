package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// These numbers define the load of the hostile benchmark.
const (
	hostileID = "hostile"
	// victimRate is the rate of the observed user's reads. It is below the user's limit.
	victimRate = 50
	// memoryLimit is the GOMEMLIMIT of docker-compose.yml, in MiB.
	memoryLimit = 218
	// overloadRate is the rate of posts by overloadAuthors on overloadConns connections.
	overloadRate    = 2000
	overloadAuthors = 400
	overloadConns   = 2048
)

// hostile measures reads of one user's home while other users misbehave, with the default limits and the
// tokens of an issuer.
func hostile(ctx context.Context, e *env) (_ []Result, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	keys, err := newIssuer()
	if err != nil {
		return nil, err
	}
	defer keys.server.Close()
	s, err := e.serve(ctx, dir, append(keys.env(), fmt.Sprintf("GOMEMLIMIT=%dMiB", memoryLimit))...)
	if err != nil {
		return nil, err
	}
	s.tokens = keys
	defer func() { err = errors.Join(err, s.stop()) }()
	large, victim, err := e.fillLargestHome(s)
	if err != nil {
		return nil, err
	}
	period := time.Duration(e.size(20, 3)) * time.Second
	quiet, err := e.watch(ctx, s, victim, period)
	if err != nil {
		return nil, err
	}
	results := []Result{quiet.result("home p99 of one user, quiet", nil).reported()}
	attacks, err := misbehaviours(s, keys, large)
	if err != nil {
		return nil, err
	}
	for _, a := range attacks {
		keys.stalled.Store(a.stallIssuer)
		seen, err := e.during(ctx, s, victim, a, period)
		keys.stalled.Store(false)
		if err != nil {
			return results, fmt.Errorf("%s: %w", a.name, err)
		}
		r := seen.result("home p99 of one user, "+a.name, quiet)
		results = append(results, r.reach("≤ 2 × quiet, all 200", r.Value <= 2**r.Baseline && seen.failed() == 0))
		if a.memory {
			r := Result{ID: hostileID, Name: "memory, " + a.name, Value: seen.memory, Unit: "MiB",
				Note: fmt.Sprintf("the most of RssAnon, with GOMEMLIMIT=%dMiB; with the pages of the binary %.0f MiB (VmRSS); send buffers of the kernel, at most 256 KiB a connection, come on top",
					memoryLimit, seen.resident)}
			results = append(results, r.below("quiet", quiet.memory).reach(fmt.Sprintf("≤ %d MiB", memoryLimit), r.Value <= memoryLimit))
		}
	}
	more, err := e.overload(ctx, s, victim, quiet)
	return append(results, more...), err
}

// fillLargestHome makes a user whose page of 100 posts has the largest possible size, and
// a user with an ordinary home. It returns their tokens.
func (e *env) fillLargestHome(s *server) (large, ordinary string, err error) {
	e.say("fill two homes")
	text := map[string]string{"large": strings.Repeat("😀", 5000), "ordinary": strings.Repeat("x", 200)}
	for user, text := range text {
		token, err := s.profile(user)
		if err != nil {
			return "", "", err
		}
		for range 100 {
			if err := s.with(func(c *caller) error { _, err := c.post(token, text); return err }); err != nil {
				return "", "", err
			}
		}
	}
	if large, err = s.token("large"); err != nil {
		return "", "", err
	}
	ordinary, err = s.token("ordinary")
	return large, ordinary, err
}

// profile creates a user and returns the user's token.
func (s *server) profile(user string) (token string, err error) {
	if token, err = s.token(user); err != nil {
		return "", err
	}
	return token, s.with(func(c *caller) error {
		return c.want(http.StatusOK, nil, http.MethodPut, "/v1/me", token, []byte(`{"name":"`+user+`"}`))
	})
}

// with makes calls on a new connection.
func (s *server) with(call func(*caller) error) error {
	c, err := dial(s.http)
	if err != nil {
		return err
	}
	return errors.Join(call(c), c.close())
}

// watched is a measurement of the observed user.
type watched struct {
	mu    sync.Mutex
	times *hdrhistogram.Histogram
	// statuses counts the answers by status. Cut answers have the status 0.
	statuses map[int]int
	// memory is the peak memory of the server without the pages of its binary, in MiB. resident is the
	// peak memory with these pages.
	memory, resident float64
	ready            int
}

func (w *watched) failed() int {
	n := 0
	for status, count := range w.statuses {
		if status != http.StatusOK {
			n += count
		}
	}
	return n
}

// result returns a row with the p99, and with the p99 of quiet if quiet is not nil.
func (w *watched) result(name string, quiet *watched) Result {
	l := latencyOf(w.times)
	r := Result{
		ID: hostileID, Name: name, Value: l.P99, Unit: "ms", Latency: l,
		Note: fmt.Sprintf("%d reads a second, from when a read was due; answers by status (0 is cut): %v; /readyz at the end: %d; %.0f MiB resident at most",
			victimRate, w.statuses, w.ready, w.resident),
	}
	if quiet != nil {
		r = r.below("quiet", latencyOf(quiet.times).P99)
	}
	return r
}

// mostMemory samples the memory of the server until done is closed. It returns the peak memory without
// the pages of the binary, and the peak memory with these pages, in MiB.
func (s *server) mostMemory(done <-chan struct{}) (anonymous, resident float64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for name, most := range map[string]*float64{"RssAnon": &anonymous, "VmRSS": &resident} {
			if n, err := memoryOf(s.pid(), name); err == nil { // after an error the server has ended, and the load fails
				*most = max(*most, float64(n)/mebibyte)
			}
		}
		select {
		case <-done:
			return anonymous, resident
		case <-tick.C:
		}
	}
}

// watch reads a home at a rate for the given period.
func (e *env) watch(ctx context.Context, s *server, token string, period time.Duration) (*watched, error) {
	w := &watched{times: newHistogram(), statuses: map[int]int{}}
	ctx, cancel := context.WithTimeout(ctx, period+callTimeout)
	defer cancel()
	measured := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { w.memory, w.resident = s.mostMemory(measured) })
	err := openLoop(ctx, s.http, victimRate, period, w.times, func(c *caller) error {
		status, err := c.status(http.MethodGet, "/v1/home?limit=20", token, nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.statuses[status]++
		return c.again(err)
	})
	close(measured)
	sampling.Wait()
	if err != nil {
		return nil, err
	}
	return w, s.with(func(c *caller) (err error) {
		w.ready, _, err = c.call(http.MethodGet, "/readyz", "", nil)
		return err
	})
}

// status makes a call and returns the status of the answer, or 0 if the answer was cut.
func (c *caller) status(method, path, token string, body []byte) (int, error) {
	status, _, err := c.call(method, path, token, body)
	if err != nil {
		return 0, err
	}
	return status, nil
}

// again opens a new connection if a call failed.
func (c *caller) again(failed error) error {
	if failed == nil {
		return nil
	}
	fresh, err := dial(c.host)
	if err != nil {
		return err
	}
	_ = c.close() // the connection is broken
	*c = *fresh
	return nil
}

// misbehaviour is the behaviour of many connections at once. Each connection sends a request, reads
// nothing, and is replaced after a while.
type misbehaviour struct {
	name    string
	conns   int
	again   time.Duration
	request func(conn int) string
	// stallIssuer leaves the requests for the issuer's keys unanswered.
	stallIssuer bool
	// memory adds a row for the resident memory.
	memory bool
}

func misbehaviours(s *server, keys *issuer, large string) ([]misbehaviour, error) {
	request := func(token, line string, more ...string) string {
		if token != "" {
			more = append(more, "Authorization: Bearer "+token)
		}
		return line + " HTTP/1.1\r\nHost: " + s.http + "\r\n" + strings.Join(append(more, "", ""), "\r\n")
	}
	readers := make([]string, 30)
	for i := range readers {
		var err error
		if readers[i], err = s.profile(fmt.Sprintf("reader%d", i)); err != nil {
			return nil, err
		}
	}
	unknown := make([]string, 1024)
	for i := range unknown {
		var err error
		if unknown[i], err = keys.sign(fmt.Sprintf("made-up-%d", i), "stranger", time.Now().Add(time.Hour)); err != nil {
			return nil, err
		}
	}
	const answerTime = 6 * time.Second // the server cuts a connection after this time
	return []misbehaviour{
		{name: "1,060 slow readers of /openapi.json", conns: 1060, again: answerTime,
			request: func(int) string { return strings.Repeat(request("", "GET /openapi.json"), 40) }},
		{name: "1,060 slow bodies", conns: 1060, again: answerTime,
			request: func(int) string { return request(large, "PUT /v1/me", "Content-Length: 100") + "{" }},
		{name: "1,024 made-up key ids while the issuer stalls", conns: len(unknown), again: answerTime, stallIssuer: true,
			request: func(i int) string { return request(unknown[i], "GET /v1/home") }},
		{name: "300 slow readers of the largest home", conns: 300, again: answerTime, memory: true,
			request: func(int) string { return strings.Repeat(request(large, "GET /v1/home?limit=100"), 8) }},
		{name: "300 slow readers of the same posts, by 30 users", conns: 300, again: answerTime, memory: true,
			request: func(i int) string {
				return strings.Repeat(request(readers[i%len(readers)], "GET /v1/users/large/posts?limit=100"), 8)
			}},
	}, nil
}

// during watches the observed user while many connections misbehave.
func (e *env) during(ctx context.Context, s *server, victim string, a misbehaviour, period time.Duration) (*watched, error) {
	e.say("%s", a.name)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var open atomic.Int64
	// The connections begin one after another at regular intervals. If all connections began at once, all
	// would also end at once.
	ramp := min(a.again, time.Duration(e.size(60, 1))*time.Second)
	for i := range a.conns {
		running.Go(func() {
			select {
			case <-time.After(ramp * time.Duration(i) / time.Duration(a.conns)):
			case <-ctx.Done():
				return
			}
			first := true
			for ctx.Err() == nil {
				conn, err := slowDial(ctx, s.http)
				if err == nil {
					_ = conn.SetWriteDeadline(time.Now().Add(a.again)) // a server may have cut the connection
					_, _ = io.WriteString(conn, a.request(i))          // here, too
				}
				if first {
					open.Add(1)
					first = false
				}
				select {
				case <-time.After(a.again):
				case <-ctx.Done():
				}
				if err == nil {
					_ = conn.Close()
				}
			}
		})
	}
	if err := until(ctx, func() bool { return open.Load() == int64(a.conns) }); err != nil {
		return nil, err
	}
	return e.watch(ctx, s, victim, period)
}

// slowDial opens a connection with the smallest receive buffer.
func slowDial(ctx context.Context, host string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048) })
		return errors.Join(err, set)
	}}
	return d.DialContext(ctx, "tcp", host)
}

// overload sends more posts than the machine can process, and watches the observed user.
func (e *env) overload(ctx context.Context, s *server, victim string, quiet *watched) ([]Result, error) {
	authors := make([]string, overloadAuthors)
	for i := range authors {
		var err error
		if authors[i], err = s.profile(fmt.Sprintf("author%d", i)); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(map[string]string{"text": "under load"})
	if err != nil {
		return nil, err
	}
	period := time.Duration(e.size(40, 5)) * time.Second
	e.say("%d posts a second for %s", overloadRate, period)
	var mu sync.Mutex
	statuses, unsent, withoutRetry := map[int]int{}, 0, 0
	due := make(chan int)
	errs := make([]error, overloadConns)
	var running sync.WaitGroup
	for i := range overloadConns {
		running.Go(func() {
			errs[i] = s.with(func(c *caller) error {
				for n := range due {
					status, err := c.status(http.MethodPost, "/v1/posts", authors[n%len(authors)], body)
					mu.Lock()
					statuses[status]++
					if status == http.StatusServiceUnavailable && c.header.Get("Retry-After") == "" {
						withoutRetry++
					}
					mu.Unlock()
					if err := c.again(err); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	var seen *watched
	var watchErr error
	running.Go(func() { seen, watchErr = e.watch(ctx, s, victim, period) })
	begin := time.Now()
	for n := range overloadRate * int(period/time.Second) {
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(n) * time.Second / overloadRate))):
		case <-ctx.Done():
		}
		select {
		case due <- n:
		default:
			unsent++
		}
	}
	close(due)
	running.Wait()
	if err := errors.Join(errors.Join(errs...), watchErr, ctx.Err()); err != nil {
		return nil, fmt.Errorf("overload: %w", err)
	}
	name := fmt.Sprintf("%d posts a second for %s", overloadRate, period)
	cut := Result{
		ID: hostileID, Name: "unanswered, " + name, Value: float64(statuses[0] + withoutRetry), Unit: "requests",
		Note: fmt.Sprintf("%d authors, %d connections; answers by status (0 is cut): %v; 503 without Retry-After: %d; not sent because every connection waited: %d",
			overloadAuthors, overloadConns, statuses, withoutRetry, unsent),
	}
	return []Result{
		cut.reach("0", cut.Value == 0),
		seen.result("home p99 of one user, "+name, quiet).reported(),
	}, nil
}
