//go:build upgrade

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// former builds the programs of the former release, once, and returns their directory.
var former = sync.OnceValues(buildFormer)

// buildFormer builds the tree of the former release. If there is no former release, it builds this tree a
// second time.
func buildFormer() (dir string, err error) {
	version, err := formerRelease("..")
	if err != nil {
		return "", err
	}
	if version == "" {
		dir = filepath.Join(binaries, "again")
		return dir, buildAll("..", dir)
	}
	dir = filepath.Join(binaries, version)
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "tree.tar")
	if err := runIn("..", "git", "archive", "--output="+archive, version, "go.mod", "go.sum", "cmd", "client", "internal", "messages"); err != nil {
		return "", err
	}
	if err := runIn(tree, "tar", "-xf", archive); err != nil {
		return "", err
	}
	return dir, buildAll(tree, dir)
}

// buildAll builds the programs of a tree. With -trimpath the build cache also serves builds of the same
// packages in another folder.
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

// ofFormer returns the path of a program of the former release.
func ofFormer(t *testing.T, name string) string {
	t.Helper()
	dir, err := former()
	require.NoError(t, err)
	t.Log("the former", name, "is of", filepath.Base(dir)) // the directory "again" is a second build of this tree
	return filepath.Join(dir, name)
}

// TestUpChangesItsVersionUnderLoad runs the former version and this version of `fanfare up` alternately
// on one data directory, and kills each process in the middle of a replay.
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
	for i := range 4 { // the order is new, old, new, old, new
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
