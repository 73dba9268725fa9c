// Package docs checks that the pages in its folder describe existing things.
package docs

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/messages"
)

// Pages, scripts and comments name tests. They use the full name, or the beginning of the name after -run
// or before an ellipsis.
func TestEveryTestThatIsNamedExists(t *testing.T) {
	declared, named := declaredTests(t), map[string]int{}
	name := regexp.MustCompile(`(-run '?\^?)?\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)(…)?`)
	comment := regexp.MustCompile(`(?m)//.*$`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		kind := filepath.Ext(path)
		if entry != nil && entry.IsDir() && (entry.Name() == "bin" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." && entry.Name() != ".github") {
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".go", ".yml", ".yaml", ".sh", ".txt", ".tla"}, kind) && entry.Name() != "Makefile" {
			return err
		}
		text, err := os.ReadFile(path)
		if kind == ".go" {
			text = bytes.Join(comment.FindAll(text, -1), []byte("\n"))
		}
		for _, m := range name.FindAllSubmatch(text, -1) {
			named[kind]++
			test := string(m[2])
			begins := func(full string) bool { return strings.HasPrefix(full, test) }
			part := len(m[1])+len(m[3]) > 0
			assert.Truef(t, declared[test] || part && slices.ContainsFunc(slices.Collect(maps.Keys(declared)), begins), "%s names %s, which is no test", path, test)
		}
		return err
	})
	require.NoError(t, err)
	require.GreaterOrEqualf(t, named[".md"], 300, "pages name tests: %v", named)
	require.GreaterOrEqualf(t, named[".go"], 50, "comments name tests: %v", named)
}

// OPERATIONS.md has exactly one row for each reason of a dead letter.
func TestEachReasonOfADeadLetterHasItsRow(t *testing.T) {
	page, err := os.ReadFile("OPERATIONS.md")
	require.NoError(t, err)
	_, rows, ok := strings.Cut(string(page), "\n| reason | cause | mend |\n|---|---|---|\n")
	require.True(t, ok)
	rows, _, _ = strings.Cut(rows, "\n\n")
	var described []messages.Reason
	for row := range strings.Lines(rows) {
		described = append(described, messages.Reason(strings.Split(row, "`")[1]))
	}
	assert.Equal(t, messages.Reasons(), described)
}

// A merge that keeps both versions of a row leaves two rows that contradict each other.
func TestNoRowStandsTwice(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	// A label in bold identifies its row. Any other row is identified by its whole text.
	label := regexp.MustCompile(`^\| (\*\*[^*]+\*\*) \||^- (\*\*[^*]+\*\*):`)
	for _, page := range append(pages, "../CHANGELOG.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		seen := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			row := label.FindString(line)
			if row == "" && len(line) > 80 && strings.HasPrefix(line, "| ") {
				row = line
			}
			assert.Falsef(t, row != "" && seen[row], "%s has two rows: %s", page, row)
			seen[row] = true
		}
	}
}

func TestLinksBetweenPagesLead(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	decisions, err := filepath.Glob("decisions/*.md")
	require.NoError(t, err)
	for _, page := range append(append(pages, decisions...), "../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// Code names a page by a path from the root, from docs, or from the folder of the code's file.
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
			assert.Truef(t, slices.ContainsFunc([]string{"..", ".", filepath.Dir(path)}, func(dir string) bool {
				_, err := os.Stat(filepath.Join(dir, string(page)))
				return err == nil
			}), "%s names %s, which is no page", path, page)
		}
		return err
	})
	require.NoError(t, err)
	require.GreaterOrEqualf(t, pages, 20, "code names %d pages only", pages)
}

// The folder table of ARCHITECTURE.md has each folder of the root, of internal and of internal/ops.
func TestEveryFolderIsInTheArchitecture(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	ignored, err := os.ReadFile("../.gitignore")
	require.NoError(t, err)
	var rows []string // the first cells of the rows
	for line := range strings.Lines(string(page)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			rows = append(rows, cell)
		}
	}
	table, folders := strings.Join(rows, "\n"), 0
	for _, parent := range []string{"..", "../internal", "../internal/ops"} {
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		for _, e := range entries {
			name := e.Name()
			if !e.IsDir() || name == "internal" || name == "ops" || strings.HasPrefix(name, ".") || strings.Contains(string(ignored), "/"+name+"/") {
				continue
			}
			folders++
			known := strings.Contains(table, "`"+name+"/")
			if parent != ".." {
				known = strings.Contains(table, "`"+strings.TrimPrefix(parent, "../")+"/"+name+"`") || strings.Contains(table, ", `"+name+"`")
			}
			assert.Truef(t, known, "ARCHITECTURE.md has no row for %s/%s", parent, name)
		}
	}
	assert.GreaterOrEqualf(t, folders, 20, "there are %d folders only", folders)
}
