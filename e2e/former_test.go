//go:build upgrade

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// former builds the programs of the former release, once, and returns their directory.
var former = sync.OnceValues(buildFormer)

// buildFormer builds the tree of the commit that testdata/former names. It needs no tag. In a
// shallow clone, which has no such commit, git gets it from where the clone came from.
func buildFormer() (dir string, err error) {
	named, err := os.ReadFile("testdata/former")
	if err != nil {
		return "", err
	}
	version, commit, _ := strings.Cut(strings.TrimSpace(string(named)), " ")
	dir = filepath.Join(binaries, version)
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return "", err
	}
	run := func(in, name string, args ...string) error {
		c := exec.CommandContext(context.Background(), name, args...)
		c.Dir, c.Env = in, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
		}
		return nil
	}
	archive := filepath.Join(dir, "tree.tar")
	pack := func() error {
		return run("..", "git", "archive", "--output="+archive, commit, "go.mod", "go.sum", "cmd", "client", "internal", "messages")
	}
	if err := pack(); err != nil {
		if fetched := run("..", "git", "fetch", "--quiet", "--depth=1", "origin", commit); fetched != nil {
			return "", fmt.Errorf("this clone has no %s: git fetch --unshallow: %w", version, errors.Join(err, fetched))
		}
		if err := pack(); err != nil {
			return "", err
		}
	}
	if err := run(tree, "tar", "-xf", archive); err != nil {
		return "", err
	}
	// With -trimpath the cache has the packages of the last build, from another folder.
	return dir, run(tree, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-w", "-o", dir+"/", "./cmd/...")
}

// ofFormer returns a program of the former release.
func ofFormer(t *testing.T, name string) string {
	t.Helper()
	dir, err := former()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// The commit of testdata/former is the one that was released, in a clone that has its tag.
func TestTheFormerReleaseIsItsTag(t *testing.T) {
	t.Parallel()
	named, err := os.ReadFile("testdata/former")
	require.NoError(t, err)
	version, commit, _ := strings.Cut(strings.TrimSpace(string(named)), " ")
	require.Regexp(t, `^v\d+\.\d+\.\d+ [0-9a-f]{40}$`, version+" "+commit)
	if tag, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--verify", "--quiet", version+"^{commit}").Output(); err == nil {
		assert.Equal(t, commit, strings.TrimSpace(string(tag)))
	}
}

// TestUpChangesItsVersionUnderLoad runs the former and this version of `fanfare up` by turns
// on one data directory, and kills each in the middle of a replay.
func TestUpChangesItsVersionUnderLoad(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	programs := []string{ofFormer(t, "fanfare"), "fanfare"}
	up := func(program string) *process {
		p := start(t, u.env, program, "up", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
		p.ready(t, u.admin)
		return p
	}
	p := up(programs[0])
	journal := filepath.Join(t.TempDir(), "journal")
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "200", "--likes", "1000",
		"--rate", "300", "--journal", journal)...)
	for i := range 4 { // new, old, new, old, and then new
		player.plays(t, journal, 600+i*900+rand.IntN(200))
		p.kill(t)
		p = up(programs[(i+1)%2])
	}
	player.ends(t)
	p.stop(t)
	p = up(programs[1])
	stdout, stderr, err := fanfare(t, u.env, u.replay("--check", journal)...)
	verdict(t, stdout, stderr, err)
	p.stop(t)
}
