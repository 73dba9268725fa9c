//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheToursPrintWhatTheySay runs the console blocks of every page as a newcomer would, in
// one shell for each page, and compares the output of each command. Ids and times differ from
// run to run, but their shape does not.
func TestTheToursPrintWhatTheySay(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	tours := 0
	for _, name := range append(pages, "../README.md") {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		if !strings.Contains(string(page), "```console\n") {
			continue
		}
		tours++
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			tour(t, string(page))
		})
	}
	require.GreaterOrEqual(t, tours, 2)
}

func tour(t *testing.T, page string) {
	t.Helper()
	u := newUp(t)
	p := u.start(t)
	const separator = "\x01"
	var script, want strings.Builder
	// The machine of a test may be busy, so each sleep is three times as long.
	script.WriteString("set -eu\nsleep() { command sleep $((3 * $1)); }\n")
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				script.WriteString("printf '" + separator + "'\n" + command)
				want.WriteString(separator)
				continue
			}
			want.WriteString(line)
		}
	}
	replace := strings.NewReplacer("http://127.0.0.1:8080", "http://"+u.http, "bin/fanfare", filepath.Join(binaries, "fanfare"))
	bash := exec.CommandContext(t.Context(), "bash", "-c", replace.Replace(script.String()))
	bash.Env = append(slices.Clone(u.env), "FANFARE_DATA_DIR="+u.data, "FANFARE_ADMIN_ADDR="+u.admin)
	out, err := bash.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	got, wanted := strings.Split(shape(string(out)), separator), strings.Split(shape(want.String()), separator)
	if len(got) != len(wanted) || len(wanted) < 15 {
		t.Fatalf("%d commands printed something, want %d:\n%s", len(got), len(wanted), out)
	}
	for i := range wanted {
		if strings.TrimSpace(got[i]) != strings.TrimSpace(wanted[i]) {
			t.Errorf("command %d printed\n%s\nthe page says\n%s", i, got[i], wanted[i])
		}
	}
	p.stop(t)
}

// shape replaces ids and times, which differ from run to run.
func shape(s string) string {
	s = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`).ReplaceAllString(s, "ULID")
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`).ReplaceAllString(s, "TIME")
}
