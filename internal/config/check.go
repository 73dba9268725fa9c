package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"fanfare/internal/objects"
)

// check returns the faults of the values in c for a role.
func (c Config) check(role Role) (faults []string) {
	for _, f := range fields() {
		faults = append(faults, f.faults(&c)...)
	}
	faults = append(faults, c.checkTogether()...)
	if role == API || role == Site {
		faults = append(faults, c.checkPairing()...)
	}
	if role == API {
		faults = append(faults, c.checkAuth()...)
	}
	return faults
}

// forms returns the checks that need more than a pattern. Each returns the fault of a text, "" for none.
func forms() map[string]func(string) string {
	is := func(fits func(string) bool, what string) func(string) string {
		return func(s string) string {
			if fits(s) {
				return ""
			}
			return fmt.Sprintf("%q is not %s", s, what)
		}
	}
	return map[string]func(string) string{
		"address": is(address, "HOST:PORT, such as 127.0.0.1:8080 or :7070"),
		"peer":    is(hostPort, "the HOST:PORT of the other machine"),
		"archive": func(s string) string {
			if _, err := objects.Parse(s); err != nil {
				return err.Error()
			}
			return ""
		},
		"audience": func(s string) string {
			if s == "" {
				return "one of its parts is empty, and a token without an audience would fit: remove the comma"
			}
			return ""
		},
		"secret": func(s string) string {
			if len(s) < 32 {
				return fmt.Sprintf("it has %d bytes, but needs at least 32", len(s))
			}
			return ""
		},
		"keys": keysFault, "origin": originFault, "pictures": picturesFault, "register": registerFault,
	}
}

// checkTogether returns the faults of settings that do not fit each other, or a rule that no tag can name.
func (c Config) checkTogether() (faults []string) {
	if c.ownsQueue(c.EventsQueue) {
		faults = append(faults, fmt.Sprintf("FANFARE_EVENTS_QUEUE: %q is a queue of Fanfare's own work: name another", c.EventsQueue))
	}
	if c.DeleteScope() == c.ServiceScope {
		faults = append(faults, fmt.Sprintf("FANFARE_SERVICE_SCOPE: %q is also the scope to delete users, which few tokens get: name another scope", c.ServiceScope))
	}
	for i, kind := range c.Reactions {
		switch {
		case kind == "count":
			faults = append(faults, "FANFARE_REACTIONS: count is the path of the counts: name the kind otherwise")
		case kind == "like" || kind != "" && slices.Contains(c.Reactions[:i], kind):
			faults = append(faults, fmt.Sprintf("FANFARE_REACTIONS: %s is there already: name each kind once, and like never", kind))
		}
	}
	if slices.ContainsFunc(c.CORSHeaders, func(name string) bool { return strings.EqualFold(name, "Fanfare-User") }) {
		faults = append(faults, "FANFARE_CORS_HEADERS: Fanfare-User goes with the token of a service, which no page may hold: remove it, and call from a backend")
	}
	return faults
}

func (c Config) checkAuth() []string {
	var faults []string
	switch {
	case c.Auth == AuthJWT:
		for _, need := range []struct{ name, value string }{
			{"FANFARE_JWT_ISSUER", c.JWTIssuer}, {"FANFARE_JWT_AUDIENCE", strings.Join(c.JWTAudience, "")},
		} {
			if need.value == "" {
				faults = append(faults, need.name+" is missing: FANFARE_AUTH=jwt needs it")
			}
		}
		if fault := keysFault(c.JWTIssuer); c.JWTIssuer != "" && c.JWKSURL == "" && fault != "" {
			faults = append(faults, "FANFARE_JWT_ISSUER: "+fault+"; if the issuer is not below one, name its keys in FANFARE_JWKS_URL")
		}
	case c.Auth == AuthDev && c.Engine == EngineAWS && c.DevAuthOnAWS != "allow":
		faults = append(faults, "FANFARE_AUTH: dev gives a token to anyone and is refused with FANFARE_ENGINE=aws: set it to jwt, or FANFARE_DEV_AUTH_ON_AWS=allow for a test system")
	case c.Auth == AuthDev && c.Engine == EngineAWS && c.DevSecret == "":
		faults = append(faults, "FANFARE_DEV_SECRET is missing: dev tokens on aws need it, the same for every api process")
	}
	if c.Auth == AuthDev && c.DevAuthPublic != "allow" && address(c.HTTPAddr) && !loopback(c.HTTPAddr) {
		faults = append(faults, fmt.Sprintf("FANFARE_AUTH: dev gives a token to whoever asks and is refused on %s, which other machines may reach: "+
			"set it to jwt, set FANFARE_HTTP_ADDR to a loopback address, or FANFARE_DEV_AUTH_PUBLIC=allow for a test system", c.HTTPAddr))
	}
	if c.Auth == AuthDev && c.DevAuthPublic != "allow" && len(c.DevAuthHosts) > 0 {
		faults = append(faults, "FANFARE_DEV_AUTH_HOSTS: other names lead other machines to dev tokens: set FANFARE_AUTH=jwt, or also FANFARE_DEV_AUTH_PUBLIC=allow for a test system")
	}
	return faults
}

// ownsQueue reports whether s is the name of a topic's queue, or of the queue of its dead letters.
func (c Config) ownsQueue(s string) bool {
	topic, own := strings.CutPrefix(strings.TrimSuffix(s, "-dlq"), c.QueuePrefix+"-")
	return own && slices.Contains([]string{"posts", "backfills", "chunks", "likes", "notices"}, topic)
}

func address(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = net.ResolveTCPAddr("tcp", net.JoinHostPort("127.0.0.1", port))
	return err == nil && port != ""
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func httpURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// keysFault returns the fault of the URL of the issuer's keys, "" if there is no fault. The
// fault does not quote the URL, which may have a password.
func keysFault(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || !httpURL(s):
		return "it is not an https URL"
	case u.User != nil:
		return "it has credentials, which errors and logs would print: keys are public, use a URL without"
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "80")):
		return "it is http, and others on the way could answer with keys of their own: use https, except on a loopback address"
	}
	return ""
}
