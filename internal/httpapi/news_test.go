package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
)

// A client that polls with its tag gets a body only if the ids of the news have changed. The storms of
// internal/sim check that the tag belongs to the newest answer.
func TestNewsAreNotModifiedWhileTheirPostsStay(t *testing.T) {
	w := newWorld(t)
	w.profile(t, "ann")
	const path = "/v1/home?after=" + id.Min
	tag := `"other"`
	poll := func() int {
		t.Helper()
		res := w.call(t, "ann", http.MethodGet, path, "", "If-None-Match", tag)
		require.NotEmpty(t, res.Header().Get("ETag"))
		assert.Equal(t, res.Code == http.StatusNotModified, res.Header().Get("ETag") == tag)
		assert.Equal(t, res.Code == http.StatusNotModified, res.Body.Len() == 0, "a body exactly if something has changed")
		tag = res.Header().Get("ETag")
		return res.Code
	}
	posts := w.make(t, "ann", 2)
	assert.Equal(t, http.StatusOK, poll())
	assert.Equal(t, http.StatusNotModified, poll())
	require.Equal(t, http.StatusOK, w.call(t, "ann", http.MethodPatch, "/v1/posts/"+posts[0], `{"text":"y"}`).Code)
	assert.Equal(t, http.StatusNotModified, poll(), "an edit changes no id")
	require.Equal(t, http.StatusNoContent, w.call(t, "ann", http.MethodDelete, "/v1/posts/"+posts[0], "").Code)
	w.make(t, "ann", 1)
	assert.Equal(t, http.StatusOK, poll(), "as many posts, and another one")
	assert.Equal(t, http.StatusNotModified, poll())
}
