// Package client calls Fanfare's HTTP API from Go: a method for each call, typed
// values, typed problems, lists as iterators.
//
// It repeats a call only if that can do no harm: GET, PUT and DELETE are idempotent,
// CreatePost has an Idempotency-Key (the client makes one if the caller gave none), and a
// call that was answered with 429 had no effect. All other calls are sent once, and
// Unanswered reports whether their outcome is unknown. It must never repeat without a bound,
// before the time in Retry-After, or after the end of the context.
//
// A Client is safe for concurrent use. Keep it, since it holds the connections. As returns
// a Client for another user on the same connections.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultAttempts = 6
	baseBackoff     = 100 * time.Millisecond
	maxBackoff      = 5 * time.Second
	// maxRetryAfter is the longest Retry-After that the client waits for. If the service
	// requests a longer wait, for example because a user's hour is used up, the caller gets
	// the service's error and decides.
	maxRetryAfter = time.Minute
	// maxBody bounds an answer. The largest answer is a page of 100 posts of 5,000
	// escaped characters each.
	maxBody = 16 << 20
)

// TokenSource returns the bearer token for one request. It is called for each request,
// concurrently, so it should cache.
type TokenSource func(ctx context.Context) (string, error)

// Client calls one Fanfare service as one user.
type Client struct {
	base     *url.URL
	http     *http.Client
	token    TokenSource
	user     string // the user of a service's call
	attempts int
	jitter   func() float64
}

// Option is an option of New.
type Option func(*Client)

// WithToken sends one token with every request.
func WithToken(token string) Option {
	return WithTokenSource(fixed(token))
}

// WithTokenSource calls source for the token of every request.
func WithTokenSource(source TokenSource) Option {
	return func(c *Client) { c.token = source }
}

// WithHTTPClient sends requests through h instead of the client's own pool of connections.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = h }
}

// WithAttempts bounds the number of times that a call is sent. The default is 6, which
// takes some 5 seconds unless a Retry-After is longer. 1 means no retries.
func WithAttempts(n int) Option {
	return func(c *Client) { c.attempts = max(1, n) }
}

// New returns a client of the service at baseURL, such as
// "http://127.0.0.1:8080". It makes no request.
func New(baseURL string, options ...Option) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("client: base URL: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("client: base URL %q must be http://HOST or https://HOST", baseURL)
	}
	c := &Client{base: base, attempts: defaultAttempts, jitter: rand.Float64}
	for _, option := range options {
		option(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(), CheckRedirect: noRedirect}
	}
	return c, nil
}

// As returns a client for another user, with source's tokens. Service, options and
// connections are the same.
func (c *Client) As(source TokenSource) *Client {
	other := *c
	other.token = source
	return &other
}

// AsToken is As with one token.
func (c *Client) AsToken(token string) *Client { return c.As(fixed(token)) }

// ActAs returns a client that acts for a user with the token of a service, which has the
// scope fanfare:act. It is for backends that make their users' calls. Service, options and
// connections are the same.
func (c *Client) ActAs(user string) *Client {
	other := *c
	other.user = user
	return &other
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

func fixed(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// newTransport keeps a connection for each concurrent caller. The standard library keeps
// two for each host and would dial for every other request.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
	}
}

// noRedirect keeps the token from other hosts. The API never redirects.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// errNoAnswer marks an attempt that ended without an answer of the service.
var errNoAnswer = errors.New("no answer")

// Unanswered reports whether the effect of the failed call is unknown: no answer came, or
// a 502, 503 or 504.
func Unanswered(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		switch p.Status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	return errors.Is(err, errNoAnswer)
}
