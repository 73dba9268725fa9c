//go:build upgrade

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// formerFile names the former release: its version and its commit. Before the first release
// it does not exist.
const formerFile = "testdata/former"

// former builds the programs of the former release, once, and returns their directory.
var former = sync.OnceValues(buildFormer)

// buildFormer builds the tree of the commit that formerFile names. It needs no tag. In a
// shallow clone, which has no such commit, git gets it from where the clone came from. Without
// a former release it builds this tree a second time.
func buildFormer() (dir string, err error) {
	named, err := os.ReadFile(formerFile)
	if errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Join(binaries, "again")
		return dir, buildAll("..", dir)
	}
	if err != nil {
		return "", err
	}
	version, commit, _ := strings.Cut(strings.TrimSpace(string(named)), " ")
	dir = filepath.Join(binaries, version)
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "tree.tar")
	pack := func() error {
		return runIn("..", "git", "archive", "--output="+archive, commit, "go.mod", "go.sum", "cmd", "client", "internal", "messages")
	}
	if err := pack(); err != nil {
		if fetched := runIn("..", "git", "fetch", "--quiet", "--depth=1", "origin", commit); fetched != nil {
			return "", fmt.Errorf("this clone has no %s: git fetch --unshallow: %w", version, errors.Join(err, fetched))
		}
		if err := pack(); err != nil {
			return "", err
		}
	}
	if err := runIn(tree, "tar", "-xf", archive); err != nil {
		return "", err
	}
	return dir, buildAll(tree, dir)
}

// buildAll builds the programs of a tree. With -trimpath the cache has the packages of the last
// build, from another folder.
func buildAll(tree, dir string) error {
	return runIn(tree, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-w", "-o", dir+"/", "./cmd/...")
}

func runIn(dir, name string, args ...string) error {
	c := exec.CommandContext(context.Background(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return nil
}

// ofFormer returns a program of the former release.
func ofFormer(t *testing.T, name string) string {
	t.Helper()
	dir, err := former()
	require.NoError(t, err)
	if _, err := os.Stat(formerFile); errors.Is(err, fs.ErrNotExist) {
		t.Log("there is no former release: the former", name, "is a second build of this tree")
	}
	return filepath.Join(dir, name)
}

// The commit of formerFile is the one that was released, in a clone that has its tag. Without
// that file no release came before this tree.
func TestTheFormerReleaseIsItsTag(t *testing.T) {
	t.Parallel()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	named, err := os.ReadFile(formerFile)
	if errors.Is(err, fs.ErrNotExist) {
		assert.Empty(t, git("tag", "--list", "v*", "--no-contains", "HEAD"), "%s has to name the newest of these", formerFile)
		return
	}
	require.NoError(t, err)
	version, commit, _ := strings.Cut(strings.TrimSpace(string(named)), " ")
	require.Regexp(t, `^v\d+\.\d+\.\d+ [0-9a-f]{40}$`, version+" "+commit)
	if git("tag", "--list", version) != "" {
		assert.Equal(t, commit, git("rev-parse", version+"^{commit}"))
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
