package config

import (
	"fmt"
	"net"
	"strings"
	"time"

	"fanfare/internal/objects"
)

// Failover is the way in which a standby becomes the primary.
type Failover string

// The ways of a failover.
const (
	FailoverManual Failover = "manual"
	FailoverAuto   Failover = "auto"
)

// Alone is the answer to the question whether a primary without its standby may answer by itself.
type Alone string

// The answers.
const (
	AloneAuto  Alone = "auto"
	AloneNever Alone = "never"
)

// registerOff is the value of FANFARE_REGISTER for no register.
const registerOff = "off"

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

// HasRegister reports whether the pair has a register.
func (c Config) HasRegister() bool { return c.RegisterAt() != "" }

// RegisterAt returns the address of the register of the pair, "" for none. The default is the archive in a bucket.
func (c Config) RegisterAt() string {
	if !c.HasPair() && c.Register == "" {
		return ""
	}
	return c.RegisterOfPair()
}

// RegisterOfPair returns the address of the register of a data directory that is in a pair, also if the settings have no pair.
func (c Config) RegisterOfPair() string {
	switch {
	case c.Register == registerOff:
		return ""
	case c.Register == "" && strings.HasPrefix(c.Archive, "s3:"):
		return c.Archive
	default:
		return c.Register
	}
}

// MayBeAlone reports whether a primary without its standby may answer by itself.
func (c Config) MayBeAlone() bool { return c.HasRegister() && c.Alone != AloneNever }

// PromotesAfter returns the time without a heartbeat after which a standby becomes the primary, and 0 if only an operator
// decides that.
func (c Config) PromotesAfter() time.Duration {
	if c.Failover != FailoverAuto {
		return 0
	}
	return c.failoverAfter()
}

func (c Config) failoverAfter() time.Duration { return or(c.FailoverAfter, 5*time.Second) }

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
		{c.Failover != "" && c.Failover != FailoverManual && c.Failover != FailoverAuto, fmt.Sprintf("FANFARE_FAILOVER: %q is neither manual nor auto", c.Failover)},
		{c.Alone != "" && c.Alone != AloneAuto && c.Alone != AloneNever, fmt.Sprintf("FANFARE_ALONE: %q is neither auto nor never", c.Alone)},
		{c.failoverAfter() > time.Hour, fmt.Sprintf("FANFARE_FAILOVER_AFTER: %s is above 1h", c.failoverAfter())},
		{c.Register != registerOff && c.Register != "" && registerFault(c.Register) != "", "FANFARE_REGISTER: " + registerFault(c.Register)},
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

// registerFault returns the fault of the address of a register, "" for none.
func registerFault(address string) string {
	location, err := objects.Parse(address)
	switch {
	case err != nil && !strings.HasPrefix(address, "file:"):
		return err.Error()
	case err != nil || location.Dir != "":
		return "a directory cannot decide between two machines: name a bucket that both machines reach, s3://bucket/prefix, or off"
	}
	return ""
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
		{c.Failover == FailoverAuto && !c.HasRegister(), "FANFARE_FAILOVER: auto needs FANFARE_REGISTER, because a dead machine and a cut network look the same to a standby: set it to s3://bucket/prefix, or use manual and fanfare promote"},
		{c.MayBeAlone() && c.StandbyWait() < 2*heartbeat, fmt.Sprintf("FANFARE_STANDBY_TIMEOUT: %s is below %s (two heartbeats), so with FANFARE_REGISTER a primary would go alone although its standby answers: raise it, or set FANFARE_ALONE=never", c.StandbyWait(), 2*heartbeat)},
		{c.Alone == AloneAuto && !c.HasRegister(), "FANFARE_ALONE: auto needs FANFARE_REGISTER, because the standby could be promoted at the same time: set it to s3://bucket/prefix, or use never"},
		{
			(c.Failover == FailoverAuto || c.FailoverAfter != nil) && c.failoverAfter() < c.LeaseTime()+c.StandbyWait(),
			fmt.Sprintf("FANFARE_FAILOVER_AFTER: %s is below %s, the sum of FANFARE_LEASE and FANFARE_STANDBY_TIMEOUT, so a short cut of the network would change the primary: raise it, or lower these", c.failoverAfter(), c.LeaseTime()+c.StandbyWait()),
		},
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
		{c.Lease != nil, "FANFARE_LEASE"}, {c.SeedRate != nil, "FANFARE_SEED_RATE"}, {c.Register != "", "FANFARE_REGISTER"},
		{c.Failover != "", "FANFARE_FAILOVER"}, {c.FailoverAfter != nil, "FANFARE_FAILOVER_AFTER"}, {c.Alone != "", "FANFARE_ALONE"},
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
