// Package docs holds that the pages beside it speak of what exists.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryTestThatIsNamedExists(t *testing.T) {
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("INVARIANTS.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 50 {
		t.Fatalf("the page names %d tests only", len(named))
	}
	for _, m := range named {
		if !declared[string(m[1])] {
			t.Errorf("INVARIANTS.md names %s, which is no test", m[1])
		}
	}
}

func TestLinksBetweenPagesLead(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(append(pages, decisions...), "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// Code names a page by its path from the root or from docs, or beside its own file.
func TestEveryPageThatCodeNamesExists(t *testing.T) {
	named := regexp.MustCompile(`[\w./-]+\.md\b`)
	pages := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, page := range named.FindAll(text, -1) {
			pages++
			if !slices.ContainsFunc([]string{"..", ".", filepath.Dir(path)}, func(dir string) bool {
				_, err := os.Stat(filepath.Join(dir, string(page)))
				return err == nil
			}) {
				t.Errorf("%s names %s, which is no page", path, page)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 20 {
		t.Fatalf("code names %d pages only", pages)
	}
}

// The folder table of ARCHITECTURE.md has each folder, and each of internal.
func TestEveryFolderIsInTheArchitecture(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile("../.gitignore")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string // the first cells
	for line := range strings.Lines(string(page)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			rows = append(rows, cell)
		}
	}
	table, folders := strings.Join(rows, "\n"), 0
	for _, parent := range []string{"..", "../internal"} {
		entries, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := e.Name()
			if !e.IsDir() || name == "internal" || strings.HasPrefix(name, ".") || strings.Contains(string(ignored), "/"+name+"/") {
				continue
			}
			folders++
			known := strings.Contains(table, "`"+name+"/")
			if parent != ".." {
				known = strings.Contains(table, "`internal/"+name+"`") || strings.Contains(table, ", `"+name+"`")
			}
			if !known {
				t.Errorf("ARCHITECTURE.md has no row for %s/%s", parent, name)
			}
		}
	}
	if folders < 20 {
		t.Errorf("there are %d folders only", folders)
	}
}
