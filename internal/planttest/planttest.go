// Package planttest plants bugs into the product, to prove that tests can fail. A planted
// bug is an edit of the product's source. The compiler uses the edited copy in place of
// the real file, so the product has no switch for the bug.
//
// It must never change a file of the repository, and only tests may import it.
package planttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stormtest"
)

// Edit replaces the text Old by New in File. Old must occur exactly once, and File is a path from
// the repository's root. If the product has changed and Old does not occur any more, the test
// fails, and the bug has to be planted again.
type Edit struct{ File, Old, New string }

// Root returns the repository's root, which is the folder of go.mod.
func Root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	require.NoError(t, err)
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// Overlay writes the edited copies and returns the file for the compiler's -overlay.
func Overlay(t *testing.T, root string, edits []Edit) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for i, e := range edits {
		source := filepath.Join(root, e.File)
		from := source
		if copied, ok := replace[source]; ok {
			from = copied
		}
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		n := bytes.Count(text, []byte(e.Old))
		require.Equalf(t, 1, n, "edit %d occurs %d times in %s: plant the bug anew", i, n, e.File)
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(copied, bytes.Replace(text, []byte(e.Old), []byte(e.New), 1), 0o600))
		replace[source] = copied
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// Build builds the tests of the caller's package under an overlay and returns their
// binary. A test runs in the folder of its package. Only a whole run builds (see stormtest); otherwise binary is empty.
func Build(t *testing.T, overlay string) (binary string) {
	t.Helper()
	if !stormtest.Whole() {
		return ""
	}
	binary = filepath.Join(t.TempDir(), "planted.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the product's builds, so packages are cached
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "the planted bug does not build:\n%s", out)
	return binary
}

// MustFail runs a test in the binary of a planted bug, at most count times. MustFail fails t unless
// the planted test fails and prints want. An empty binary is not run.
func MustFail(t *testing.T, binary, test, want string, count int) {
	t.Helper()
	if binary == "" {
		return
	}
	run := exec.CommandContext(t.Context(), binary, "-test.run", "^"+test+"$", "-test.failfast", "-test.count", strconv.Itoa(count))
	out, err := run.CombinedOutput()
	require.ErrorAsf(t, err, new(*exec.ExitError), "%s passes with the planted bug (%v), so it proves nothing:\n%s", test, err, out)
	assert.Containsf(t, string(out), want, "%s fails with the planted bug, but does not say", test)
}
