package pair

import "fanfare/internal/datadir"

// Cloned makes a role look as one on a copy of a data directory: of its files, or of the whole disk.
func (r *Role) Cloned(likeness datadir.Likeness) {
	r.Print, r.here = &datadir.Print{Born: 1, Boot: "before"}, &datadir.Print{Born: 1, Boot: "now"}
	if likeness == datadir.Copied {
		r.here.Born = 2
	}
}
