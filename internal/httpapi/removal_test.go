package httpapi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// A user who has returned can be removed again only a minute after the previous removal.
func TestASecondRemovalWithinAMinuteIsA429(t *testing.T) {
	w := newWorld(t)
	ahead := time.Now().Add(time.Hour) // even a slow test stays within the minute
	back := schema.Profile{User: "ann", Name: "Ann", CreatedAt: ahead, After: "01JD8QJ4WZ0000000000000001", Former: schema.Removal{Event: "01JD8QJ4WZ0000000000000000", At: ahead}}
	_, err := w.store.Put(t.Context(), table.PutInput{Item: back.Item()})
	require.NoError(t, err)
	res := w.call(t, "ann", "DELETE", "/v1/me", "")
	problem(t, res, 429, "rate-limited")
	assert.Equal(t, "60", res.Header().Get("Retry-After"))
	assert.Equal(t, 200, w.call(t, "ann", "GET", "/v1/me", "").Code)
	assert.Empty(t, w.published.messages)
}
