package httpapi_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/httpapi"
	"fanfare/internal/obs"
)

// asked sends a request with these headers for a stranger. The token of the request is arbitrary.
func (w *world) asked(t *testing.T, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res := httptest.NewRecorder()
	w.api.ServeHTTP(res, req)
	return res
}

// Strangers may send any number of requests. The log has each kind of line that such requests cause once
// in ten seconds, with the number of omitted lines, and without the tokens.
func TestStrangersDoNotWriteTheLog(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*httpapi.Config)
		method string
		path   string
		status int
		line   string
	}{
		"no token":        {func(*httpapi.Config) {}, http.MethodGet, "/v1/me", http.StatusUnauthorized, "refused: not authenticated"},
		"unknown keys":    {func(c *httpapi.Config) { c.Verifier = unchecked{} }, http.MethodGet, "/v1/me", http.StatusServiceUnavailable, "a request was not answered in time"},
		"unknown paths":   {func(*httpapi.Config) {}, http.MethodGet, "/v1/none", http.StatusNotFound, ""},
		"unknown methods": {func(*httpapi.Config) {}, "BREW", "/v1/me", http.StatusMethodNotAllowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, lines := observer.New(zap.InfoLevel)
				w := newWorld(t, func(c *httpapi.Config) { c.Log = zap.New(core); row.change(c) })
				for range 3 {
					for i := range 400 {
						res := w.asked(t, row.method, row.path, "Authorization", fmt.Sprintf("Bearer a.secret%d.b", i))
						require.Equal(t, row.status, res.Code)
					}
					<-time.After(obs.SampleTime + time.Second)
				}
				var stands []any
				for _, line := range lines.All() {
					assert.Equal(t, row.line, line.Message)
					stands = append(stands, line.ContextMap()["lines"])
					assert.NotContains(t, fmt.Sprint(line.ContextMap()), "secret")
				}
				if row.line == "" {
					assert.Empty(t, stands)
				} else {
					assert.Equal(t, []any{int64(1), int64(399), int64(400), int64(400)}, stands)
				}
			})
		})
	}
}

// At its default level, the log shows a refusal together with the refused user or service.
func TestRefusalsAreInTheLog(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	w := newWorld(t, func(c *httpapi.Config) { c.Log, c.RateLimit = zap.New(core), 1 })
	w.profile(t, "ann")
	w.profile(t, "bob")
	for range 20 {
		w.call(t, "eve", http.MethodGet, "/v1/users/ann", "")
	}
	require.Equal(t, http.StatusNoContent, w.call(t, "ann", http.MethodPut, "/v1/me/blocks/bob", "").Code)
	problem(t, w.call(t, "bob", http.MethodPut, "/v1/me/following/ann", ""), http.StatusForbidden, "blocked")
	got := map[string]any{}
	for _, line := range lines.All() {
		got[line.Message] = fmt.Sprint(line.ContextMap()["user_id"], line.ContextMap()["status"], line.ContextMap()["route"])
	}
	assert.Equal(t, map[string]any{
		"refused: too many requests": "eve429/v1/users/{id}", "refused: forbidden": "bob403/v1/me/following/{id}",
	}, got)
}

// The document is large, and anybody may request it, so the answer saves bytes.
func TestTheDocumentIsCompressedAndNotSentTwice(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/openapi.json", "/docs", "/docs/page.js", "/docs/page.css"} {
		plain := w.asked(t, http.MethodGet, path)
		zipped := w.asked(t, http.MethodGet, path, "Accept-Encoding", "gzip")
		require.Equal(t, http.StatusOK, zipped.Code, path)
		require.Equal(t, "gzip", zipped.Header().Get("Content-Encoding"), path)
		assert.Less(t, zipped.Body.Len(), plain.Body.Len()/2, path)
		if path == "/openapi.json" {
			assert.Less(t, zipped.Body.Len(), plain.Body.Len()/5)
		}
		again := w.asked(t, http.MethodGet, path, "Accept-Encoding", "gzip", "If-None-Match", zipped.Header().Get("ETag"))
		assert.Equal(t, http.StatusNotModified, again.Code, path)
		assert.Zero(t, again.Body.Len(), path)
		body, err := gzip.NewReader(zipped.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, plain.Body.String(), string(text), path)
		assert.True(t, strings.HasPrefix(zipped.Header().Get("Cache-Control"), "no-cache"), "a newer version is seen at once")
	}
}
