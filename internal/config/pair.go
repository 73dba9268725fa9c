package config

import (
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	// heartbeat is the time between two messages of the primary of a pair to its standby.
	heartbeat = 500 * time.Millisecond
	// leastSeedRate is the smallest rate of a seed.
	leastSeedRate = 1 << 20
)

// HasPair reports whether the process is one of a pair.
func (c Config) HasPair() bool { return c.Peer != "" }

// StandbyWait returns the time for which a write waits for the standby.
func (c Config) StandbyWait() time.Duration { return or(c.StandbyTimeout, 2*time.Second) }

// LeaseTime returns the time for which a promise of the standby lets the primary answer reads.
func (c Config) LeaseTime() time.Duration { return or(c.Lease, 3*time.Second) }

// SeedBytes returns the maximum number of bytes a second of a seed.
func (c Config) SeedBytes() int64 { return int64(or(c.SeedRate, 50<<20)) }

// checkPair returns the faults of each setting of a pair.
func (c Config) checkPair() (faults []string) {
	for _, rule := range []struct {
		bad   bool
		fault string
	}{
		{c.Peer != "" && !hostPort(c.Peer), fmt.Sprintf("FANFARE_PEER: %q is not the HOST:PORT of the other machine", c.Peer)},
		{c.PeerAddr != "" && !address(c.PeerAddr), fmt.Sprintf("FANFARE_PEER_ADDR: %q is not an address to listen on, such as :7070", c.PeerAddr)},
		{c.StandbyWait() < 100*time.Millisecond || c.StandbyWait() > time.Minute, fmt.Sprintf("FANFARE_STANDBY_TIMEOUT: %s is not between 100ms and 1m", c.StandbyWait())},
		{c.LeaseTime() < 4*heartbeat || c.LeaseTime() > time.Minute, fmt.Sprintf("FANFARE_LEASE: %s is not between %s (four heartbeats) and 1m", c.LeaseTime(), 4*heartbeat)},
		{c.SeedBytes() < leastSeedRate, "FANFARE_SEED_RATE: it is below 1MiB a second, and a seed would never end"},
	} {
		if rule.bad {
			faults = append(faults, rule.fault)
		}
	}
	if c.Engine == EngineAWS {
		for _, name := range c.ofPair() {
			faults = append(faults, name+": it is of the embedded engine: remove it")
		}
	}
	return faults
}

// checkPairing returns the faults of the settings of a pair that a process needs together.
func (c Config) checkPairing() (faults []string) {
	files := c.PeerCert + c.PeerKey + c.PeerCA
	all := c.PeerCert != "" && c.PeerKey != "" && c.PeerCA != ""
	for _, rule := range []struct {
		bad   bool
		fault string
	}{
		{c.Peer != "" && c.PeerAddr == "", "FANFARE_PEER_ADDR is missing: the other machine calls this address, so FANFARE_PEER needs it"},
		{c.Peer == "" && c.PeerAddr != "", "FANFARE_PEER is missing: FANFARE_PEER_ADDR is for a pair, and a machine of a pair calls the other one"},
		{files != "" && !all, "FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA belong together: set all three (fanfare pair keys makes them)"},
		{c.Peer != "" && c.PeerAddr != "" && files == "" && (!loopback(c.Peer) || !loopback(c.PeerAddr)), "FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA are missing: without them a stranger could read all data, so only a pair on loopback needs none (fanfare pair keys makes them)"},
		{c.Peer != "" && c.Archive != "", "FANFARE_ARCHIVE: a pair cannot have an archive in this version, because the archive could get writes that the standby lacks: remove it, or remove FANFARE_PEER"},
	} {
		if rule.bad {
			faults = append(faults, rule.fault)
		}
	}
	return faults
}

// ofPair returns the names of the settings of a pair that are set.
func (c Config) ofPair() (names []string) {
	for _, setting := range []struct {
		is   bool
		name string
	}{
		{c.Peer != "", "FANFARE_PEER"}, {c.PeerAddr != "", "FANFARE_PEER_ADDR"}, {c.PeerCert != "", "FANFARE_PEER_CERT"},
		{c.PeerKey != "", "FANFARE_PEER_KEY"}, {c.PeerCA != "", "FANFARE_PEER_CA"}, {c.StandbyTimeout != nil, "FANFARE_STANDBY_TIMEOUT"},
		{c.Lease != nil, "FANFARE_LEASE"}, {c.SeedRate != nil, "FANFARE_SEED_RATE"},
	} {
		if setting.is {
			names = append(names, setting.name)
		}
	}
	return names
}

// hostPort reports whether addr is an address to call.
func hostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != "" && port != "0" && !strings.ContainsAny(addr, " /")
}
