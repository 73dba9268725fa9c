package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// kinds are the sections of a version, in their order (Keep a Changelog).
func kinds() []string {
	return []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
}

// fragment is a file with one change that a user notices, in one line after its kind.
type fragment struct{ path, kind, line string }

// readFragments returns the fragments of a directory, by name.
func readFragments(dir string) ([]fragment, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []fragment
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		kind, line, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), ": ")
		if !slices.Contains(kinds(), kind) || !regexp.MustCompile(`^[^\n]*\S\.$`).MatchString(line) {
			return nil, fmt.Errorf("%s: want one line such as \"Added: A thing does so.\", with one of %v", name, kinds())
		}
		all = append(all, fragment{name, kind, line})
	}
	return all, nil
}

const unreleased = "## Unreleased\n"

// joinChanges returns the page with the lines under Unreleased and the fragments below a
// heading for version.
func joinChanges(page string, fragments []fragment, version string, day time.Time) (string, error) {
	head, rest, ok := strings.Cut(page, unreleased)
	if !ok || strings.Contains(page, "\n## "+version+" ") {
		return "", fmt.Errorf("CHANGELOG.md has no Unreleased, or has %s already", version)
	}
	now, older := rest, ""
	if i := strings.Index(rest, "\n## "); i >= 0 {
		now, older = rest[:i], rest[i:]
	}
	order := kinds()
	sections := map[string]string{}
	for i, part := range strings.Split("\n"+now, "\n### ") {
		heading, text, _ := strings.Cut(part, "\n")
		text = strings.Trim(text, "\n")
		if i == 0 && text != "" {
			return "", errors.New("CHANGELOG.md has lines under Unreleased without a heading such as ### Added")
		}
		if i > 0 && text != "" {
			sections[heading] = text + "\n"
			if !slices.Contains(order, heading) {
				order = append(order, heading)
			}
		}
	}
	for _, f := range fragments {
		sections[f.kind] += "- " + f.line + "\n"
	}
	if len(sections) == 0 {
		return "", errors.New("neither CHANGELOG.md nor changes/ has a change")
	}
	var parts []string
	for _, kind := range order {
		if text := sections[kind]; text != "" {
			parts = append(parts, "### "+kind+"\n"+text)
		}
	}
	return fmt.Sprintf("%s%s\n## %s - %s\n%s%s", head, unreleased, version, day.UTC().Format(time.DateOnly), strings.Join(parts, "\n"), older), nil
}
