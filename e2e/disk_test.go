package e2e

import (
	"fanfare/internal/porttest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADirectoryThatCannotBeWrittenStopsTheStart uses directories in which no user can write, not even
// root.
func TestADirectoryThatCannotBeWrittenStopsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(elements ...string) string {
		path := filepath.Join(append([]string{dir}, elements...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("not a directory"), 0o600))
		return path
	}
	lock := filepath.Join(dir, "unlockable")
	require.NoError(t, os.MkdirAll(filepath.Join(lock, "LOCK"), 0o700))
	for name, path := range map[string]string{
		"a file":                     write("file"),
		"below a file":               filepath.Join(write("parent"), "data"),
		"where nothing can be made":  "/proc/fanfare-data",
		"a table that is a file":     filepath.Dir(write("table-is-a-file", "table")),
		"a queue that is a file":     filepath.Dir(write("queue-is-a-file", "queue")),
		"a lock that is a directory": lock,
	} {
		_, stderr, err := fanfare(t, environment(), "up", "--data-dir", path, "--http", porttest.Free(t), "--admin", porttest.Free(t))
		line := strings.TrimSpace(stderr)
		line = line[strings.LastIndex(line, "\n")+1:]
		if code(err) != 1 || !strings.Contains(line, path) {
			t.Errorf("%s (%s): ended with %v: %s", name, path, err, stderr)
		}
		t.Log(line)
	}
}
