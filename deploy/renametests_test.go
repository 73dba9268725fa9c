//go:build slow

package deploy

import "testing"

// TestTheRenamedModulePassesItsTests runs the tests of the packages that other modules import, and the tests that read the
// texts of the planted bugs.
func TestTheRenamedModulePassesItsTests(t *testing.T) {
	t.Parallel()
	dir := renamedTree(t)
	command(t, dir, cached("-trimpath"), "go", "test", "-short", "-vet=off", "-ldflags=-w", "./messages", "./client/...")
	// Without -planted the test only checks that the code that the bugs replace exists.
	command(t, dir, cached("-trimpath"), "go", "test", "-vet=off", "-ldflags=-w", "./internal/sim", "-run", "^TestEveryPlantedBugIsFound$")
}
