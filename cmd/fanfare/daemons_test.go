package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A daemon runs as its own program, as a command of fanfare, or as fanfare under the daemon's name. All three
// give the same help, errors and exit codes.
func TestADaemonIsAProgramACommandAndAName(t *testing.T) {
	t.Parallel()
	links := t.TempDir()
	for _, s := range services() {
		link := filepath.Join(links, s.name)
		require.NoError(t, os.Symlink(filepath.Join(binDir, "fanfare"), link))
		for _, tt := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"--help"}, 0, "takes no arguments"},
			{[]string{"--fast"}, 2, `"--fast": see `},
			{[]string{"now"}, 2, `"now": see `},
			{nil, 2, "FANFARE_ENGINE: embedded is for one process"},
		} {
			code, out, want := result(t, nil, s.name, tt.args...)
			if code != tt.code || out != "" || !strings.Contains(want, tt.says) {
				t.Errorf("%s %v: exit code %d, %q, %q", s.name, tt.args, code, out, want)
			}
			code, out, errs := result(t, nil, "fanfare", append([]string{s.name}, tt.args...)...)
			if errs = strings.ReplaceAll(errs, "fanfare "+s.name, s.name); code != tt.code || out != "" || errs != want {
				t.Errorf("fanfare %s %v: exit code %d, %q, %q; want %q", s.name, tt.args, code, out, errs, want)
			}
			var stderr bytes.Buffer
			linked := exec.CommandContext(t.Context(), link, tt.args...)
			linked.Env, linked.Stderr = []string{"HOME=" + links}, &stderr
			if err := linked.Run(); err != nil && linked.ProcessState == nil {
				t.Fatal(err)
			}
			if code := linked.ProcessState.ExitCode(); code != tt.code || stderr.String() != want {
				t.Errorf("the link %s %v: exit code %d, %q; want %q", s.name, tt.args, code, &stderr, want)
			}
		}
	}
}

func TestOnlyTheNamesOfDaemonsAreDaemons(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]bool{
		"api": true, "/bin/fanout": true, "./likeagg": true, "fanfare": false, "/bin/fanfare": false, "api-2": false, "": false, "/api/fanfare": false,
	} {
		_, ok := called(program)
		assert.Equalf(t, want, ok, "called(%q)", program)
	}
}
