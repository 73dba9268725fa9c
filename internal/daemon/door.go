package daemon

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/pair"
)

const (
	// connsPeer is the maximum number of connections with the key at the address for the other machine.
	connsPeer = 16
	// connsStrangers is the maximum number of connections that have not shown the key yet.
	connsStrangers = 64
	// strangerTime is the time for the first byte after the handshake, which has its own time.
	strangerTime = 5 * time.Second
	// mayFail is the number of handshakes that an address may fail before its connections are closed unread for a pause.
	mayFail = 16
	// mostHosts bounds the memory for addresses (I9).
	mostHosts = 1024
	// firstPause and mostPause bound the pause of an address that has failed too often. The pause is short, because the other machine may get
	// the address.
	firstPause, mostPause = 100 * time.Millisecond, 10 * time.Second
)

var (
	errPaused   = errors.New("this address has failed too many handshakes: let only the other machine of the pair reach FANFARE_PEER_ADDR")
	errFullDoor = errors.New("too many connections with the key of the pair: stop machines that are not in the pair")
)

// door lets the other machine of the pair in. Anybody on the network may connect with the address, and only the key shows which machine
// connects. So a connection without the key never takes a place of the other machine: strangers have places of their own, and a
// new stranger takes the place of an older one.
type door struct {
	keys   pair.Keys
	peer   string // FANFARE_PEER
	places chan struct{}
	log    *zap.Logger

	mu        sync.Mutex
	strangers []stranger // oldest first
	hosts     map[netip.Addr]*host
}

// stranger is a connection that has not shown the key yet.
type stranger struct {
	conn net.Conn
	from netip.Addr
}

// host has the failures of an address that has connected.
type host struct {
	known  bool // the address has shown the key, or is the address of the other machine
	failed int  // since the last handshake that succeeded
	until  time.Time
}

func newDoor(keys pair.Keys, peer string, log *zap.Logger) *door {
	return &door{keys: keys, peer: peer, places: make(chan struct{}, connsPeer), log: log, hosts: make(map[netip.Addr]*host)}
}

// accept serves connections of the other machine until ctx ends.
func (d *door) accept(ctx context.Context, listener net.Listener, serve func(context.Context, net.Conn) error) error {
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })() // then Accept fails
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				return ignoreClosed(conn.Close())
			}
			return nil // the listener is closed by the stop
		}
		if err != nil {
			return errors.Join(fmt.Errorf("accept connections of the other machine: %w", err), listener.Close())
		}
		s, err := d.enter(conn)
		if err != nil {
			d.log.Warn("a connection with the address for the other machine was refused", zap.Error(err))
			continue
		}
		sessions.Go(func() {
			if err := d.receive(ctx, s, serve); err != nil && ctx.Err() == nil {
				d.log.Warn("a connection of the other machine has ended", zap.Error(err))
			}
		})
	}
}

// enter gives a new connection a place among the strangers. If the places are full, the oldest stranger of the address with the most
// strangers leaves: so a flood from one address takes only its own places.
func (d *door) enter(conn net.Conn) (stranger, error) {
	s := stranger{conn, hostOf(conn)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hosts[s.from]; h != nil && !h.known && time.Now().Before(h.until) {
		return s, errors.Join(errPaused, conn.Close())
	}
	if d.strangers = append(d.strangers, s); len(d.strangers) <= connsStrangers {
		return s, nil
	}
	of := make(map[netip.Addr]int)
	for _, s := range d.strangers {
		if h := d.hosts[s.from]; h == nil || !h.known {
			of[s.from] += connsStrangers // so each address without the key comes before each address that has shown the key
		}
		of[s.from]++
	}
	leaves := slices.MaxFunc(d.strangers, func(a, b stranger) int { return cmp.Compare(of[a.from], of[b.from]) })
	d.remove(leaves)
	return s, ignoreClosed(leaves.conn.Close())
}

func (d *door) remove(s stranger) {
	d.strangers = slices.DeleteFunc(d.strangers, func(other stranger) bool { return other.conn == s.conn })
}

// receive serves a connection that shows the key.
func (d *door) receive(ctx context.Context, s stranger, serve func(context.Context, net.Conn) error) error {
	conn, err := d.proved(ctx, s.conn)
	if d.leave(s, err == nil) == mayFail && d.isPeer(ctx, s.from) {
		d.leave(s, true)
	}
	if err != nil {
		return err
	}
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
		return serve(ctx, conn)
	default:
		return errors.Join(errFullDoor, conn.Close())
	}
}

// proved returns the connection of a machine that has shown the key and speaks. Without keys, which only a pair on loopback may leave out,
// a machine that speaks is enough.
func (d *door) proved(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // then the handshake fails
	defer stop()
	secured, err := d.keys.Accept(ctx, conn)
	if err != nil {
		return nil, err
	}
	first := bufio.NewReader(secured)
	err = secured.SetReadDeadline(time.Now().Add(strangerTime))
	if err == nil {
		_, err = first.Peek(1)
	}
	if err == nil {
		err = secured.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, ignoreClosed(secured.Close()))
	}
	return heard{secured, first}, nil
}

// heard is a connection whose first bytes were read.
type heard struct {
	net.Conn
	first *bufio.Reader
}

func (h heard) Read(p []byte) (int, error) { return h.first.Read(p) }

// leave takes a connection out of the strangers. It returns the number of handshakes that the address has failed in a row. known means that
// the address may fail as often as it will, because the other machine has the address.
func (d *door) leave(s stranger, known bool) (failed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(s)
	h := d.hosts[s.from]
	if h == nil {
		if len(d.hosts) >= mostHosts {
			d.forget()
		}
		h = &host{}
		d.hosts[s.from] = h
	}
	if known {
		*h = host{known: true}
		return 0
	}
	if h.failed++; h.failed >= mayFail {
		h.until = time.Now().Add(backoff.Exponential{First: firstPause, Most: mostPause}.Bound(h.failed - mayFail + 1))
	}
	return h.failed
}

// forget makes room for an address. The caller holds mu.
func (d *door) forget() {
	for from, h := range d.hosts {
		if !h.known {
			delete(d.hosts, from)
			return
		}
	}
	clear(d.hosts)
}

// isPeer reports whether an address is the address in FANFARE_PEER. The other machine may share the address with a stranger.
func (d *door) isPeer(ctx context.Context, from netip.Addr) bool {
	name, _, err := net.SplitHostPort(d.peer)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name) // a name without an address is the address of nobody
	return slices.ContainsFunc(found, func(at netip.Addr) bool { return network(at) == from })
}

// hostOf returns the address from which a connection comes.
func hostOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{} // no address of a network
	}
	return network(at.Addr())
}

// network returns the part of an address that one machine cannot change: the first 64 bits with IPv6.
func network(at netip.Addr) netip.Addr {
	if at = at.Unmap(); at.Is6() {
		if prefix, err := at.WithZone("").Prefix(64); err == nil {
			return prefix.Addr()
		}
	}
	return at
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
