package main

import (
	"bytes"
	"strings"
	"testing"

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
