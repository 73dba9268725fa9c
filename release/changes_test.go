package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrongUseIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"build"}, {"build", "0.2.0"}, {"build", "v0.2"}, {"build", "v1.2.3+x"}, {"publish", "v0.2.0"}} {
		require.Error(t, run(t.Context(), append([]string{"-out", t.TempDir()}, args...)), args)
	}
	_, _, err := source(t.Context(), t.TempDir()) // the folder has no git repository
	require.ErrorContains(t, err, "SOURCE_DATE_EPOCH")
}

// Each fragment of this tree can be read, because the next release joins the fragments.
func TestEachFragmentOfTheTreeIsValid(t *testing.T) {
	fragments, err := readFragments("../changes")
	require.NoError(t, err)
	joined, err := joinChanges("# Changelog\n\n## v0.1.0 - 2026-01-01\n", append(fragments, fragment{kind: "Fixed", line: "A fault."}), "v0.2.0", time.Now())
	require.NoError(t, err)
	for _, f := range fragments {
		assert.Contains(t, joined, "\n- "+f.line+"\n")
	}
}

func TestAFragmentIsOneLineOfAKind(t *testing.T) {
	for text, valid := range map[string]bool{
		"Added: A thing.\n": true, "Security: `x` is gone.": true, "Added: A thing\n": false, "Added A thing.\n": false, "News: A thing.\n": false,
		"Added: One.\nTwo.\n": false, "": false, "Added: \n": false, "- Added: A thing.\n": false,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600))
		_, err := readFragments(dir)
		assert.Equal(t, valid, err == nil, "%q: %v", text, err)
	}
}

func TestFragmentsAreJoinedBelowTheVersion(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	const readme = "VERSION=%s PLATFORM=linux_amd64\nfanfare:%s fanfare-%s.tgz\n"
	write("docs/INSTALL.md", fmt.Sprintf(readme, "v0.1.0", "v0.1.0", "0.1.0"))
	write("CHANGELOG.md", "# Changelog\nFor people.\n")
	write("changes/README.md", "How.\n")
	join := func(version string) (page string) {
		require.NoError(t, run(t.Context(), []string{"-root", root, "changes", version}))
		text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
		require.NoError(t, err)
		left, err := filepath.Glob(filepath.Join(root, "changes", "*"))
		require.NoError(t, err)
		assert.Equal(t, []string{filepath.Join(root, "changes", "README.md")}, left)
		return regexp.MustCompile(`( - )\d{4}-\d\d-\d\d`).ReplaceAllString(string(text), "${1}DAY")
	}
	write("changes/a.txt", "Fixed: Nobody had this.\n")
	require.Error(t, run(t.Context(), []string{"-root", root, "changes", "v0.1.0"}), "the first version fixes nothing")
	write("changes/b.txt", "Added: All.\n")
	assert.Equal(t, "# Changelog\nFor people.\n\n## v0.1.0 - DAY\n### Added\n- All.\n", join("v0.1.0"))

	write("changes/b.txt", "Fixed: Two.\n")
	write("changes/a.txt", "Fixed: One.\n")
	write("changes/c.txt", "Added: Three.\n")
	want := "# Changelog\nFor people.\n\n## v0.2.0 - DAY\n### Added\n- Three.\n\n### Fixed\n- One.\n- Two.\n\n## v0.1.0 - DAY\n### Added\n- All.\n"
	assert.Equal(t, want, join("v0.2.0"))
	text, err := os.ReadFile(filepath.Join(root, "docs", "INSTALL.md"))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf(readme, "v0.2.0", "v0.2.0", "0.2.0"), string(text))
	require.Error(t, run(t.Context(), []string{"-root", root, "changes", "v0.3.0"}), "nothing changed")
	write("changes/a.txt", "Fixed: Four.\n")
	require.Error(t, run(t.Context(), []string{"-root", root, "changes", "v0.2.0"}), "it is there already")
}
