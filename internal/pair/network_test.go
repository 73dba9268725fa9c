package pair_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// network connects two machines. It delays bytes, holds them back, and cuts connections, which loses the bytes
// that are on the way.
type network struct {
	mu    sync.Mutex
	rng   *rand.Rand
	down  bool
	conns []*conn
	delay atomic.Int64 // in nanoseconds
}

// connect returns the two ends of a connection.
func (n *network) connect() (near, far net.Conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, nil, errors.New("the network is down")
	}
	a, b := newPipe(n), newPipe(n)
	left, right := &conn{in: a, out: b}, &conn{in: b, out: a}
	n.conns = append(n.conns, left)
	return left, right, nil
}

// set cuts the connections, or allows connections again.
func (n *network) set(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	if down {
		n.cut()
	}
}

// cut cuts all connections.
func (n *network) cut() {
	for _, c := range n.conns {
		c.in.end(true)
		c.out.end(true)
	}
	n.conns = nil
}

// isolate cuts all connections, and allows no connection until the caller ends the isolation.
func (n *network) isolate() (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut()
	before := n.down
	n.down = true
	return func() { n.set(before) }
}

// drop cuts all connections, but allows others at once.
func (n *network) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut()
}

// damage flips a bit of the next message in each direction. The first message of a connection has no checksum of its own.
func (n *network) damage() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.in.damage()
		c.out.damage()
	}
}

// hold holds the bytes of one direction or of both back until the connections are cut.
func (n *network) hold(in, out bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.in.hold(in)
		c.out.hold(out)
	}
}

func newNetwork(rng *rand.Rand, delay time.Duration) *network {
	n := &network{rng: rng}
	n.delay.Store(int64(delay))
	return n
}

func (n *network) pause() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Int64N(n.delay.Load() + 1))
}

// pipe is one direction of a connection.
type pipe struct {
	network *network
	mu      sync.Mutex
	changed chan struct{}
	data    []byte
	pieces  []piece
	over    bool
	held    bool
	greeted bool // the first message is on the way
	damaged bool // the next message arrives with a flipped bit
}

// piece is a number of bytes that arrive together.
type piece struct {
	n  int
	at time.Time
}

// pipeSize is the number of bytes that are on the way at most.
const pipeSize = 256 << 10

func newPipe(n *network) *pipe { return &pipe{network: n, changed: make(chan struct{})} }

func (p *pipe) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// end ends the pipe, and reports whether its bytes are held back.
func (p *pipe) end(lose bool) (held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if lose {
		p.data, p.pieces = nil, nil
	}
	p.wake()
	return p.held
}

func (p *pipe) damage() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.damaged = p.greeted
}

func (p *pipe) hold(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = is
	p.wake()
}

func (p *pipe) write(data []byte, deadline time.Time) (int, error) {
	pause := p.network.pause()
	for {
		p.mu.Lock()
		if p.over {
			p.mu.Unlock()
			return 0, net.ErrClosed
		}
		if len(p.data) < pipeSize {
			at := time.Now().Add(pause)
			if n := len(p.pieces); n > 0 && at.Before(p.pieces[n-1].at) {
				at = p.pieces[n-1].at
			}
			p.data, p.pieces = append(p.data, data...), append(p.pieces, piece{len(data), at})
			if p.damaged {
				p.data[len(p.data)-1-len(data)/2] ^= 4
			}
			p.greeted, p.damaged = true, false
			p.wake()
			p.mu.Unlock()
			return len(data), nil
		}
		changed := p.changed
		p.mu.Unlock()
		if err := await(changed, 0, deadline); err != nil {
			return 0, err
		}
	}
}

func (p *pipe) read(dst []byte, deadline time.Time) (int, error) {
	for {
		p.mu.Lock()
		wait := time.Duration(0)
		if len(p.pieces) > 0 && !p.held {
			if wait = time.Until(p.pieces[0].at); wait <= 0 {
				n := copy(dst, p.data[:p.pieces[0].n])
				p.data = p.data[n:]
				if p.pieces[0].n -= n; p.pieces[0].n == 0 {
					p.pieces = p.pieces[1:]
				}
				p.wake()
				p.mu.Unlock()
				return n, nil
			}
		}
		over, changed := p.over && len(p.pieces) == 0, p.changed
		p.mu.Unlock()
		if over {
			return 0, io.EOF
		}
		if err := await(changed, wait, deadline); err != nil {
			return 0, err
		}
	}
}

// await waits for a change, or for the wait if it is positive, or for the deadline.
func await(changed <-chan struct{}, wait time.Duration, deadline time.Time) error {
	var pass, late <-chan time.Time
	if wait > 0 {
		pass = time.After(wait)
	}
	if !deadline.IsZero() {
		late = time.After(time.Until(deadline))
	}
	select {
	case <-changed:
	case <-pass:
	case <-late:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// conn is one end of a connection.
type conn struct {
	in, out *pipe
	mu      sync.Mutex
	closed  bool
	read    time.Time
	write   time.Time
}

var _ net.Conn = (*conn)(nil)

func (c *conn) deadlines() (read, write time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read, c.write
}

func (c *conn) Read(p []byte) (int, error) {
	deadline, _ := c.deadlines()
	return c.in.read(p, deadline)
}

func (c *conn) Write(p []byte) (int, error) {
	_, deadline := c.deadlines()
	return c.out.write(p, deadline)
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if !c.out.end(false) { // the other end learns of it only when the bytes arrive
		c.in.end(true)
	}
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = t, t
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return nil }
func (c *conn) RemoteAddr() net.Addr { return nil }

// dialer returns a dial function to the machine that to returns.
func (n *network) dialer(serve func(net.Conn) error) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		near, far, err := n.connect()
		if err != nil {
			return nil, err
		}
		if err := serve(far); err != nil {
			return nil, errors.Join(err, near.Close(), far.Close())
		}
		return near, nil
	}
}
