package feed

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestACallWhoseContextHasEndedTakesNoTurn holds though the lane is free: a select takes one of
// two that are ready by chance, and the simulation would not replay.
func TestACallWhoseContextHasEndedTakesNoTurn(t *testing.T) {
	turns, of := newTurns(), lane{"ann", 1}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 50 {
		_, err := turns.take(ended, of)
		require.ErrorIs(t, err, context.Canceled)
	}
	done, err := turns.take(t.Context(), of)
	require.NoError(t, err)
	done()
	assert.Empty(t, turns.lanes, "a lane exists while calls use it")
}
