//go:build invariants

package invariants

import "fmt"

// Enabled reports whether this build checks its assertions.
const Enabled = true

// Check panics with a *Violation unless ok is true. The format begins with the invariant's name. Code
// must not recover this panic: panics.Catch panics again.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic(&Violation{fmt.Sprintf(format, args...)})
	}
}
