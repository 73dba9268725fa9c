package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// every has each kind of input.
type every struct {
	Name, Text string
	Number     int
	At         time.Time
}

// behindOp returns a client of a process that has only the operation o.
func behindOp[In, Out any](t *testing.T, o Op[In, Out]) *Client {
	t.Helper()
	mux := http.NewServeMux()
	o.handle(mux, Domain{})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return NewClient(server.Listener.Addr().String(), server.Client())
}

func params(in *every) []Param {
	return []Param{{Name: "name", At: &in.Name}, {Name: "text", At: &in.Text}, {Name: "number", At: &in.Number}, {Name: "at", At: &in.At}}
}

func TestAnInputOfThePathAndTheQueryArrives(t *testing.T) {
	t.Parallel()
	o := Op[every, every]{
		Route: "GET /admin/every/{name}", Params: params,
		Run: func(_ context.Context, _ Domain, in every) (every, error) { return in, nil },
	}
	c := behindOp(t, o)
	for _, in := range []every{
		{Name: "a/b ?%", Text: "one & more=?", Number: -7, At: time.Unix(1, 5).UTC()},
		{Name: "x"},
	} {
		got, err := o.Do(t.Context(), c, in)
		require.NoError(t, err)
		assert.Equal(t, in, got)
	}
}

func TestABadInputIsRefused(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	Op[every, every]{Route: "GET /admin/every/{name}", Params: params, Run: func(_ context.Context, _ Domain, in every) (every, error) { return in, nil }}.handle(mux, Domain{})
	for query, want := range map[string]string{
		"number=x":     `number "x" is not a number`,
		"at=yesterday": "at is not a time of RFC 3339",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/every/x?"+query, http.NoBody))
		assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
		assert.Contains(t, w.Body.String(), want)
	}
}

func TestAFailureHasTheStatusOfItsOperation(t *testing.T) {
	t.Parallel()
	failing := func(context.Context, Domain, None) (None, error) { return None{}, errors.New("full") }
	for status, want := range map[int]string{0: "answered 503: it does not serve yet", http.StatusConflict: "full", http.StatusPreconditionFailed: "full"} {
		o := Op[None, None]{Route: "POST /admin/x", Fails: status, Run: failing}
		_, err := o.Do(t.Context(), behindOp(t, o), None{})
		require.ErrorContains(t, err, want)
		_, refused := errors.AsType[*RefusalError](err)
		assert.Equal(t, status != 0, refused)
	}
	_, err := Op[None, None]{Route: "GET /admin/other", Absent: "not here"}.Do(t.Context(), behindOp(t, Op[None, None]{Route: "GET /admin/x"}), None{})
	assert.EqualError(t, err, "not here")
}

// A page of another site can call no operation.
func TestEveryOperationIsClosedToOtherSites(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	Op[None, None]{Route: "GET /admin/read", Run: func(context.Context, Domain, None) (None, error) { return None{}, nil }}.handle(mux, Domain{})
	for site, want := range map[string]int{"": http.StatusOK, "none": http.StatusOK, "same-origin": http.StatusOK, "same-site": http.StatusForbidden, "cross-site": http.StatusForbidden} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/read", http.NoBody)
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, site)
	}
}

// A process has the operations for which it has the parts.
func TestAProcessHasTheOperationsOfItsParts(t *testing.T) {
	t.Parallel()
	handler := NewHandler(Config{Metrics: prometheus.NewRegistry(), Health: NewHealth()})
	for path, method := range map[string]string{
		"/admin/pair": http.MethodGet, "/admin/explain/ann": http.MethodGet, "/admin/delivery/x": http.MethodGet, "/admin/dead-letters/posts": http.MethodGet,
		"/admin/posts/x": http.MethodGet, "/admin/users/ann": http.MethodGet, "/admin/history": http.MethodGet,
		"/admin/posts/x/takedown": http.MethodPost, "/admin/users/ann/forget": http.MethodPost,
		"/admin/verify": http.MethodPost, "/admin/backup": http.MethodPost, "/admin/promote": http.MethodPost, "/admin/pair/move": http.MethodPost, "/admin/reconcile": http.MethodPost,
	} {
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
	}
}
