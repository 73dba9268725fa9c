package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// check returns the faults of the values in c for a role.
func (c Config) check(role Role) []string {
	var faults []string
	for _, rule := range []struct {
		bad   bool
		fault string
	}{
		{c.Engine != EngineEmbedded && c.Engine != EngineAWS, fmt.Sprintf("FANFARE_ENGINE: %q is neither embedded nor aws", c.Engine)},
		{c.Auth != AuthDev && c.Auth != AuthJWT, fmt.Sprintf("FANFARE_AUTH: %q is neither dev nor jwt", c.Auth)},
		{!tableName(c.Table), fmt.Sprintf("FANFARE_TABLE: %q is not 3 to 255 of A-Z a-z 0-9 _ - .", c.Table)},
		{!queuePrefix(c.QueuePrefix), fmt.Sprintf("FANFARE_QUEUE_PREFIX: %q is not 1 to 60 of A-Z a-z 0-9 _ -", c.QueuePrefix)},
		{!eventsQueue(c.EventsQueue), fmt.Sprintf("FANFARE_EVENTS_QUEUE: %q is not the name of a standard queue: up to 80 of A-Z a-z 0-9 _ -", c.EventsQueue)},
		{c.ownsQueue(c.EventsQueue), fmt.Sprintf("FANFARE_EVENTS_QUEUE: %q is a queue of Fanfare's own work: name another", c.EventsQueue)},
		{!address(c.HTTPAddr), fmt.Sprintf("FANFARE_HTTP_ADDR: %q is not HOST:PORT", c.HTTPAddr)},
		{!address(c.AdminAddr), fmt.Sprintf("FANFARE_ADMIN_ADDR: %q is not HOST:PORT", c.AdminAddr)},
		{c.MetricsAddr != "" && !address(c.MetricsAddr), fmt.Sprintf("FANFARE_METRICS_ADDR: %q is not HOST:PORT", c.MetricsAddr)},
		{c.LikeWindow < 10*time.Millisecond || c.LikeWindow > time.Minute, fmt.Sprintf("FANFARE_LIKE_WINDOW: %s is not between 10ms and 1m", c.LikeWindow)},
		{c.NotifyWindow < 10*time.Millisecond || c.NotifyWindow > time.Minute, fmt.Sprintf("FANFARE_NOTIFY_WINDOW: %s is not between 10ms and 1m", c.NotifyWindow)},
		{c.NotificationTTL < 816*time.Hour || c.NotificationTTL > 10*365*24*time.Hour, fmt.Sprintf("FANFARE_NOTIFICATION_TTL: %s is not between 816h and 87600h", c.NotificationTTL)},
		{c.TimelineTTL < time.Minute || c.TimelineTTL > 10*365*24*time.Hour, fmt.Sprintf("FANFARE_TIMELINE_TTL: %s is not between 1m and 87600h", c.TimelineTTL)},
		{c.FollowersPushed() < 0, fmt.Sprintf("FANFARE_PUSH_LIMIT: %d is negative: 0 is never to pull", c.FollowersPushed())},
		{c.ActiveDays == 1 || c.ActiveDays < 0 || c.ActiveDays > 3650, fmt.Sprintf("FANFARE_ACTIVE_DAYS: %d is neither 0 (off) nor between 2 and 3650", c.ActiveDays)},
		{c.MaxFollowing < 0, fmt.Sprintf("FANFARE_MAX_FOLLOWING: %d is negative", c.MaxFollowing)},
		{c.RequestsPerSecond() < 0 || c.RequestsPerSecond() > 1_000_000, fmt.Sprintf("FANFARE_RATE_LIMIT: %d is not between 0 and 1000000", c.RequestsPerSecond())},
		{c.ServiceRequestsPerSecond() < 0 || c.ServiceRequestsPerSecond() > 1_000_000, fmt.Sprintf("FANFARE_SERVICE_RATE_LIMIT: %d is not between 0 and 1000000", c.ServiceRequestsPerSecond())},
		{c.UnitsPerHour() != 0 && (c.UnitsPerHour() < 10_000 || c.UnitsPerHour() > 1_000_000_000_000), fmt.Sprintf("FANFARE_USER_UNITS: %d is neither 0 (no limit) nor between 10000 and 1000000000000: one follow may cause 900, and the canary causes some 4500", c.UnitsPerHour())},
		{c.Streams < 1, fmt.Sprintf("FANFARE_STREAMS: %d is below 1", c.Streams)},
		{c.StreamsPerUser < 1, fmt.Sprintf("FANFARE_STREAMS_PER_USER: %d is below 1", c.StreamsPerUser)},
		{c.StreamPoll < time.Second || c.StreamPoll > 5*time.Minute, fmt.Sprintf("FANFARE_STREAM_POLL: %s is not between 1s and 5m", c.StreamPoll)},
		{c.LikesTime() < time.Second || c.LikesTime() > time.Hour, fmt.Sprintf("FANFARE_STREAM_LIKES: %s is not between 1s and 1h", c.LikesTime())},
		{c.DrainTime() < 0 || c.DrainTime() > 5*time.Minute, fmt.Sprintf("FANFARE_DRAIN: %s is not between 0s and 5m", c.DrainTime())},
		{c.DevAuthOnAWS != "" && c.DevAuthOnAWS != "allow", fmt.Sprintf("FANFARE_DEV_AUTH_ON_AWS: %q is not allow", c.DevAuthOnAWS)},
		{c.DevAuthPublic != "" && c.DevAuthPublic != "allow", fmt.Sprintf("FANFARE_DEV_AUTH_PUBLIC: %q is not allow", c.DevAuthPublic)},
		{c.DevSecret != "" && len(c.DevSecret) < 32, fmt.Sprintf("FANFARE_DEV_SECRET has %d bytes, but needs at least 32", len(c.DevSecret))},
		{slices.Contains(c.JWTAudience, ""), "FANFARE_JWT_AUDIENCE: one of its parts is empty, and a token without an audience would fit: remove the comma"},
		{!scopeName(c.ServiceScope), fmt.Sprintf("FANFARE_SERVICE_SCOPE: %q is not the name of a scope: use visible ASCII without spaces, quotes and backslashes", c.ServiceScope)},
		{!scopeName(c.DeleteScope), fmt.Sprintf("FANFARE_DELETE_SCOPE: %q is not the name of a scope: use visible ASCII without spaces, quotes and backslashes", c.DeleteScope)},
		{c.DeleteScope == c.ServiceScope, fmt.Sprintf("FANFARE_DELETE_SCOPE: %q is FANFARE_SERVICE_SCOPE, too: name another scope, which few tokens get", c.DeleteScope)},
		{c.JWKSURL != "" && keysFault(c.JWKSURL) != "", "FANFARE_JWKS_URL: " + keysFault(c.JWKSURL)},
		{c.LogLevel > zapcore.ErrorLevel, fmt.Sprintf("FANFARE_LOG_LEVEL: %q is not debug, info, warn or error", c.LogLevel)},
	} {
		if rule.bad {
			faults = append(faults, rule.fault)
		}
	}
	faults = append(faults, c.checkArchive()...)
	faults = append(faults, c.checkPair()...)
	faults = append(faults, c.checkLists()...)
	if role == API {
		faults = append(faults, c.checkPairing()...)
		faults = append(faults, c.checkAuth()...)
	}
	return faults
}

func (c Config) checkLists() (faults []string) {
	if n := len(c.Reactions); n > mostReactions {
		faults = append(faults, fmt.Sprintf("FANFARE_REACTIONS: %d kinds are more than %d", n, mostReactions))
	}
	for i, kind := range c.Reactions {
		switch {
		case kind == "count":
			faults = append(faults, "FANFARE_REACTIONS: count is the path of the counts: name the kind otherwise")
		case !reaction(kind):
			faults = append(faults, fmt.Sprintf("FANFARE_REACTIONS: %q is not 1 to 12 of a-z 0-9, a letter first", kind))
		case kind == "like" || slices.Contains(c.Reactions[:i], kind):
			faults = append(faults, fmt.Sprintf("FANFARE_REACTIONS: %s is there already: name each kind once, and like never", kind))
		}
	}
	for _, origin := range c.CORSOrigins {
		if fault := originFault(origin); fault != "" {
			faults = append(faults, "FANFARE_CORS_ORIGINS: "+fault)
		}
	}
	for _, name := range c.DevAuthHosts {
		if !hostName(name) {
			faults = append(faults, fmt.Sprintf("FANFARE_DEV_AUTH_HOSTS: %q is not the name of a host such as api.internal: write it without a scheme, port and wildcard", name))
		}
	}
	for _, name := range c.CORSHeaders {
		if !headerName(name) {
			faults = append(faults, fmt.Sprintf("FANFARE_CORS_HEADERS: %q is not the name of a header", name))
		}
		if strings.EqualFold(name, "Fanfare-User") {
			faults = append(faults, "FANFARE_CORS_HEADERS: Fanfare-User goes with the token of a service, which no page may hold: remove it, and call from a backend")
		}
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
	return faults
}

// mostReactions is the maximum number of kinds of reaction, and so bounds the size of a post's like count.
const mostReactions = 16

// reaction reports whether s can be a kind of reaction.
func reaction(s string) bool {
	return s != "" && len(s) <= 12 && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func tableName(s string) bool {
	return len(s) >= 3 && len(s) <= 255 && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-.") == ""
}

func queuePrefix(s string) bool { return len(s) >= 1 && len(s) <= 60 && queueName(s) }

// eventsQueue reports whether s can be the name of the events queue; "" means no queue. The
// name of a FIFO queue, which ends in .fifo, is refused, because the order would slow
// events down for no benefit.
func eventsQueue(s string) bool { return len(s) <= 80 && queueName(s) }

func queueName(s string) bool {
	return strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
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

// scopeName reports whether s can be the name of a scope (RFC 6749, section 3.3).
func scopeName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

// hostName reports whether s can be the name of a host in a URL.
func hostName(s string) bool {
	return s != "" && len(s) <= 253 && !strings.HasPrefix(s, ".") && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// headerName reports whether s can be the name of a header (RFC 9110, section 5.6.2).
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}
