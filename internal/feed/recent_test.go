package feed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func TestTheMemoryOfRecentReadsIsBounded(t *testing.T) {
	r := newRecentReads(&Service{cfg: Config{Now: time.Now, LikeWindow: time.Minute}})
	r.read = func(context.Context, []table.Key) (map[table.Key]table.Item, error) { return nil, nil }
	for i := range 2 * maxRecent / 100 {
		keys := make([]table.Key, 100)
		for j := range keys {
			keys[j] = table.Key{PK: fmt.Sprint(i, j), SK: "info"}
		}
		_, err := r.get(t.Context(), keys)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, r.kept.Len(), maxRecent)
}
