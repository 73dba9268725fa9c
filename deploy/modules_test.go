package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		"Shopify/toxiproxy", "rs/zerolog", "chromedp/", "compose-spec/compose-go", "anishathalye/porcupine", "jsonschema", "CycloneDX", "hashicorp/hcl", "hashicorp/terraform-plugin-go",
	} {
		assert.NotContains(t, string(mod), module, "go.mod names")
		assert.NotContains(t, string(graph), module)
	}
}

// A program that embeds Fanfare is built by the version of Go that its go.mod asks for at least. So go.mod asks for the version of the image,
// which has the mends of the standard library.
func TestEachModuleAsksForTheGoOfTheImage(t *testing.T) {
	build, _ := dockerfile(t)
	image := regexp.MustCompile(`^FROM golang:([\d.]+)-`).FindStringSubmatch(build[0])
	require.NotNilf(t, image, "%s names no version", build[0])
	examples, err := filepath.Glob("../examples/*/go.mod")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, name := range append(examples, "../go.mod", "../release/go.mod") {
		mod, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Containsf(t, string(mod), "\ngo "+image[1]+"\n", "%s asks for another version of Go than the Dockerfile", name)
	}
}
