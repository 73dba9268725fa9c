package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachThreatHasItsTests(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	require.NoError(t, err)
	_, threats, ok := strings.Cut(string(page), "| threat | answer | tests |\n|---|---|---|\n")
	require.True(t, ok, "SECURITY.md has no table of threats")
	table, _, _ := strings.Cut(threats, "\n\n")
	rows := 0
	for row := range strings.Lines(table) {
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		require.Lenf(t, cells, 3, "%s", row)
		named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(cells[2], -1)
		assert.NotEmptyf(t, named, "no test of the threat: %s", cells[0])
	}
	assert.GreaterOrEqual(t, rows, 15)
}

// declaredTests returns the names of all tests of the repository.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
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
	require.NoError(t, err)
	return declared
}

// The files that the pages for people name exist, so that a contributor finds them.
func TestPagesForPeopleNameFilesThatExist(t *testing.T) {
	files := 0
	for _, name := range []string{"CONTRIBUTING.md", "GETTING_STARTED.md", "PRODUCERS.md", "SECURITY.md"} {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`([\\w./-]+/[\\w.-]+\\.go)`").FindAllStringSubmatch(string(page), -1) {
			files++
			_, err := os.Stat(filepath.Join("..", m[1]))
			assert.NoErrorf(t, err, "%s names %s", name, m[1])
		}
	}
	assert.GreaterOrEqual(t, files, 15, "files that were named")
}

func TestEachPageIsInTheIndex(t *testing.T) {
	index, err := os.ReadFile("README.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range pages {
		if page != "README.md" {
			assert.Containsf(t, string(index), "("+page+")", "docs/README.md does not list %s", page)
		}
	}
}
