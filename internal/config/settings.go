package config

import (
	"cmp"
	"net"
	"slices"
	"strings"
	"time"
)

// Setting is a setting as an operator reads it.
type Setting struct{ Name, Value string }

// Settings returns the settings that have a value, defaults included, in the order of Config. The value
// of a secret is not returned.
func (c Config) Settings() (settings []Setting) {
	for _, f := range fields() {
		switch text := f.text(c); {
		case text != "" && f.Secret:
			settings = append(settings, Setting{f.Name, "set"})
		case text != "":
			settings = append(settings, Setting{f.Name, text})
		}
	}
	return settings
}

// Shared returns the settings of a role that all daemons of a deployment must share, by variable. If
// daemons differ, one daemon waits for messages, counts or index entries that no other daemon makes.
func (c Config) Shared(role string) map[string]string {
	shared := map[string]string{}
	for _, f := range fields() {
		if slices.Contains(f.Shared, role) {
			shared[f.Name] = cmp.Or(f.text(c), "none")
		}
	}
	return shared
}

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

// NotifyWindow returns the time for which events about one notification are collected before the notification is
// written. People read notifications later than counts, and each window costs units.
func (c Config) NotifyWindow() time.Duration { return min(2*c.LikeWindow, time.Minute) }

// ServiceRateLimit returns the maximum number of requests of a service in a second, for all its users; 0 is no limit.
func (c Config) ServiceRateLimit() int { return 10 * c.RateLimit }

// DeleteScope returns the scope that a service also needs to delete a user: ServiceScope with delete in place of the
// last part. A scope without parts gets one more.
func (c Config) DeleteScope() string {
	if last := strings.LastIndexAny(c.ServiceScope, ":/"); last >= 0 {
		return c.ServiceScope[:last+1] + "delete"
	}
	return c.ServiceScope + ":delete"
}
