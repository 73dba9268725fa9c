package deploy

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that uses client or messages resolves the product's module graph. So modules that only
// end-to-end tests and benchmarks use are in the go.mod files of e2e, bench and release.
func TestTheProductNeedsNoModuleOfTheTests(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), "go", "mod", "graph")
	c.Dir, c.Env = "..", append(os.Environ(), "GOWORK=off")
	graph, err := c.Output()
	require.NoError(t, err)
	lines := strings.Count(string(graph), "\n")
	require.GreaterOrEqualf(t, lines, 100, "go mod graph prints %d lines only", lines)
	for _, module := range []string{
		"Shopify/toxiproxy", "rs/zerolog", "chromedp/", "compose-spec/compose-go", "anishathalye/porcupine", "jsonschema", "CycloneDX", "hashicorp/hcl",
	} {
		assert.NotContains(t, string(mod), module, "go.mod names")
		assert.NotContains(t, string(graph), module)
	}
}
