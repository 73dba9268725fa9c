package config

import (
	"net"
	"time"
)

// This file returns settings whose defaults depend on other settings.

// AdminHost returns the host of AdminAddr, "" if AdminAddr listens on all addresses.
func (c Config) AdminHost() string {
	host, _, err := net.SplitHostPort(c.AdminAddr)
	if err != nil { // check refuses such an address
		return ""
	}
	return host
}

// AdminIsPublic reports whether other machines may reach AdminAddr.
func (c Config) AdminIsPublic() bool { return c.AdminAddr != "" && !loopback(c.AdminAddr) }

// RequestsPerSecond returns the rate limit of a user, 0 for no limit.
func (c Config) RequestsPerSecond() int {
	switch {
	case c.RateLimit != nil:
		return *c.RateLimit
	case c.Auth == AuthDev:
		return 0
	default:
		return 100
	}
}

// ServiceRequestsPerSecond returns the rate limit of a service, 0 for no limit.
func (c Config) ServiceRequestsPerSecond() int {
	switch {
	case c.ServiceRateLimit != nil:
		return *c.ServiceRateLimit
	case c.Auth == AuthDev:
		return 0
	default:
		return 1000
	}
}

// UnitsPerHour returns the number of capacity units that one user's calls may cause in an hour, 0 for no limit.
func (c Config) UnitsPerHour() int64 {
	switch {
	case c.UserUnits != nil:
		return *c.UserUnits
	case c.Engine == EngineEmbedded:
		return 0
	default:
		return 1_000_000
	}
}

// HasConsole reports whether the API serves the console.
func (c Config) HasConsole() bool {
	if c.Console != nil {
		return bool(*c.Console)
	}
	return c.Engine == EngineEmbedded
}

// HasNotifications reports whether notifications are kept.
func (c Config) HasNotifications() bool {
	if c.Notifications != nil {
		return bool(*c.Notifications)
	}
	return c.Engine == EngineEmbedded
}

// HasCanary reports whether an API has a canary.
func (c Config) HasCanary() bool { return c.Canary != nil && bool(*c.Canary) }

// HasAuditor reports whether a process has an auditor.
func (c Config) HasAuditor() bool { return c.Auditor != nil && bool(*c.Auditor) }

// FollowersPushed returns the number of followers up to which an author is pushed, 0 for no limit.
func (c Config) FollowersPushed() int64 {
	switch {
	case c.PushLimit != nil:
		return *c.PushLimit
	case c.Engine == EngineEmbedded:
		return 50_000
	default:
		return 0
	}
}

// DrainTime returns the time for which an API continues to serve after a stop.
func (c Config) DrainTime() time.Duration {
	switch {
	case c.Drain != nil:
		return *c.Drain
	case c.Engine == EngineEmbedded:
		return 0
	default:
		return 10 * time.Second
	}
}

// LikesTime returns the time between two looks at the like counts of a live home.
func (c Config) LikesTime() time.Duration {
	switch {
	case c.StreamLikes != nil:
		return *c.StreamLikes
	case c.Engine == EngineEmbedded:
		return 2 * time.Second
	default:
		return time.Minute
	}
}

// ArchiveInterval returns the time between two segments of the archive.
func (c Config) ArchiveInterval() time.Duration { return or(c.ArchiveEvery, time.Second) }

// ArchiveKept returns the time for which the archive keeps each past second.
func (c Config) ArchiveKept() time.Duration { return or(c.ArchiveKeep, 168*time.Hour) }

// BaseLog returns the size in bytes of the log after which the archive gets its next base.
func (c Config) BaseLog() int64 { return int64(or(c.ArchiveBaseLog, 8<<30)) }

// Spool returns the maximum size in bytes of the spool.
func (c Config) Spool() int64 { return int64(or(c.StreamSpool, 4<<30)) }

// or returns the value of a setting, or its default.
func or[T any](set *T, otherwise T) T {
	if set != nil {
		return *set
	}
	return otherwise
}
