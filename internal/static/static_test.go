package static_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/static"
)

const text = "text/plain; charset=utf-8"

func get(t *testing.T, f *static.File, method string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res := httptest.NewRecorder()
	f.ServeHTTP(res, req)
	return res
}

func newFile(t *testing.T, content string) *static.File {
	t.Helper()
	f, err := static.New(text, []byte(content))
	require.NoError(t, err)
	return f
}

func TestAFileIsCompressedForThoseWhoTakeThat(t *testing.T) {
	content := strings.Repeat("all work and no play ", 1000)
	f := newFile(t, content)
	for accepts, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "deflate, gzip;q=0.5": true, "br, *": true, "gzip;q=0": false, "gzip; Q=0.0, *": false,
		"*;q=0": false, "identity": false, "gzip;q=x": false, "xgzip": false, ", gzip ;q=1": true,
	} {
		res := get(t, f, http.MethodGet, "Accept-Encoding", accepts)
		assert.Equal(t, want, res.Header().Get("Content-Encoding") == "gzip", accepts)
		assert.Equal(t, strconv.Itoa(res.Body.Len()), res.Header().Get("Content-Length"), accepts)
		assert.Equal(t, "Accept-Encoding", res.Header().Get("Vary"))
		assert.Equal(t, text, res.Header().Get("Content-Type"))
		body := io.Reader(res.Body)
		if want {
			assert.Less(t, res.Body.Len(), len(content)/10)
			var err error
			body, err = gzip.NewReader(body)
			require.NoError(t, err)
		}
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, content, string(got), accepts)
	}
	res := get(t, f, http.MethodGet, "Accept-Encoding", "br", "Accept-Encoding", "gzip")
	assert.Equal(t, "gzip", res.Header().Get("Content-Encoding"), "a list may have several lines")
}

func TestACurrentCopyIsNotSentAgain(t *testing.T) {
	f := newFile(t, strings.Repeat("x", 5000))
	tags := map[string]bool{}
	for _, coding := range []string{"identity", "gzip"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			first := get(t, f, method, "Accept-Encoding", coding)
			tag := first.Header().Get("ETag")
			assert.Regexp(t, `^"[0-9a-f]{32}"$`, tag)
			tags[tag] = true
			for _, known := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
				again := get(t, f, method, "Accept-Encoding", coding, "If-None-Match", known)
				assert.Equal(t, http.StatusNotModified, again.Code, known)
				assert.Empty(t, again.Body.Bytes())
				assert.Equal(t, tag, again.Header().Get("ETag"))
				assert.Equal(t, "Accept-Encoding", again.Header().Get("Vary"))
			}
			changed := get(t, f, method, "Accept-Encoding", coding, "If-None-Match", `"other"`)
			assert.Equal(t, http.StatusOK, changed.Code)
		}
	}
	assert.Len(t, tags, 2, "each coding has a tag of its own")
}

func TestAFileThatDoesNotShrinkStaysPlain(t *testing.T) {
	res := get(t, newFile(t, "ab"), http.MethodGet, "Accept-Encoding", "gzip")
	assert.Empty(t, res.Header().Get("Content-Encoding"))
	assert.Equal(t, "ab", res.Body.String())
}
