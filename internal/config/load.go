package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// prefix begins the name of every setting of Fanfare.
const prefix = "FANFARE_"

// Names returns the names of all variables in sorted order.
func Names() (names []string) {
	for _, f := range fields() {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// Removed is a former setting, and the rule that replaced it.
type Removed struct{ Name, Now string }

// AllRemoved returns the former settings.
func AllRemoved() []Removed {
	return []Removed{
		{"FANFARE_ALONE", "the register lets a primary answer without its standby"},
		{"FANFARE_ARCHIVE_BASE_LOG", "a base follows 8GiB of log"},
		{"FANFARE_DELETE_SCOPE", "the scope is FANFARE_SERVICE_SCOPE with delete in place of the part after the last : or /"},
		{"FANFARE_FAILOVER", "the standby takes over by itself after FANFARE_FAILOVER_AFTER"},
		{"FANFARE_LEASE", "the lease is three fifths of FANFARE_FAILOVER_AFTER, 3s at most"},
		{"FANFARE_NOTIFY_WINDOW", "the window is twice FANFARE_LIKE_WINDOW, 1m at most"},
		{"FANFARE_SEED_RATE", "a seed takes 50MiB a second"},
		{"FANFARE_SERVICE_RATE_LIMIT", "a service has ten times FANFARE_RATE_LIMIT"},
		{"FANFARE_STANDBY_TIMEOUT", "a write waits for two fifths of FANFARE_FAILOVER_AFTER, 2s at most"},
		{"FANFARE_STREAM_LIKES", "live homes look at like counts every 2s, on aws every 1m"},
		{"FANFARE_STREAM_POLL", "live homes look for missed posts every 1m"},
	}
}

// Load reads environ (as os.Environ returns it) for a role. An error of Load is an *Error, and
// then the configuration has all values that could be read, for a command that only shows them.
func Load(environ []string, role Role) (Config, error) {
	vars, faults := known(environ)
	faults = append(faults, removeUnclean(vars)...)
	c, bad := parse(vars)
	faults = append(faults, bad...)
	faults = append(faults, c.check(role)...)
	if c.Engine == EngineAWS || c.EventsQueue != "" || strings.HasPrefix(c.Archive, "s3:") || strings.HasPrefix(c.Register, "s3:") {
		faults = append(faults, uncleanAWS(environ)...)
	}
	if len(faults) > 0 {
		slices.Sort(faults)
		return c, &Error{faults}
	}
	return c, nil
}

// known returns the settings in environ, and the faults of names that are no settings.
func known(environ []string) (vars map[string]string, faults []string) {
	vars = map[string]string{}
	names, foreign, removed := Names(), FromPlatform(environ), AllRemoved()
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		former := slices.IndexFunc(removed, func(r Removed) bool { return r.Name == name })
		switch {
		case !strings.HasPrefix(name, prefix) || slices.Contains(foreign, name):
		case former >= 0:
			faults = append(faults, name+" is no setting any more: remove it, because "+removed[former].Now)
		case !slices.Contains(names, name):
			faults = append(faults, unknown(name, names))
		case value != "":
			vars[name] = value
		}
	}
	return vars, faults
}

// parse reads vars. A value of a wrong type is a fault, and counts as absent, so that check finds all other faults.
func parse(vars map[string]string) (c Config, faults []string) {
	isSet, values := map[string]bool{}, map[string]string{}
	for name := range vars {
		isSet[name] = true
	}
	c.Engine, c.Auth = Engine(vars["FANFARE_ENGINE"]), Auth(vars["FANFARE_AUTH"])
	for _, f := range fields() {
		values[f.Name] = cmp.Or(vars[f.Name], f.otherwise(c))
		c.Engine, c.Auth = cmp.Or(c.Engine, Engine(values["FANFARE_ENGINE"])), cmp.Or(c.Auth, Auth(values["FANFARE_AUTH"]))
	}
	for name := range c.read(values) {
		f := fieldOf(name)
		faults = append(faults, fmt.Sprintf("%s: %q is not %s", name, values[name], f.expected(values[name])))
		isSet[name], values[name] = false, f.otherwise(c)
	}
	if len(faults) > 0 {
		c.read(values) // a test checks that each default is a value
	}
	c.set = isSet
	c.Lease, c.StandbyTimeout = min(3*time.Second, c.FailoverAfter*3/5), min(2*time.Second, c.FailoverAfter*2/5)
	return c, faults
}

// read sets the fields that values names, and returns the names of the values of a wrong type.
func (c *Config) read(values map[string]string) (wrong map[string]bool) {
	err := env.ParseWithOptions(c, env.Options{Environment: values, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[[]string](): func(text string) (any, error) { return list(text), nil },
	}})
	wrong = map[string]bool{}
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		for _, e := range all.Errors {
			if fault, ok := errors.AsType[env.ParseError](e); ok { // the fault has only the name of the field
				wrong[fields()[slices.IndexFunc(fields(), func(f Field) bool { return f.In == fault.Name })].Name] = true
			}
		}
	}
	return wrong
}

// ForUp gives the settings that the environment does not set the defaults of fanfare up.
func (c *Config) ForUp() {
	values := map[string]string{}
	for _, f := range fields() {
		if f.Up != "" && !c.set[f.Name] {
			values[f.Name] = f.Up
		}
	}
	c.read(values) // a test checks that each default is a value
}

// unknown returns the fault of an unknown name, and suggests the most similar name.
func unknown(name string, names []string) string {
	if best := Nearest(name, names, 3); best != "" {
		return fmt.Sprintf("%s is unknown: did you mean %s?", name, best)
	}
	return name + " is unknown: remove it"
}
