package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// Contradiction is a setting that another setting makes useless or unsafe. Only a fatal
// contradiction stops a start.
type Contradiction struct {
	Says, Mend string
	// Fatal means that the contradiction fails the start: two listeners cannot share an address.
	Fatal bool
}

// Contradictions returns the contradictions in c.
func (c Config) Contradictions() []Contradiction {
	out := c.useless()
	for _, rule := range []struct {
		bad        bool
		says, mend string
		fatal      bool
	}{
		{
			c.Auth == AuthDev && (c.DevAuthOnAWS != "" || c.DevAuthPublic != ""),
			"anyone who reaches the API can be any user, because dev tokens are allowed on aws or on a public address", "set FANFARE_AUTH=jwt outside of tests", false,
		},
		{
			c.StreamsPerUser > c.Streams,
			fmt.Sprintf("FANFARE_STREAMS_PER_USER is %d, and FANFARE_STREAMS lets a process serve %d in all", c.StreamsPerUser, c.Streams), "raise FANFARE_STREAMS, or lower the other", false,
		},
		{
			c.AdminIsPublic(),
			"other machines may reach FANFARE_ADMIN_ADDR, and it asks for no token", "set FANFARE_METRICS_ADDR for scrapers and probes, and FANFARE_ADMIN_ADDR to a loopback address", false,
		},
		{sameAddress(c.HTTPAddr, c.AdminAddr), "FANFARE_HTTP_ADDR and FANFARE_ADMIN_ADDR are the same address", "give each its own port", true},
		{sameAddress(c.HTTPAddr, c.MetricsAddr), "FANFARE_HTTP_ADDR and FANFARE_METRICS_ADDR are the same address", "give each its own port", true},
		{sameAddress(c.AdminAddr, c.MetricsAddr), "FANFARE_ADMIN_ADDR and FANFARE_METRICS_ADDR are the same address", "give each its own port", true},
		{
			sameAddress(c.PeerAddr, c.HTTPAddr) || sameAddress(c.PeerAddr, c.AdminAddr) || sameAddress(c.PeerAddr, c.MetricsAddr),
			"FANFARE_PEER_ADDR is the address of another listener of this process", "give it its own port", true,
		},
	} {
		if rule.bad {
			out = append(out, Contradiction{rule.says, rule.mend, rule.fatal})
		}
	}
	return out
}

// useless returns the contradictions of the settings that have no effect, because another setting is absent or has another value.
func (c Config) useless() (out []Contradiction) {
	idle := map[string][]string{} // the settings without an effect, by their need
	var needs []string
	for _, f := range fields() {
		if f.Needs == "" || !c.set[f.Name] || c.meets(f.Needs) {
			continue
		}
		if idle[f.Needs] == nil {
			needs = append(needs, f.Needs)
		}
		idle[f.Needs] = append(idle[f.Needs], f.Name)
	}
	for _, need := range needs {
		have, them := "has", "it"
		if len(idle[need]) > 1 {
			have, them = "have", "them"
		}
		out = append(out, Contradiction{
			Says: fmt.Sprintf("%s %s no effect without %s", strings.Join(idle[need], ", "), have, need), Mend: fmt.Sprintf("set %s, or remove %s", need, them),
		})
	}
	return out
}

// meets reports whether a setting that another setting needs has a value, or the value that the other setting needs.
func (c Config) meets(need string) bool {
	name, value, exact := strings.Cut(need, "=")
	return slices.ContainsFunc(fields(), func(f Field) bool {
		return f.Name == name && (!exact && f.text(c) != "" || exact && f.text(c) == value)
	})
}

// sameAddress reports whether two listeners with the addresses a and b would conflict.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return errA == nil && errB == nil && portA == portB && portA != "0" &&
		(hostA == hostB || everywhere(hostA) || everywhere(hostB))
}
