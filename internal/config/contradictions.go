package config

import (
	"fmt"
	"net"
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
	var out []Contradiction
	for _, rule := range []struct {
		bad        bool
		says, mend string
		fatal      bool
	}{
		{
			c.Auth == AuthDev && c.JWTIssuer+strings.Join(c.JWTAudience, "")+c.JWKSURL != "",
			"FANFARE_JWT_ISSUER, FANFARE_JWT_AUDIENCE and FANFARE_JWKS_URL have no effect with FANFARE_AUTH=dev", "set FANFARE_AUTH=jwt, or remove them", false,
		},
		{
			c.Auth == AuthJWT && c.DevSecret+c.DevAuthOnAWS+c.DevAuthPublic+strings.Join(c.DevAuthHosts, "") != "",
			"FANFARE_DEV_SECRET, FANFARE_DEV_AUTH_ON_AWS, FANFARE_DEV_AUTH_PUBLIC and FANFARE_DEV_AUTH_HOSTS have no effect with FANFARE_AUTH=jwt", "remove them", false,
		},
		{
			c.Auth == AuthDev && (c.DevAuthOnAWS != "" || c.DevAuthPublic != ""),
			"anyone who reaches the API can be any user, because dev tokens are allowed on aws or on a public address", "set FANFARE_AUTH=jwt outside of tests", false,
		},
		{
			len(c.CORSHeaders) > 0 && len(c.CORSOrigins) == 0,
			"FANFARE_CORS_HEADERS has no effect without FANFARE_CORS_ORIGINS", "name the origins, or remove it", false,
		},
		{
			c.Archive == "" && len(c.besideArchive()) > 0,
			strings.Join(c.besideArchive(), ", ") + " have no effect without FANFARE_ARCHIVE", "set FANFARE_ARCHIVE, or remove them", false,
		},
		{
			!c.HasPair() && len(c.ofPair()) > 0,
			strings.Join(c.ofPair(), ", ") + " have no effect without FANFARE_PEER", "set FANFARE_PEER, or remove them", false,
		},
		{
			c.HasPair() && c.FailoverAfter != nil && c.Failover != FailoverAuto,
			"FANFARE_FAILOVER_AFTER has no effect with FANFARE_FAILOVER=manual", "set FANFARE_FAILOVER=auto, or remove it", false,
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

// sameAddress reports whether two listeners with the addresses a and b would conflict.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return errA == nil && errB == nil && portA == portB && portA != "0" &&
		(hostA == hostB || everywhere(hostA) || everywhere(hostB))
}
