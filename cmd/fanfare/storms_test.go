package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/sim"
)

// TestEachCommandIsInTheStormsOrNamed compares the tree of commands with the commands in the simulation's list.
func TestEachCommandIsInTheStormsOrNamed(t *testing.T) {
	t.Parallel()
	root, _ := (&app{}).root()
	var names []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.HasSubCommands() {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "fanfare "))
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	listed := map[string]bool{}
	for _, of := range sim.Operations() {
		if of.Kind == sim.Command {
			listed[of.Name] = true
		}
	}
	for _, name := range names {
		assert.Truef(t, listed[name], "the list of the simulation has no command %s", name)
		delete(listed, name)
	}
	assert.Empty(t, listed, "commands of the list that fanfare does not have")
}
