//go:build e2e && slow

package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/daemon"
)

const unitFile = "../deploy/systemd/fanfare.service"

// unit returns the settings of the unit. Each has one line.
func unit(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, isSetting := strings.Cut(strings.TrimSpace(line), "="); isSetting && !strings.HasPrefix(line, "#") {
			require.NotContains(t, all, name)
			all[name] = value
		}
	}
	return all
}

// variables returns the variables in lines or words NAME=VALUE.
func variables(words []string) map[string]string {
	env := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		env[name] = value
	}
	return env
}

// TestTheUnitIsValid runs systemd's own checks on a copy whose program exists. The exposure of a service without any
// restriction is 9.6 of 10.
func TestTheUnitIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "fanfare.service")
	command := strings.Fields(unit(t)["ExecStart"])[0]
	require.NoError(t, os.WriteFile(copied, []byte(strings.ReplaceAll(string(text), command, filepath.Join(binaries, "fanfare"))), 0o600))
	for _, check := range [][]string{{"verify", "--man=no", copied}, {"security", "--offline=yes", "--threshold=20", copied}} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", check...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		if check[0] == "verify" {
			assert.NotContains(t, string(out), copied, "a warning")
		}
	}
}

// TestTheUnitRunsTheProgram starts the program of the unit with the settings that an operator adds in EnvironmentFile.
func TestTheUnitRunsTheProgram(t *testing.T) {
	t.Parallel()
	u := unit(t)
	seconds, err := strconv.Atoi(u["TimeoutStopSec"])
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(daemon.ExitUsage, " ", daemon.ExitFenced), u["RestartPreventExitStatus"], "a restart has the same end")
	own := variables(strings.Fields(u["Environment"]))
	assert.Equal(t, "/var/lib/"+u["StateDirectory"], own["FANFARE_DATA_DIR"], "only this directory can be written")

	words := strings.Fields(u["ExecStart"])
	_, stderr, err := fanfare(t, entries(own), words[1:]...)
	assert.Equal(t, daemon.ExitUsage, code(err), stderr)
	assert.Contains(t, stderr, "FANFARE_JWT_ISSUER is missing")

	env := variables([]string{"FANFARE_JWT_ISSUER=https://issuer.example", "FANFARE_JWT_AUDIENCE=feed", "FANFARE_ARCHIVE=file:///mnt/other"})
	maps.Copy(env, own)
	d := deployed{command: words, env: env, grace: time.Duration(seconds) * time.Second}
	d.place(t, map[string]string{"FANFARE_ARCHIVE": "file://" + t.TempDir()})
	d.survivesARestart(t, func() bool { return answers(t, "http://"+d.at["9090"]+"/readyz") == 200 })
}
