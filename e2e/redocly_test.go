//go:build e2e

package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheOpenAPIDocumentKeepsRedoclysRules checks the committed document by Redocly's
// recommended rules, of which a warning fails, too.
func TestTheOpenAPIDocumentKeepsRedoclysRules(t *testing.T) {
	t.Parallel()
	others := newOutsiders(t)
	check := func(document string) (string, error) {
		command := exec.CommandContext(t.Context(), "../scripts/node-tools.sh", "run", "scripts/redocly", "redocly", "lint", "--extends", "recommended", "--max-problems", "5", "--format", "json", document)
		command.Env = environment(append(others.environment(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")...)
		out, err := command.Output()
		return string(out), err
	}
	out, err := check("../docs/openapi.json")
	require.NoError(t, err, out)
	assert.Contains(t, out, `"warnings": 0`)
	out, err = check("testdata/openapi_without_servers.json")
	require.Error(t, err, out)
	assert.Contains(t, out, "no-empty-servers")
	others.none(t)
}
