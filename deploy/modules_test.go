package deploy

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Users of client and messages resolve the product's module graph. Modules that only
// end-to-end tests and benchmarks use are in the go.mod of e2e and bench.
func TestTheProductNeedsNoModuleOfTheTests(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "go", "mod", "graph")
	c.Dir, c.Env = "..", append(os.Environ(), "GOWORK=off")
	graph, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(graph), "\n"); lines < 100 {
		t.Fatalf("go mod graph prints %d lines only", lines)
	}
	for _, module := range []string{
		"Shopify/toxiproxy", "rs/zerolog", "chromedp/", "compose-spec/compose-go", "anishathalye/porcupine", "jsonschema",
	} {
		if strings.Contains(string(mod), module) {
			t.Errorf("go.mod names %s", module)
		}
		if strings.Contains(string(graph), module) {
			t.Errorf("go mod graph has %s", module)
		}
	}
}
