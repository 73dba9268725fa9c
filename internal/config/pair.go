package config

import (
	"net"
	"strings"
	"time"

	"fanfare/internal/objects"
)

// heartbeat is the longest time between two messages of the primary of a pair to its standby.
const heartbeat = 500 * time.Millisecond

// HasPair reports whether the process is one of a pair.
func (c Config) HasPair() bool { return c.Peer != "" }

// Heartbeat returns the time between two messages of the primary to its standby: a lease has four heartbeats at least.
func (c Config) Heartbeat() time.Duration { return min(heartbeat, c.Lease/4) }

// registerFault returns the fault of the address of a register, "" for none.
func registerFault(address string) string {
	location, err := objects.Parse(address)
	switch {
	case err != nil && !strings.HasPrefix(address, "file:"):
		return err.Error()
	case err != nil || location.Dir != "":
		return "a directory cannot decide between two machines: name a bucket that both machines reach, s3://bucket/prefix"
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
		{c.Peer != "" && c.Register == "", "FANFARE_REGISTER is missing: a dead machine and a cut network look the same to the other machine of a pair, so a register has to decide. Set FANFARE_REGISTER to the same s3://bucket/prefix on both machines, in a store that stands on neither (docs/ONE_MACHINE.md, A second machine); without such a store run one machine, without FANFARE_PEER"},
		{c.Peer == "" && c.PeerAddr != "", "FANFARE_PEER is missing: FANFARE_PEER_ADDR is for a pair, and a machine of a pair calls the other one"},
		{files != "" && !all, "FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA belong together: set all three (fanfare pair keys makes them)"},
		{c.Peer != "" && c.PeerAddr != "" && files == "" && (!loopback(c.Peer) || !loopback(c.PeerAddr)), "FANFARE_PEER_CERT, FANFARE_PEER_KEY and FANFARE_PEER_CA are missing: without them a stranger could read all data, so only a pair on loopback needs none (fanfare pair keys makes them)"},
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
