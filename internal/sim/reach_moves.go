package sim

import (
	"strings"

	"fanfare/internal/schema"
)

// moveStates returns the rare states of the commands that move a network, and of repairs beside
// traffic.
func moveStates() []string {
	return []string{
		"an import meets another write of its record",
		"a repair of a count lands beside traffic",
	}
}

func (r *reach) moveWritten(e event) {
	repaired := e.old != nil && e.now != nil && e.now.Str(schema.AttrFixed) != e.old.Str(schema.AttrFixed)
	r.when(repaired && strings.HasPrefix(e.by, "audit"), "a repair of a count lands beside traffic")
}
