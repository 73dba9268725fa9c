package config

import (
	"errors"
	"slices"
	"strings"
)

// LoadEmbedded reads the settings of a Fanfare inside another program, by their names, for the role API or Site.
// fanfare up has the same settings with the same rules, except that the program writes the log. With Site the program
// identifies the callers, so the settings of tokens are faults.
func LoadEmbedded(settings map[string]string, role Role) (Config, error) {
	var environ, faults []string
	for name, value := range settings {
		if fault := notEmbedded(name, value, role); fault != "" {
			faults = append(faults, fault)
			continue
		}
		environ = append(environ, name+"="+value)
	}
	if role == Site {
		environ = append(environ, "FANFARE_AUTH="+string(AuthJWT)) // Site does not have the defaults of dev tokens
	}
	c, err := Load(environ, role)
	if role == Site {
		c.Auth = AuthSite
	}
	if known, ok := errors.AsType[*Error](err); ok {
		faults = append(faults, known.Faults...)
	}
	if len(faults) > 0 {
		slices.Sort(faults)
		return c, &Error{faults}
	}
	return c, nil
}

// notEmbedded returns the fault of a setting that no embedded Fanfare has, "" for none.
func notEmbedded(name, value string, role Role) string {
	i := slices.IndexFunc(fields(), func(f Field) bool { return f.Name == name })
	switch {
	case i < 0 && !strings.HasPrefix(name, prefix): // Load reads environments, which have many other names
		return unknown(name, Names())
	case i < 0 || value == "":
		return ""
	case name == "FANFARE_ENGINE" && value != string(EngineEmbedded):
		return name + ": a Fanfare inside a program has the embedded engine: remove it"
	case name == "FANFARE_LOG_LEVEL":
		return name + ": the program writes the log: set the level of its own logger"
	case !slices.Contains(fields()[i].By, "up") && !slices.Contains(fields()[i].By, "all"):
		return name + ": it is of " + strings.Join(fields()[i].By, ", ") + ": remove it"
	case role == Site && ofTokens(fields()[i]):
		return name + ": the program identifies the callers, in place of tokens: remove it"
	}
	return ""
}

// ofTokens reports whether a setting is about tokens.
func ofTokens(f Field) bool {
	return strings.HasPrefix(f.Needs, "FANFARE_AUTH=") || slices.Contains([]string{"FANFARE_AUTH", "FANFARE_JWT_USER_CLAIM", "FANFARE_SERVICE_SCOPE"}, f.Name)
}
