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

// TestTheDocumentsOfTheAPIsKeepRedoclysRules checks the committed OpenAPI and AsyncAPI documents by Redocly's
// recommended rules. A warning fails the test, too.
func TestTheDocumentsOfTheAPIsKeepRedoclysRules(t *testing.T) {
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
	out, err = check("../docs/asyncapi.json")
	require.NoError(t, err, out)
	assert.Contains(t, out, `"warnings": 0`)
	out, err = check(withAnUnknownAction(t))
	require.Error(t, err, out)
	others.none(t)
}

// withAnUnknownAction returns a copy of the AsyncAPI document with an action that AsyncAPI does not
// define.
func withAnUnknownAction(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/asyncapi.json")
	require.NoError(t, err)
	broken := strings.Replace(string(text), `"action": "send"`, `"action": "shout"`, 1)
	require.NotEqual(t, string(text), broken)
	file := filepath.Join(t.TempDir(), "asyncapi.json")
	require.NoError(t, os.WriteFile(file, []byte(broken), 0o644))
	return file
}
