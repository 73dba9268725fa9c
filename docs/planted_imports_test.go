//go:build slow

package docs

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

// wrongImports returns imports that compile, but that a lint rule has to refuse.
func wrongImports() map[string]string {
	return map[string]string{
		"internal/feed":         "internal/awsclient",
		"internal/config":       "internal/feed",
		"internal/obs":          "internal/likeagg",
		"internal/awsclient":    "internal/table",
		"internal/table/dynamo": "messages",
		"internal/likeagg":      "internal/fanout",
		"internal/daemon":       "internal/sim",
		"cmd/api":               "internal/disk/disktest",
		"internal/ops/replay":   "client/clienttest",
		"internal/table":        "internal/queue",
		"internal/auth":         "net/http/httptest",
		"internal/schema":       "net/http",
		"internal/fanout":       "net/http",
		"internal/ops/doctor":   "internal/httpapi",
		"internal/ops/canary":   "go.opentelemetry.io/otel/trace",
	}
}

// TestWrongImportsAreCaught copies the tree and plants a wrong import in each of several packages. The
// linter has to refuse every wrong import.
func TestWrongImportsAreCaught(t *testing.T) {
	copied := t.TempDir()
	files, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z").Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		copyFile(t, filepath.Join("..", name), filepath.Join(copied, name))
	}
	for folder, wrong := range wrongImports() {
		pkg := packageName(t, filepath.Join(copied, folder))
		if own := regexp.MustCompile("^(internal|client|messages)(/|$)"); own.MatchString(wrong) {
			wrong = module(t) + "/" + wrong
		}
		source := "package " + pkg + "\n\nimport _ \"" + wrong + "\"\n"
		require.NoError(t, os.WriteFile(filepath.Join(copied, folder, "planted.go"), []byte(source), 0o600))
	}
	lint := exec.CommandContext(t.Context(), "go", "tool", "-modfile=tools/go.mod", "golangci-lint", "run", "--allow-serial-runners", "--enable-only", "depguard", "./...")
	lint.Dir = copied
	out, err := lint.CombinedOutput()
	require.Error(t, err, "the linter found nothing")
	for folder := range wrongImports() {
		assert.Containsf(t, string(out), filepath.Join(folder, "planted.go")+":", "the wrong import in %s was not caught", folder)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) { // the file is deleted, but the deletion is not committed
		return
	}
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
	require.NoError(t, os.WriteFile(to, text, 0o600))
}

func packageName(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "-C", dir, "list", "-f", "{{.Name}}", ".").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
