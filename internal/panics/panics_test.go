package panics_test

import (
	"context"
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

func TestAPanicOfOneWorkEndsTheOthers(t *testing.T) {
	err := panics.All(t.Context(),
		func(context.Context) error { return fails() },
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	)
	_, caught := errors.AsType[*panics.Error](err)
	assert.True(t, caught, "%v", err)
}

func TestAllWorksRun(t *testing.T) {
	done := make([]bool, 2)
	works := []func(context.Context) error{
		func(context.Context) error { done[0] = true; return nil },
		func(context.Context) error { done[1] = true; return nil },
	}
	assert.NoError(t, panics.All(t.Context(), works...))
	assert.Equal(t, []bool{true, true}, done)
}
