//go:build e2e && slow

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheTemplatesKeepCfnLintsRules also checks a template with a planted fault. So the test fails if
// cfn-lint finds nothing.
func TestTheTemplatesKeepCfnLintsRules(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../deploy/cloudformation/data.yaml")
	require.NoError(t, err)
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	require.NoError(t, os.WriteFile(wrong, []byte(strings.Replace(string(data), "BillingMode", "BilingMode", 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), "../scripts/python-tools.sh", "run", "deploy-lint", "cfn-lint", "--format", "parseable", "--",
		"../deploy/cloudformation/data.yaml", "../deploy/cloudformation/services.yaml", "../deploy/cloudformation/alarms.yaml", "../deploy/cloudformation/budget.yaml", "../deploy/cloudformation/archive.yaml", wrong).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "BilingMode")
	for line := range strings.Lines(string(out)) {
		assert.Contains(t, line, wrong)
	}
}
