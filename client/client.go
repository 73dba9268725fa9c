// Package client calls Fanfare's HTTP API from Go: a method for each call, typed
// values, typed problems, lists as iterators.
//
// It repeats a call only where repeating cannot do harm: GET, PUT and DELETE
// are idempotent, CreatePost carries an Idempotency-Key (its own if the caller
// gave none), and a 429 was refused before it had any effect. Other calls are sent
// once, and their error says so by its type. It never repeats without a bound, never
// before the time that Retry-After names, and never after the context has ended.
//
// A Client is safe for concurrent use and is meant to be kept: it holds the
// connections. As gives one for another user on the same connections.
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
	// maxRetryAfter is the longest Retry-After that is waited for. A service that asks
	// for more is answered with its own error, for the caller to decide.
	maxRetryAfter = time.Minute
	// maxBody bounds what is read of an answer: a page of 100 posts of 5,000
	// characters each, escaped at worst.
	maxBody = 16 << 20
)

// TokenSource gives the bearer token for one request. It is called for each
// request, concurrently, so it should cache.
type TokenSource func(ctx context.Context) (string, error)

// Client calls one Fanfare service as one user.
type Client struct {
	base     *url.URL
	http     *http.Client
	token    TokenSource
	attempts int
	jitter   func() float64
}

// Option changes a Client that New makes.
type Option func(*Client)

// WithToken sends one token with every request.
func WithToken(token string) Option {
	return WithTokenSource(fixed(token))
}

// WithTokenSource asks source for the token of every request.
func WithTokenSource(source TokenSource) Option {
	return func(c *Client) { c.token = source }
}

// WithHTTPClient sends requests through h instead of New's own pool of
// connections.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = h }
}

// WithAttempts bounds how often one call is sent, the first time included. The
// default is 6: some 5 seconds, when no Retry-After asks for more. 1 means no retries.
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
		return nil, fmt.Errorf("client: base URL %q is not http://HOST or https://HOST", baseURL)
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

// As returns a client for another user: the same service, options and
// connections, with source's tokens.
func (c *Client) As(source TokenSource) *Client {
	other := *c
	other.token = source
	return &other
}

// AsToken is As with one token.
func (c *Client) AsToken(token string) *Client { return c.As(fixed(token)) }

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

func fixed(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// newTransport keeps as many connections as there are concurrent callers: the
// standard library keeps two a host and would dial for every other request.
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

// noRedirect keeps the token on the host it was meant for; the API never redirects.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// errNoAnswer marks an attempt that ended without the service's answer.
var errNoAnswer = errors.New("no answer")

// Unanswered says whether err leaves open if the call had an effect: no answer
// came, or one that says the same (502, 503, 504).
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
