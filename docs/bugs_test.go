package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BUGS.md has few rows. Each row names a commit of the history, and a test of the package in the row.
func TestEachRowOfTheRecordOfBugsHasItsCommitAndItsTest(t *testing.T) {
	text, err := os.ReadFile("BUGS.md")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(strings.Fields(string(text))), 1600)
	_, rows, ok := strings.Cut(string(text), "\n|---|---|---|---|\n")
	require.True(t, ok)
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	assert.GreaterOrEqual(t, len(lines), 30)
	assert.LessOrEqual(t, len(lines), 40)
	known := history(t)
	row := regexp.MustCompile("^\\| [^|]+ \\| ([0-9a-f]{7}) \\| [^|]+ \\| ([\\w/]+) `((?:Test|Fuzz)\\w+)` \\|$")
	for _, line := range lines {
		m := row.FindStringSubmatch(line)
		if !assert.NotNilf(t, m, "no row: %s", line) {
			continue
		}
		assert.Truef(t, known(m[1]), "no commit %s: %s", m[1], line)
		assert.Truef(t, declares(t, filepath.Join("..", m[2]), m[3]), "package %s has no test %s", m[2], m[3])
	}
}

// history returns a function that reports whether a commit is an ancestor of HEAD. A shallow clone lacks
// the history, so there the function accepts each commit.
func history(t *testing.T) func(commit string) bool {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", ".."}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	return func(commit string) bool {
		if err != nil || shallow != "false" {
			return true
		}
		_, err := git("merge-base", "--is-ancestor", commit, "HEAD")
		return err == nil
	}
}

// declares reports whether the tests of a package declare a test.
func declares(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
