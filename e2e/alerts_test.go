//go:build e2e

package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// promtool is Prometheus's own: make test installs it.
func TestEachAlertFiresAndASoundDeploymentIsSilent(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	require.NoError(t, err, "run scripts/need.sh promtool:prometheus")
	c := exec.CommandContext(t.Context(), tool, "test", "rules", "fanfare.rules.test.yml")
	c.Dir = "../deploy/prometheus"
	out, err := c.CombinedOutput()
	assert.NoError(t, err, string(out))
}
