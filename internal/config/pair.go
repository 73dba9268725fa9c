package config

import (
	"net"
	"strings"
	"time"

	"fanfare/internal/objects"
)

// registerOff is the value of FANFARE_REGISTER for no register.
const registerOff = "off"

// heartbeat is the longest time between two messages of the primary of a pair to its standby.
const heartbeat = 500 * time.Millisecond

// HasPair reports whether the process is one of a pair.
func (c Config) HasPair() bool { return c.Peer != "" }

// Heartbeat returns the time between two messages of the primary to its standby: a lease has four heartbeats at least.
func (c Config) Heartbeat() time.Duration { return min(heartbeat, c.Lease/4) }

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
	return c.FailoverAfter
}

// registerFault returns the fault of the address of a register, "" for none.
func registerFault(address string) string {
	location, err := objects.Parse(address)
	switch {
	case address == registerOff:
		return ""
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
		{c.Alone == AloneAuto && !c.HasRegister(), "FANFARE_ALONE: auto needs FANFARE_REGISTER, because the standby could be promoted at the same time: set it to s3://bucket/prefix, or use never"},
	} {
		if rule.bad {
			faults = append(faults, rule.fault)
		}
	}
	return faults
}

// hostPort reports whether addr is an address to call.
func hostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != "" && port != "0" && !strings.ContainsAny(addr, " /")
}
