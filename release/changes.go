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

// kinds returns the names of the sections of a version, in the order of the page (Keep a Changelog).
func kinds() []string {
	return []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
}

// fragment is a file with one change that users notice. The file has one line: the kind, and then the
// change.
type fragment struct{ path, kind, line string }

// readFragments returns the fragments of a directory, sorted by file name.
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

// joinChanges adds the fragments to the page, below a heading for version and above the earlier versions.
// Before the first version there were no users, so the first version lists no changes.
func joinChanges(page string, fragments []fragment, version string, day time.Time) (string, error) {
	head, older := page, ""
	shown := []string{"Added", "Security"}
	if i := strings.Index(page, "\n## "); i >= 0 {
		head, older, shown = page[:i], page[i:], kinds()
	}
	if strings.Contains(older, "\n## "+version+" ") {
		return "", fmt.Errorf("CHANGELOG.md has %s already", version)
	}
	sections := map[string]string{}
	for _, f := range fragments {
		sections[f.kind] += "- " + f.line + "\n"
	}
	var parts []string
	for _, kind := range shown {
		if text := sections[kind]; text != "" {
			parts = append(parts, "### "+kind+"\n"+text)
		}
	}
	if len(parts) == 0 {
		return "", errors.New("changes/ has no change for this version")
	}
	return fmt.Sprintf("%s\n## %s - %s\n%s%s", head, version, day.UTC().Format(time.DateOnly), strings.Join(parts, "\n"), older), nil
}
