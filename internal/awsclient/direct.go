package awsclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Direct returns an HTTP client with the settings of this one, for the calls that a
// process makes by the ten thousand a second.
//
// It speaks plain HTTP/1.1 on connections of its own, from the goroutine of the
// caller: net/http hands every request and every reply to two goroutines of the
// connection, which costs more than the rest of a small call (docs/PERFORMANCE.md).
// It knows only what AWS sends: a request in memory, and a reply that says how long
// it is. Anything else (a reply in chunks, an interim reply, a connection that was
// closed meanwhile) is an error and the end of the connection; whoever calls must be
// able to make the call again by client. Where a proxy is configured the call is
// net/http's, and so are all others to an endpoint that once sent a reply in such a
// form, other than an error.
//
// A request has been read when a call returns: its memory, body and header, may be used
// again. A reply's body has to be closed, and with it ends the reply, header and all.
//
// It is nil if an option of Load has set an HTTP client of another kind.
func (c replayable) Direct() aws.HTTPClient {
	if c.direct == nil {
		return nil // as it is, it would be an interface that is not nil
	}
	return c.direct
}

const (
	// idleTimeout is below the time after which AWS closes an idle connection, so
	// that few calls meet a closed one.
	idleTimeout = 20 * time.Second
	// exchangeTimeout bounds a call from the first byte sent to the last one read.
	exchangeTimeout = readTimeout
	// maxHead bounds the head of a reply.
	maxHead = 16 << 10
	// mostKept bounds the memory for requests that an idle connection keeps.
	mostKept = 64 << 10
)

// errUnknownReply says that a reply is not of the kind that is read here.
var errUnknownReply = errors.New("aws reply: not of a form that is read directly")

// direct is the client behind Direct.
type direct struct {
	transport *http.Transport // its settings, it makes no calls
	usual     aws.HTTPClient

	mu sync.Mutex
	// origins have their connections, or nil if calls go the usual way.
	origins map[origin]*pool
}

type origin struct{ scheme, host string }

func newDirect(transport *http.Transport, usual aws.HTTPClient) *direct {
	return &direct{transport: transport, usual: usual, origins: make(map[origin]*pool)}
}

// Do implements aws.HTTPClient.
func (d *direct) Do(req *http.Request) (*http.Response, error) {
	// The watch over the context is too late for one that has ended before.
	if cause := context.Cause(req.Context()); cause != nil {
		return nil, cause
	}
	p, err := d.pool(req)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return d.doUsual(req)
	}
	c, err := p.take(req.Context())
	if err != nil {
		return nil, fmt.Errorf("aws connection to %s: %w", req.URL.Host, err)
	}
	res, err := c.exchange(req)
	if err != nil {
		c.end(false)
		if errors.Is(err, errUnknownReply) {
			d.mu.Lock()
			d.origins[origin{req.URL.Scheme, req.URL.Host}] = nil
			d.mu.Unlock()
		}
		if cause := context.Cause(req.Context()); cause != nil {
			err = cause // the deadline of the connection is how it ended
		}
		return nil, fmt.Errorf("aws call to %s: %w", req.URL.Host, err)
	}
	return res, nil
}

// doUsual has net/http make a call, with a copy of the body, as it may go on reading.
func (d *direct) doUsual(req *http.Request) (*http.Response, error) {
	copied := req.Clone(req.Context())
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, fmt.Errorf("aws request body: %w", err)
		}
		copied.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		copied.Body = io.NopCloser(bytes.NewReader(body))
	}
	return d.usual.Do(copied)
}

// pool returns the connections for a request, nil if it goes the usual way.
func (d *direct) pool(req *http.Request) (*pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := origin{req.URL.Scheme, req.URL.Host}
	p, known := d.origins[o]
	if known {
		return p, nil
	}
	if d.transport.DialContext == nil || d.transport.DialTLSContext != nil { // somebody else's way to connect
		d.origins[o] = nil
		return nil, nil
	}
	if d.transport.Proxy != nil {
		proxy, err := d.transport.Proxy(req)
		if err != nil {
			return nil, fmt.Errorf("aws proxy: %w", err)
		}
		if proxy != nil {
			d.origins[o] = nil
			return nil, nil
		}
	}
	p, err := d.newPool(req.URL)
	if err != nil {
		return nil, err
	}
	d.origins[o] = p
	return p, nil
}

func (d *direct) newPool(at *url.URL) (*pool, error) {
	p := &pool{dialer: d.transport.DialContext, free: make(chan struct{}, maxConns)}
	port := at.Port()
	switch at.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if d.transport.TLSClientConfig != nil {
			p.tls = d.transport.TLSClientConfig.Clone()
		}
		if p.tls.ServerName == "" {
			p.tls.ServerName = at.Hostname()
		}
		p.tls.NextProtos = nil // HTTP/1.1 it is
	default:
		return nil, fmt.Errorf("aws endpoint: no http or https URL: %q", at.Redacted())
	}
	p.address = net.JoinHostPort(at.Hostname(), port)
	return p, nil
}

// pool keeps the connections to one origin, of which there are at most maxConns.
type pool struct {
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	address string
	tls     *tls.Config
	// free has a token for each connection in use.
	free chan struct{}

	mu sync.Mutex
	// idle connections, the one used last at the end.
	idle    []*conn
	sweeper *time.Timer
}

// conn is one connection. It is one caller's from take to end.
type conn struct {
	net.Conn
	pool     *pool
	deadline time.Time // of reads and writes
	// raw is the socket, nil if it is not one; peeking is peek, which sets peeked.
	raw     syscall.RawConn
	peeking func(fd uintptr) bool
	peeked  bool
	// b has what was read, from r on not yet used; request is what was sent.
	b, request []byte
	r          int
	// header and values are memory for the header of a reply.
	header http.Header
	values []string
	since  time.Time   // when it became idle
	watch  func() bool // ends the watch over the caller's context; false if that has ended
}

// take returns an idle connection on which nothing has come, or a new one. Its deadline
// is that of the exchange.
func (p *pool) take(ctx context.Context) (*conn, error) {
	select {
	case p.free <- struct{}{}:
	default:
		select {
		case p.free <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for c := p.pop(); c != nil; c = p.pop() {
		if c.extend() == nil && c.silent() {
			return c, nil
		}
		_ = c.Close() // nothing is under way on it
	}
	c, err := p.dial(ctx)
	if err == nil {
		if err = c.extend(); err == nil {
			return c, nil
		}
		err = errors.Join(err, c.Close())
	}
	<-p.free
	return nil, err
}

// pop returns the idle connection that was used last, nil if there is none.
func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

func (p *pool) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout) // the handshake, too
	defer cancel()
	plain, err := p.dialer(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: plain, pool: p}
	if under, ok := plain.(syscall.Conn); ok {
		if c.raw, err = under.SyscallConn(); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
		c.peeking = c.peek
	}
	if p.tls == nil {
		return c, nil
	}
	secure := tls.Client(plain, p.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	c.Conn = secure
	return c, nil
}

// extend gives the exchange to come its time, or a little less: most follow each other
// within microseconds.
func (c *conn) extend() error {
	now := time.Now()
	if c.deadline.Sub(now) > exchangeTimeout-exchangeTimeout/8 {
		return nil
	}
	c.deadline = now.Add(exchangeTimeout)
	return c.SetDeadline(c.deadline)
}

// silent tells that nothing has come on an idle connection, neither its end nor a reply
// that nobody asked for: the next caller would take that for its own, and each one
// after it the reply to the one before.
func (c *conn) silent() bool {
	if c.raw == nil {
		return true
	}
	err := c.raw.Read(c.peeking)
	return err == nil && c.peeked
}

// sweep closes the connections that have been idle for long.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.idle) && time.Since(p.idle[old].since) >= idleTimeout {
		_ = p.idle[old].Close() // nothing is under way on it
		old++
	}
	p.idle = append(p.idle[:0], p.idle[old:]...)
	if len(p.idle) > 0 {
		p.sweeper.Reset(idleTimeout)
	}
}

// end gives the connection back, for others to use if it can be.
func (c *conn) end(reusable bool) {
	p := c.pool
	if c.watch != nil {
		// Where the context has ended, its watch closes the door at any moment.
		reusable = c.watch() && reusable
		c.watch = nil
	}
	if cap(c.request) > mostKept {
		c.request = nil
	}
	if reusable && c.r == len(c.b) {
		p.mu.Lock()
		c.since = time.Now()
		p.idle = append(p.idle, c)
		switch {
		case len(p.idle) > 1:
		case p.sweeper == nil:
			p.sweeper = time.AfterFunc(idleTimeout, p.sweep)
		default:
			p.sweeper.Reset(idleTimeout)
		}
		p.mu.Unlock()
	} else {
		_ = c.Close() // the exchange has ended or failed already
	}
	<-p.free
}

// exchange sends req and reads the head of the reply.
func (c *conn) exchange(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c.watch = context.AfterFunc(ctx, func() {
		_ = c.SetDeadline(time.Unix(1, 0)) // a connection that is closed has none
	})
	if err := c.send(req); err != nil {
		return nil, err
	}
	return c.receive(req)
}

// send sends a request in one piece.
func (c *conn) send(req *http.Request) error {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	b := c.request[:0]
	b = append(b, req.Method...)
	b = append(b, ' ')
	b = append(b, req.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, max(0, req.ContentLength), 10)
	for name, values := range req.Header {
		if name == "Content-Length" {
			continue
		}
		for _, value := range values {
			if !oneLine(name) || !oneLine(value) {
				return fmt.Errorf("header %q has a control character", name)
			}
			b = append(b, "\r\n"...)
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
		}
	}
	b = append(b, "\r\n\r\n"...)
	if n := int(max(0, req.ContentLength)); n > 0 {
		from := len(b)
		b = slices.Grow(b, n)[:from+n]
		if _, err := io.ReadFull(req.Body, b[from:]); err != nil {
			return fmt.Errorf("request body: %w", err)
		}
	}
	c.request = b
	_, err := c.Write(b)
	return err
}

// fill reads more of what the server sends.
func (c *conn) fill() error {
	if c.r == len(c.b) {
		c.b, c.r = c.b[:0], 0
	}
	if len(c.b) == cap(c.b) {
		c.b = append(make([]byte, 0, max(4<<10, 2*cap(c.b))), c.b[c.r:]...)
		c.r = 0
	}
	n, err := c.Read(c.b[len(c.b):cap(c.b)])
	c.b = c.b[:len(c.b)+n]
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// receive reads the head of a reply.
func (c *conn) receive(req *http.Request) (*http.Response, error) {
	var head []byte
	for searched := 0; ; {
		if end := bytes.Index(c.b[c.r+searched:], []byte("\r\n\r\n")); end >= 0 {
			end += c.r + searched
			head = c.b[c.r : end+2]
			c.r = end + 4
			break
		}
		if searched = max(0, len(c.b)-c.r-3); searched > maxHead {
			return nil, errUnknownReply
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	if c.header == nil {
		c.header, c.values = make(http.Header, 8), make([]string, 0, 8)
	}
	clear(c.header)
	r := &reply{Response: http.Response{Header: c.header}}
	if err := r.parse(head, c.values[:0]); err != nil {
		if r.StatusCode >= http.StatusMultipleChoices {
			return nil, fmt.Errorf("a reply of status %d, in a form that is not read directly", r.StatusCode)
		}
		return nil, err
	}
	// Not from AWS, then: it may be one of a gateway that gave the connection up, with
	// the reply to this request still to come.
	foreign := r.StatusCode != http.StatusOK && r.Header.Get("X-Amzn-Requestid") == ""
	r.body = body{c: c, left: r.ContentLength, last: r.Close || foreign}
	r.Request, r.Body = req, &r.body
	return &r.Response, nil
}

// reply is a reply with its body, in one piece of memory. It is not used again: its
// body may be closed twice.
type reply struct {
	http.Response
	body body
}

// parse reads the lines of a head, each with its end. r has memory for the header, and
// values for what is in it.
func (r *reply) parse(head []byte, values []string) error {
	line, rest, _ := strings.Cut(string(head), "\r\n")
	status, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || !printable(status) || len(status) < 3 || (len(status) > 3 && status[3] != ' ') {
		return errUnknownReply
	}
	code, ok := digits(status[:3])
	if !ok || code < 200 || code == http.StatusNoContent || code == http.StatusNotModified {
		return errUnknownReply // the last two have no body, whatever they say
	}
	r.StatusCode, r.Proto, r.ProtoMajor, r.ProtoMinor, r.ContentLength = int(code), "HTTP/1.1", 1, 1, -1
	for line := range strings.SplitSeq(strings.TrimSuffix(rest, "\r\n"), "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if name = canonical(name); !ok || name == "" || !printable(value) { // continued lines, too
			return errUnknownReply
		}
		value = strings.Trim(value, " \t")
		switch name {
		case "Content-Length":
			n, ok := digits(value)
			if !ok || r.ContentLength >= 0 {
				return errUnknownReply
			}
			r.ContentLength = n
		case "Transfer-Encoding", "Upgrade":
			return errUnknownReply
		case "Connection":
			r.Close = r.Close || !strings.EqualFold(value, "keep-alive")
		}
		if more, ok := r.Header[name]; ok {
			r.Header[name] = append(more, value)
			continue
		}
		values = append(values, value)
		n := len(values)
		r.Header[name] = values[n-1 : n : n]
	}
	if r.ContentLength < 0 {
		return errUnknownReply
	}
	return nil
}

// oneLine tells that s cannot end a line of a head.
func oneLine(s string) bool {
	return strings.IndexByte(s, '\r') < 0 && strings.IndexByte(s, '\n') < 0 && strings.IndexByte(s, 0) < 0
}

// printable tells that s has no control character but tabs.
func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// digits reads a number that has nothing but digits.
func digits(s string) (n int64, ok bool) {
	for _, d := range []byte(s) {
		if d < '0' || d > '9' || len(s) > 18 {
			return 0, false
		}
		n = 10*n + int64(d-'0')
	}
	return n, s != ""
}

// tokenBytes are those of a header's name (RFC 9110, 5.6.2).
const tokenBytes = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// canonical is a header's name in its usual form, "" if it cannot be one. For what AWS
// sends it allocates nothing.
func canonical(name string) string {
	switch name {
	case "Server", "Date", "Content-Type", "Content-Length", "Connection":
		return name
	case "x-amzn-RequestId":
		return "X-Amzn-Requestid"
	case "x-amz-crc32":
		return "X-Amz-Crc32"
	}
	if strings.Trim(name, tokenBytes) != "" {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// body is the body of a reply, read from its connection.
type body struct {
	c    *conn // nil once closed
	left int64
	// last says that the server closes the connection behind it.
	last bool
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	switch {
	case b.c == nil:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	case len(into) == 0:
		return 0, nil
	}
	into = into[:min(int64(len(into)), b.left)]
	n := copy(into, b.c.b[b.c.r:])
	b.c.r += n
	var err error
	if n == 0 { // a long body goes where it is wanted at once
		n, err = b.c.Read(into)
	}
	b.left -= int64(n)
	switch {
	case n > 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, io.ErrUnexpectedEOF
	}
	return 0, err
}

// Close gives the connection back. It is closed if something of the body is left.
func (b *body) Close() error {
	if b.c != nil {
		b.c.end(b.left == 0 && !b.last)
		b.c = nil
	}
	return nil
}
