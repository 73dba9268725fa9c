package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// groups are the groups of the help in their order, with their commands.
func groups() [][2]string {
	return [][2]string{
		{"Begin here:", "up"},
		{"Look at a process:", "status doctor health explain delivery"},
		{"Mend:", "dlq reconcile verify"},
		{"Moderate:", "takedown forget"},
		{"Data:", "import export backup restore archive"},
		{"Two machines:", "pair promote unpair"},
		{"AWS:", "api fanout likeagg table queues iam capacity"},
		{"Develop and test:", "token replay version help completion"},
	}
}

// inGroups puts the commands of root into the groups of the help.
func inGroups(root *cobra.Command) {
	of := map[string]string{}
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g[0], Title: g[0]})
		for name := range strings.FieldsSeq(g[1]) {
			of[name] = g[0]
		}
	}
	for _, c := range root.Commands() {
		c.GroupID = of[c.Name()]
	}
	root.SetHelpCommandGroupID(of["help"])
	root.SetCompletionCommandGroupID(of["completion"])
}
