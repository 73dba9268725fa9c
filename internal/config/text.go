package config

import (
	"fmt"
	"strings"
	"unicode"
)

// TextFault returns the fault of a text with blanks or control characters that a platform, and not a
// person, has added; "" means no fault. The fault quotes nothing, because the text may be a secret.
//
// Files of secrets, .env files and YAML blocks end in a newline. A text with a newline
// names another directory or another queue, but looks right.
func TextFault(text string) string {
	outside := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	inner := strings.TrimFunc(text, outside)
	for _, rest := range []struct{ found, where string }{
		{strings.TrimPrefix(text, strings.TrimRightFunc(text, outside)), "ends in"}, {strings.TrimSuffix(text, strings.TrimLeftFunc(text, outside)), "begins with"},
	} {
		for _, r := range rest.found {
			return fmt.Sprintf("it %s %s: remove it", rest.where, named(r))
		}
	}
	for _, r := range inner {
		if unicode.IsControl(r) {
			return fmt.Sprintf("it has %s inside: remove it", named(r))
		}
	}
	return ""
}

// named returns the name of an invisible character.
func named(r rune) string {
	switch r {
	case '\n':
		return "a newline"
	case ' ':
		return "a blank"
	case '\t':
		return "a tab"
	case '\r':
		return "a carriage return"
	}
	return fmt.Sprintf("the character %U", r)
}

// removeUnclean removes the values that have a TextFault, and returns the faults. The parts of
// a list are trimmed later, so blanks around a part are no fault.
func removeUnclean(vars map[string]string) (faults []string) {
	for _, f := range fields() {
		name, parts := f.Name, []string{vars[f.Name]}
		if f.Kind == "list" {
			parts = list(vars[name])
		}
		for _, part := range parts {
			if fault := TextFault(part); fault != "" {
				faults = append(faults, name+": "+fault)
				delete(vars, name)
				break
			}
		}
	}
	return faults
}

// uncleanAWS returns the faults of the variables that the AWS SDK reads. A newline in such a
// variable makes every call fail as if AWS were unreachable.
func uncleanAWS(environ []string) (faults []string) {
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			if fault := TextFault(value); fault != "" {
				faults = append(faults, name+": "+fault)
			}
		}
	}
	return faults
}
