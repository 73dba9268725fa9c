package live_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// A fan-out of the same process may write before the API of the process has streams.
func TestAWriteBeforeThereAreStreamsWakesNobody(t *testing.T) {
	t.Parallel()
	var wakes live.Wakes
	key := table.Key{PK: schema.TimelinePK("ann"), SK: "x"}
	_, err := wakes.Store(tabletest.NewMemory()).Put(t.Context(), table.PutInput{Item: table.Item{Key: key}})
	require.NoError(t, err)
}
