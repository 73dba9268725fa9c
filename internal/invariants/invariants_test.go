package invariants_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/invariants"
	"fanfare/internal/panics"
)

func TestAFailedAssertionPanicsWithItsInvariantInBuildsThatCheck(t *testing.T) {
	defer func() {
		failed := recover()
		violation, ok := failed.(*invariants.Violation)
		if ok != invariants.Enabled || failed != nil && !ok {
			t.Errorf("panicked with %v in a build with Enabled = %t", failed, invariants.Enabled)
		}
		if ok && violation.Error() != "I3: 7 likes" {
			t.Errorf("the violation is %q", violation)
		}
	}()
	invariants.Check(true, "I3: never")
	// Catch turns other panics into errors, but lets this panic pass.
	err := panics.Catch(func() error { invariants.Check(false, "I3: %d likes", 7); return nil })
	assert.NoError(t, err, "the violation became an")
	assert.Error(t, panics.Catch(func() error { panic(errors.ErrUnsupported) }), "a panic that is no violation was passed on")
}
