package panics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/panics"
)

func fails() error { panic("boom") }

func TestAPanicIsAnErrorWithItsStack(t *testing.T) {
	err := panics.Catch(fails)
	caught, ok := errors.AsType[*panics.Error](err)
	if !ok || err.Error() != "panic: boom" || caught.Value != "boom" || !strings.Contains(caught.Stack, "panics_test.fails") {
		t.Errorf("caught %v, %+v", err, caught)
	}
}

func TestWithoutAPanicTheErrorStays(t *testing.T) {
	want := errors.New("away")
	assert.ErrorIs(t, panics.Catch(func() error { return want }), want)
	assert.NoError(t, panics.Catch(func() error { return nil }))
}
