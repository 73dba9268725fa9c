package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The patterns of values that platforms set.
const (
	anIP   = `(?:[0-9]+(?:\.[0-9]+){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*)`
	aPort  = `[0-9]{1,5}`
	anAddr = `(?:[0-9.]+|\[[0-9a-fA-F:.]+\]):` + aPort
)

// platformLinks returns patterns for the variables that Kubernetes sets for a Service whose name
// begins with fanfare (enableServiceLinks), and that Docker sets for a legacy link with such an alias.
// A pattern matches a name together with its value: FANFARE_API_PORT=8080 is a person's mistake.
func platformLinks() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, form := range []string{
		`_SERVICE_HOST=` + anIP,
		`_SERVICE_PORT(?:_[A-Z0-9_]+)?=` + aPort,
		`_PORT=(?:tcp|udp|sctp)://` + anAddr,
		`_PORT_[0-9]+_TCP(?:_START|_END)?=tcp://` + anAddr,
		`_PORT_[0-9]+_UDP(?:_START|_END)?=udp://` + anAddr,
		`_PORT_[0-9]+_SCTP(?:_START|_END)?=sctp://` + anAddr,
		`_PORT_[0-9]+_(?:TCP_PROTO=tcp|UDP_PROTO=udp|SCTP_PROTO=sctp)`,
		`_PORT_[0-9]+_(?:TCP|UDP|SCTP)_PORT(?:_START|_END)?=` + aPort,
		`_PORT_[0-9]+_(?:TCP|UDP|SCTP)_ADDR=` + anIP,
	} {
		all = append(all, regexp.MustCompile(`^FANFARE(?:_[A-Z0-9_]+)?`+form+`$`))
	}
	return all
}

// dockerName returns a pattern for the variable with the name of a legacy link of Docker.
// The pattern captures the alias of the link.
func dockerName() *regexp.Regexp {
	return regexp.MustCompile(`^(FANFARE(?:_[A-Z0-9_]+)?)_NAME=/[^/]+/[^/]+$`)
}

// FromPlatform returns the names in environ, sorted, that a platform has set and that have
// the prefix of Fanfare's settings by chance. Load ignores these names: the person who
// deploys Fanfare did not choose them, and they change with every Service of the namespace.
func FromPlatform(environ []string) []string {
	links, docker := platformLinks(), dockerName()
	found := map[string]bool{}
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); slices.ContainsFunc(links, func(l *regexp.Regexp) bool { return l.MatchString(entry) }) {
			found[name] = true
		}
		alias := docker.FindStringSubmatch(entry)
		if alias == nil {
			continue
		}
		found[alias[1]+"_NAME"] = true
		// A link of Docker copies the other container's environment, with any values. So a copied
		// variable is ignored only if the variable with the link's name is present:
		// FANFARE_ENV_ENGINE alone is a typing error.
		for _, copied := range environ {
			if name, _, _ := strings.Cut(copied, "="); strings.HasPrefix(name, alias[1]+"_ENV_") {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
