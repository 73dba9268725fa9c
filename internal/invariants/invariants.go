// Package invariants has the assertions of the product about itself. The assertions exist only in
// builds with the tag "invariants": the tests and the simulation set the tag, and a shipped binary
// does not have it. So a test fails at the line that breaks an invariant, not at a wrong count much
// later.
//
// An assertion must never change the behaviour of the product: an assertion has no side effect, and no
// code may depend on an assertion. An expensive condition, or state for assertions only, is inside "if
// invariants.Enabled".
package invariants

// Violation is the value of the panic of a failed assertion. The text of a Violation begins with the
// name of the invariant: "I3: ...".
type Violation struct{ text string } //nolint:errname // a Violation is the value of a panic

func (v *Violation) Error() string { return v.text }
