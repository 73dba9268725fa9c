package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const standbyProblem = `{"type":"standby","title":"Standby","status":503}`

// aPair has two machines. A test changes their roles.
type aPair struct {
	t        *testing.T
	machines [2]*httptest.Server
	urls     [2]string

	mu sync.Mutex
	// primary is the index of the machine that serves with answer. The other machine is a standby, or gone.
	primary int
	answer  http.HandlerFunc
	served  []string // the calls that a primary got, with their keys
	refused int
}

func newPair(t *testing.T, answer http.HandlerFunc) *aPair {
	t.Helper()
	p := &aPair{t: t, answer: answer}
	for i := range p.machines {
		p.machines[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(i, w, r) }))
		t.Cleanup(p.machines[i].Close)
		p.urls[i] = p.machines[i].URL
	}
	return p
}

func (p *aPair) serve(i int, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	serves, answer := i == p.primary, p.answer
	if serves {
		p.served = append(p.served, fmt.Sprint(i, " ", r.Method, " ", r.Header.Get("Idempotency-Key"), r.Header.Get("Last-Event-ID")))
	} else {
		p.refused++
	}
	p.mu.Unlock()
	if serves {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, standbyProblem) // the client looks at the outcome
}

// calls returns the calls that a primary got, and the number of refused calls.
func (p *aPair) calls() (served []string, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served, p.refused
}

// lose takes the primary away, and makes the other machine the primary.
func (p *aPair) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.machines[p.primary]
	p.primary = 1 - p.primary
	assert.NoError(p.t, lost.Listener.Close())
	lost.CloseClientConnections()
}

// change exchanges the roles.
func (p *aPair) change() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.primary = 1 - p.primary
}

func (p *aPair) client(options ...Option) *Client {
	p.t.Helper()
	c, err := New(p.urls[0], append([]Option{WithFailover(p.urls[1]), WithToken("t")}, options...)...)
	require.NoError(p.t, err)
	p.t.Cleanup(c.CloseIdleConnections)
	c.jitter = func() float64 { return 0 }
	return c
}

func created(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"p"}`) // the client looks at the outcome
}

// Every call reaches the new primary, even a call without a key, because neither a refused connection nor the answer of a
// standby has an effect.
func TestACallGoesToTheMachineThatServes(t *testing.T) {
	for name, lose := range map[string]func(*aPair){"refused connection": (*aPair).lose, "standby": (*aPair).change} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, created)
			c := p.client()
			require.NoError(t, c.Follow(t.Context(), "u"))
			lose(p)
			c.CloseIdleConnections() // a comment on a connection that was cut has no known outcome
			_, err := c.CreateComment(t.Context(), "p", "x")
			require.NoError(t, err)
			_, err = c.AsToken("other").EditPost(t.Context(), "p", PostEdit{})
			require.NoError(t, err)
			served, refused := p.calls()
			assert.Equal(t, []string{"0 PUT ", "1 POST ", "1 PATCH "}, served)
			assert.LessOrEqual(t, refused, 1, "the clients of all users remember the primary")
		})
	}
}

// The primary dies in the middle of an answer. The same key reaches the new primary.
func TestAPostWhoseAnswerWasCutGoesToTheNewPrimaryWithItsKey(t *testing.T) {
	var p *aPair
	p = newPair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != p.machines[0].Listener.Addr().String() {
			created(w, r)
			return
		}
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id"`) // the client looks at the outcome
		assert.NoError(t, http.NewResponseController(w).Flush())
		p.lose()
		panic(http.ErrAbortHandler)
	})
	c := p.client()
	post, err := c.CreatePost(t.Context(), PostInput{Text: "x", IdempotencyKey: "mine"})
	require.NoError(t, err)
	assert.Equal(t, "p", post.ID)
	served, _ := p.calls()
	assert.Equal(t, []string{"0 POST mine", "1 POST mine"}, served)
	_, err = c.CreateComment(t.Context(), "p", "x")
	require.NoError(t, err)
}

// The outcome of a comment is unknown after a cut answer, so the comment is sent once.
func TestACommentWhoseAnswerWasCutIsNotRepeated(t *testing.T) {
	p := newPair(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := p.client().CreateComment(t.Context(), "p", "x")
	require.Error(t, err)
	assert.True(t, Unanswered(err))
	served, _ := p.calls()
	assert.Len(t, served, 1)
}

// A stream continues at the new primary, after its place: each post comes once.
func TestAStreamContinuesAtTheNewPrimary(t *testing.T) {
	for name, lose := range map[string]func(*aPair){"lost": (*aPair).lose, "exchanged": (*aPair).change} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			var p *aPair
			p = newPair(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				parts := "id: place1\n\n" + entry("a") + entry("b") + "event: entry\nid: c\ndata: {\"po"
				if r.Header.Get("Last-Event-ID") == "place1" {
					parts = entry("b") + entry("c") + "id: place2\n\n" + entry("d")
				}
				_, _ = io.WriteString(w, parts) // the client looks at the outcome
				assert.NoError(t, http.NewResponseController(w).Flush())
				if r.Header.Get("Last-Event-ID") == "" {
					lose(p)
					panic(http.ErrAbortHandler)
				}
				<-r.Context().Done()
			})
			var got []string
			for u, err := range p.client().Live(ctx, "") {
				require.NoError(t, err)
				if u.Open {
					continue
				}
				if got = append(got, u.Entry.Post.ID); u.Entry.Post.ID == "d" {
					break
				}
			}
			assert.Equal(t, []string{"a", "b", "c", "d"}, got)
			served, _ := p.calls()
			assert.Equal(t, []string{"0 GET ", "1 GET place1"}, served)
		})
	}
}

// timed answers requests in memory, by their machine and time.
type timed struct {
	answer func(host string, passed time.Duration) (status int, err error)
	began  time.Time
	hosts  []string
	times  []time.Duration
}

func (s *timed) RoundTrip(r *http.Request) (*http.Response, error) {
	passed := time.Since(s.began)
	s.hosts, s.times = append(s.hosts, r.URL.Host), append(s.times, passed)
	status, err := s.answer(r.URL.Host, passed)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", "1")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	if status >= 400 {
		_, err = w.WriteString("{}")
	}
	return w.Result(), err
}

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// A call waits for a failover until its deadline, or for a minute. Both machines are asked at least once in two seconds,
// and neither before its Retry-After.
func TestACallWaitsForTheEndOfAFailover(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, over time.Duration
		lost        string // the other machine is a standby until the end of the failover
		served      bool
	}{
		"with time left":            {2 * time.Minute, 100 * time.Second, "one", true},
		"the other machine is lost": {2 * time.Minute, 100 * time.Second, "two", true},
		"after its deadline":        {5 * time.Second, 6 * time.Second, "one", false},
		"without a deadline":        {0, 50 * time.Second, "one", true},
		"too long without deadline": {0, 70 * time.Second, "one", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.limit)
					defer cancel()
				}
				s := &timed{began: time.Now(), answer: func(host string, passed time.Duration) (int, error) {
					switch {
					case host == tt.lost:
						return 0, errRefused
					case passed < tt.over:
						return http.StatusServiceUnavailable, nil
					}
					return http.StatusNoContent, nil
				}}
				c, err := New("http://one", WithFailover("http://two"), WithHTTPClient(&http.Client{Transport: s}))
				require.NoError(t, err)
				c.jitter = func() float64 { return min(1, float64(len(s.hosts))/8) } // the shortest waits first
				err = c.Follow(ctx, "u")
				assert.Equal(t, tt.served, err == nil, "%v", err)
				last := s.times[len(s.times)-1]
				if tt.served {
					assert.LessOrEqual(t, last-tt.over, 2*time.Second)
				} else {
					assert.NotErrorIs(t, err, context.DeadlineExceeded, "the caller needs the last real error")
				}
				asked := time.Duration(-1)
				for i, host := range s.hosts {
					if host != tt.lost {
						if asked >= 0 {
							assert.GreaterOrEqual(t, s.times[i]-asked, time.Second, "Retry-After")
							assert.LessOrEqual(t, s.times[i]-asked, 2*time.Second)
						}
						asked = s.times[i]
					}
				}
				assert.True(t, slices.Contains(s.hosts, "one") && slices.Contains(s.hosts, "two"))
			})
		})
	}
}

// Behind a balancer there is one address.
func TestACallWaitsBehindABalancer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timed{began: time.Now(), answer: func(_ string, passed time.Duration) (int, error) {
			if passed < 30*time.Second {
				return 0, io.ErrUnexpectedEOF
			}
			return http.StatusNoContent, nil
		}}
		c, err := New("http://balancer", WithFailover(), WithHTTPClient(&http.Client{Transport: s}))
		require.NoError(t, err)
		require.NoError(t, c.Follow(t.Context(), "u"))
		assert.Less(t, s.times[len(s.times)-1], 32*time.Second)
	})
}

// No earlier attempt can have deleted an object if no connection was opened.
func TestADeletionThatWasNeverSentFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timed{began: time.Now(), answer: func(host string, _ time.Duration) (int, error) {
			if host == "one" {
				return 0, errRefused
			}
			return http.StatusNotFound, nil
		}}
		c, err := New("http://one", WithFailover("http://two"), WithHTTPClient(&http.Client{Transport: s}))
		require.NoError(t, err)
		require.ErrorIs(t, c.DeletePost(t.Context(), "p"), ErrNotFound)
	})
}

func TestEachMachineNeedsABaseURL(t *testing.T) {
	_, err := New("http://one", WithFailover("two:8080"))
	require.ErrorContains(t, err, "two:8080")
}
