//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheTestOfTheExamplesPasses runs the test of examples/testcontainers. No machine of the project has
// Docker, so the test gets a `fanfare up` in place of the container.
func TestTheTestOfTheExamplesPasses(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	test := exec.CommandContext(t.Context(), "go", "test", "-tags", "docker", "-vet=off", "-ldflags=-w", "-count=1", "-v", ".")
	test.Dir, test.Env = "../examples/testcontainers", environment("FEED_URL=http://"+u.http)
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 1, strings.Count(string(out), "--- PASS: TestAPostComesIntoTheHomeOfAFollower"), "%s", out)
	p.stop(t)
}
