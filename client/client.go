// Package client calls Fanfare's HTTP API from Go. It has a method for each call, typed values, typed
// problems, and lists as iterators.
//
// Only an answer of the service decides: a page of a proxy, whatever its status, is no answer. The client
// repeats a call only if a retry is harmless: GET, PUT and DELETE are idempotent, CreatePost
// has an Idempotency-Key (the client makes a key if the caller gave none), and a call with the answer 425 or 429,
// without a connection, or to the standby of a pair had no effect. The client sends all other calls once, and
// Unanswered reports whether their outcome is unknown. A call that sends nothing, because its token or a value is
// bad, fails at once. The client must never repeat a call without a bound, before the time in Retry-After, or after
// the end of the context.
//
// A Client is safe for concurrent use. Keep the Client, because it holds the connections. As returns a
// Client for another user on the same connections.
package client

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	defaultAttempts = 6
	baseBackoff     = 100 * time.Millisecond
	maxBackoff      = 5 * time.Second
	// maxRetryAfter is the longest Retry-After for which the client waits. If the service requests a
	// longer wait, for example because a user's hour is used up, the caller gets the service's error and
	// decides.
	maxRetryAfter = time.Minute
	// maxBody bounds an answer. The largest answer is a page of 100 posts of 5,000
	// escaped characters each.
	maxBody = 16 << 20
)

// TokenSource returns the bearer token for one request. The client calls it concurrently and for each
// request, so a TokenSource should cache the token.
type TokenSource func(ctx context.Context) (string, error)

// Client calls one Fanfare service as one user.
type Client struct {
	service  *service
	others   []string // the base URLs of the other machines
	failover bool
	http     *http.Client
	token    TokenSource
	user     string // the user for whom a service calls
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

// WithAttempts bounds the attempts of a call. The default is 6 attempts, which take some 5 seconds unless
// a Retry-After is longer. 1 means no retries.
func WithAttempts(n int) Option {
	return func(c *Client) { c.attempts = max(1, n) }
}

// New returns a client of the service at baseURL, such as "http://127.0.0.1:8080". It sends no request.
func New(baseURL string, options ...Option) (*Client, error) {
	c := &Client{attempts: defaultAttempts, jitter: rand.Float64}
	for _, option := range options {
		option(c)
	}
	var err error
	if c.service, err = newService(append([]string{baseURL}, c.others...)); err != nil {
		return nil, err
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(), CheckRedirect: noRedirect}
	}
	return c, nil
}

// As returns a client for another user, with the tokens of source. The new client has the same service,
// options and connections.
func (c *Client) As(source TokenSource) *Client {
	other := *c
	other.token = source
	return &other
}

// AsToken returns a client for another user, with one token.
func (c *Client) AsToken(token string) *Client { return c.As(fixed(token)) }

// ActAs returns a client that acts for a user as a service, by a token with the scope fanfare:act, or as the site
// names the service that embeds Fanfare. ActAs is for backends that call the API for their users. The new client has the same
// service, options and connections.
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

// newTransport keeps a connection for each concurrent caller. The standard library keeps only two
// connections for each host, and would dial for every other request.
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

// noRedirect refuses redirects, so that no other host gets the token. The API never redirects.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
