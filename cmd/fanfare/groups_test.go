package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheHelpBeginsWithUpAndHasEachCommandInAGroup(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	root, _ := (&app{stdout: &out, stderr: &out}).root()
	for _, c := range root.Commands() {
		assert.NotEmptyf(t, c.GroupID, "groups has no command %s", c.Name())
	}
	for _, g := range groups() {
		for name := range strings.FieldsSeq(g[1]) {
			if name != "completion" { // cobra adds it when the command runs
				found, _, err := root.Find([]string{name})
				require.NoError(t, err)
				assert.Equalf(t, name, found.Name(), "group %q", g[0])
			}
		}
	}
	root.SetArgs([]string{"--help"})
	require.NoError(t, root.Execute())
	_, commands, _ := strings.Cut(out.String(), "\n\nBegin here:\n")
	assert.True(t, strings.HasPrefix(commands, "  up "), out.String())
	assert.NotContains(t, out.String(), "Additional")
}

// Each command has an example, and each example is a whole call.
func TestEachHelpHasExamplesThatCanBeCalled(t *testing.T) {
	t.Parallel()
	root, _ := (&app{}).root()
	for c := range below(root) {
		if c.HasSubCommands() || c.Name() == "help" {
			continue
		}
		assert.NotEmptyf(t, c.Example, "%s", c.CommandPath())
	}
	for line := range strings.Lines(strings.TrimSpace(examples)) {
		call, _, _ := strings.Cut(line, " > ")
		calls, err := resolves(strings.TrimSpace(call), true)
		assert.Equal(t, 1, calls, line)
		assert.NoError(t, err)
	}
}

func TestShellsCompleteValues(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		"dlq ls |": "posts", "dlq show l|": "likes", "dlq redrive posts |": ":4", "iam policy --daemon f|": "fanout",
		"table create --billing |": "provisioned", "up --data-dir |": ":16", "backup |": ":16", "replay --graph |": ":0",
		"import |": ":0", "explain |": ":4", "verify --rate |": ":4", "help d|": "doctor", "help pair |": "keys", "pair k|": "keys",
	} {
		var out bytes.Buffer
		root, _ := (&app{stdout: &out, stderr: &out}).root()
		args := strings.Fields(strings.TrimSuffix(call, "|"))
		if strings.HasSuffix(call, " |") {
			args = append(args, "")
		}
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args...))
		require.NoError(t, root.Execute())
		assert.Contains(t, strings.Fields(out.String()), want, call)
	}
}
