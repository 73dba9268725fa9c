//go:build e2e && slow

package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEachAlertFiresAndASoundDeploymentIsSilent runs the unit tests of the rules by Prometheus's own
// tool, which make test installs. make test-platform tests the rules on real processes.
func TestEachAlertFiresAndASoundDeploymentIsSilent(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	require.NoError(t, err, "run scripts/need.sh promtool:prometheus")
	out, err := exec.CommandContext(t.Context(), tool, "test", "rules", "../deploy/prometheus/fanfare.rules.test.yml").CombinedOutput()
	assert.NoError(t, err, string(out))
}
