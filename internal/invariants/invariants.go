// Package invariants holds the assertions of the product about itself. They exist only in
// builds with the tag "invariants": the tests and the simulation set it, a shipped binary
// does not. So a test fails at the line that breaks an invariant, not at a count that is
// wrong much later.
//
// An assertion must never change the behaviour of the product: it has no side effect, and
// nothing may depend on it. An expensive condition, or state for assertions only, is
// inside "if invariants.Enabled".
package invariants

// Violation is the value of the panic of a failed assertion. Its text begins with the
// name of the invariant: "I3: ...".
type Violation struct{ text string } //nolint:errname // the value of a panic, named for its reader

func (v *Violation) Error() string { return v.text }
