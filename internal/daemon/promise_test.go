package daemon

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/httpapi"
)

// word is the promise of a standby.
type word struct {
	mu   sync.Mutex
	ends chan struct{} // closed without a promise
}

func (w *word) give() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = make(chan struct{})
}

func (w *word) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ends)
}

func (w *word) PromiseEnds() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends
}

func (w *word) Promised() bool {
	select {
	case <-w.PromiseEnds():
		return false
	default:
		return true
	}
}

// serving serves a handler behind the promises of w, and returns its URL.
func serving(t *testing.T, w *word, api http.HandlerFunc) string {
	t.Helper()
	stop := make(chan struct{})
	gate := &promised{next: api, of: w, refused: func() {}, stop: stop}
	server := httptest.NewServer(gate)
	t.Cleanup(func() {
		server.Close()
		close(stop)
		gate.watching.Wait()
	})
	return server.URL
}

// received is an answer that has arrived.
type received struct {
	status int
	header http.Header
	text   string
}

func ask(t *testing.T, url string) (received, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return received{}, err
	}
	text, err := io.ReadAll(res.Body)
	return received{res.StatusCode, res.Header, string(text)}, errors.Join(err, res.Body.Close())
}

// P11: an answer needs a promise, when it is asked for and when it leaves this machine.
func TestOnlyPromisedAnswersLeaveThePrimary(t *testing.T) {
	t.Parallel()
	w := &word{}
	w.give()
	url := serving(t, w, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Etag", "x")
		if r.URL.Path == "/late" {
			w.end()
		}
		_, _ = io.WriteString(rw, "answer") // the client looks at the outcome
	})
	res, err := ask(t, url+"/soon")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.status)
	assert.Equal(t, "answer", res.text)

	for _, path := range []string{"/late", "/later"} {
		res, err = ask(t, url+path)
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, res.status, path)
		assert.Equal(t, "1", res.header.Get("Retry-After"), path)
		assert.Empty(t, res.header.Get("Etag"), path)
		assert.NotEqual(t, "answer", res.text, path)
	}
	res, err = ask(t, url+"/healthz")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.status, "the process can answer")

	w.give()
	res, err = ask(t, url+"/again")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.status)
}

// The client must not take the part of an answer for the whole answer.
func TestAnAnswerIsCutAtTheEndOfThePromise(t *testing.T) {
	t.Parallel()
	w := &word{}
	w.give()
	url := serving(t, w, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "first part") // the client looks at the outcome
		assert.NoError(t, http.NewResponseController(rw).Flush())
		w.end()
		<-r.Context().Done() // the context of a stream ends with the promise
		_, err := io.WriteString(rw, "second part")
		assert.ErrorIs(t, err, errPromise)
		assert.ErrorIs(t, http.NewResponseController(rw).Flush(), errPromise)
	})
	res, err := ask(t, url)
	require.Error(t, err, "the answer was %q", res.text)
	assert.NotContains(t, res.text, "second")
}

// A client in a page asks the machines in turn, so the page must be able to read why one of them refuses.
func TestAPageReadsTheRefusalOfAMachineOfAPair(t *testing.T) {
	t.Parallel()
	const page = "https://app.example"
	origins := httpapi.NewOrigins([]string{page}, nil, false)
	w := &word{}
	w.give()
	gate := &promised{next: http.NotFoundHandler(), of: w, origins: origins, refused: func() {}}
	w.end()
	for name, handler := range map[string]http.Handler{"standby": refusing("peer", origins), "unavailable": gate} {
		for _, method := range []string{http.MethodGet, http.MethodOptions} {
			req := httptest.NewRequest(method, "/v1/me", nil)
			req.Header.Set("Origin", page)
			if method == http.MethodOptions {
				req.Header.Set("Access-Control-Request-Method", http.MethodGet)
			}
			res := httptest.NewRecorder()
			handler.ServeHTTP(res, req)
			assert.Equal(t, page, res.Header().Get("Access-Control-Allow-Origin"), "%s %s", name, method)
			if method == http.MethodOptions {
				assert.Equal(t, http.StatusNoContent, res.Code, name)
				continue
			}
			assert.Equal(t, http.StatusServiceUnavailable, res.Code, name)
			assert.Contains(t, res.Header().Get("Access-Control-Expose-Headers"), "Retry-After", name)
			assert.Contains(t, res.Body.String(), `"type":"`+name, name)
		}
	}
}
