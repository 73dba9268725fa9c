//go:build e2e || upgrade

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// formerRelease returns the newest release before the tree of a clone, or "" if there is none. The
// changelog lists the releases, and each release has a tag. If a clone lacks the tag, formerRelease
// fetches it from the origin.
func formerRelease(clone string) (version string, err error) {
	page, err := os.ReadFile(filepath.Join(clone, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	git := func(args ...string) (string, error) {
		c := exec.Command("git", args...)
		c.Dir = clone
		out, err := c.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out)), err
	}
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	for i, release := range regexp.MustCompile(`(?m)^## (v\d+\.\d+\.\d+) - `).FindAllStringSubmatch(string(page), -1) {
		version := release[1]
		commit, missing := git("rev-parse", "--verify", version+"^{commit}")
		if missing != nil {
			_, unfetched := git("fetch", "--quiet", "--depth=1", "origin", "tag", version)
			commit, missing = git("rev-parse", "--verify", version+"^{commit}")
			missing = errors.Join(missing, unfetched)
		}
		switch {
		case missing != nil && i == 0: // the release is in preparation: its tag follows its commit
		case missing != nil:
			return "", fmt.Errorf("this clone has no tag %s: git fetch --tags: %w", version, missing)
		case commit != head:
			return version, nil
		}
	}
	return "", nil
}

// TestTheFormerReleaseIsTheNewestTagBelowTheTree makes two releases in a new repository.
func TestTheFormerReleaseIsTheNewestTagBelowTheTree(t *testing.T) {
	t.Parallel()
	clone := t.TempDir()
	run := func(dir string, command string) {
		c := exec.CommandContext(t.Context(), "bash", "-euc", command)
		c.Dir, c.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
	}
	commit := func(page string) {
		require.NoError(t, os.WriteFile(filepath.Join(clone, "CHANGELOG.md"), []byte("# Changelog\n"+page), 0o600))
		run(clone, "git add . && git -c user.name=a -c user.email=a@example.org commit -qm c --allow-empty")
	}
	former := func(dir string) string {
		version, err := formerRelease(dir)
		require.NoError(t, err)
		return version
	}
	const first, second = "\n## v0.1.0 - 2026-12-01\n", "\n## v0.2.0 - 2027-01-01\n"
	run(clone, "git init -q -b main")
	commit("")
	assert.Empty(t, former(clone), "there is no release")
	commit(first)
	assert.Empty(t, former(clone), "the first release is being made")
	run(clone, "git tag v0.1.0")
	assert.Empty(t, former(clone), "the tree is the first release")
	commit(first)
	assert.Equal(t, "v0.1.0", former(clone))
	commit(second + first)
	assert.Equal(t, "v0.1.0", former(clone), "the second release is being made")
	run(clone, "git tag v0.2.0")
	assert.Equal(t, "v0.1.0", former(clone), "the tree is the second release")
	commit(second + first)
	assert.Equal(t, "v0.2.0", former(clone))

	shallow := filepath.Join(t.TempDir(), "shallow")
	run(clone, `git clone -q --depth 1 --no-tags "file://$PWD" `+shallow)
	assert.Equal(t, "v0.2.0", former(shallow), "its origin has the tag")
	run(shallow, "git archive --output=/dev/null v0.2.0 CHANGELOG.md")
	run(shallow, "git tag -d v0.2.0 >/dev/null && git remote remove origin")
	_, err := formerRelease(shallow)
	assert.ErrorContains(t, err, "v0.1.0")
}
