//go:build e2e

package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// buildExample builds an example, a module of its own, and returns the binary.
func buildExample(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, ".")
	build.Dir = filepath.Join("..", "examples", name)
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "build %s:\n%s", name, out)
	return binary
}

// TestProducersInGoAndPythonPostAndLike runs the two examples against real daemons on
// LocalStack: their posts come into homes, and their likes are counted.
func TestProducersInGoAndPythonPostAndLike(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, []string{"api", "fanout", "likeagg"})
	ann, bob := signUp(t, connect(t, c.http), "ann"), signUp(t, connect(t, c.http), "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	var posts []string
	produce := func(text string, command ...string) string {
		t.Helper()
		run := exec.CommandContext(t.Context(), command[0], append(command[1:], "--prefix", c.name, "--author", "ann", "--fan", "bob", "--text", text)...)
		var problems strings.Builder
		run.Env, run.Stderr = c.env, &problems
		out, err := run.Output()
		require.NoErrorf(t, err, "%s:\n%s", command, &problems)
		return strings.TrimSpace(string(out))
	}
	python := []string{"../scripts/producer-python.sh", "run"}
	posts = append(posts, produce("from Go", buildExample(t, "producer")), produce("from Python: é, \ufffe, \x01", python...))
	for i, post := range posts {
		await(t, "a like of a producer is counted", time.Minute, func() bool {
			count, err := ann.LikeCount(t.Context(), post)
			return err == nil && count.Count == 1
		})
		p, err := bob.Post(t.Context(), post)
		require.NoError(t, err)
		assert.Equal(t, []string{"from Go", "from Python: é, \ufffe, \x01"}[i], p.Text)
	}
	var home []string
	await(t, "the posts of both are in bob's home", time.Minute, func() bool {
		page, err := bob.Home(client.Push).Page(t.Context(), "", 10)
		require.NoError(t, err)
		home = home[:0]
		for _, item := range page.Items {
			home = append(home, item.Post.ID)
		}
		return len(home) == 2
	})
	assert.ElementsMatch(t, posts, home)

	bad := produce(strings.Repeat("x", 5001), python...)
	await(t, "a post that is too long is a dead letter", time.Minute, func() bool {
		stdout, _, err := fanfare(t, c.env, "dlq", "ls", "posts")
		return err == nil && strings.Contains(stdout, "5001 characters")
	})
	_, err := bob.Post(t.Context(), bad)
	var problem *client.Problem
	require.ErrorAs(t, err, &problem)
	assert.Equal(t, http.StatusNotFound, problem.Status)
	c.stop(t)
}
