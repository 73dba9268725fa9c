package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An answer of another process, of a process without a pair, or of a process that does not serve yet has its own remedy.
func TestARefusalHasItsOwnRemedy(t *testing.T) {
	t.Parallel()
	answer, text := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, answer) }))
	defer server.Close()
	c := NewClient(server.Listener.Addr().String(), server.Client())
	pair := func() error { _, err := PairStatus().Do(t.Context(), c, None{}); return err }
	promote := func() error { _, err := Promote().Do(t.Context(), c, Promotion{}); return err }
	verify := func() error {
		_, err := Verify().Do(t.Context(), c, Verification{})
		return err
	}
	for _, tt := range []struct {
		call   func() error
		status int
		want   string
	}{
		{pair, 404, "has no pair: set FANFARE_PEER"},
		{promote, 404, "has no pair: set FANFARE_PEER"},
		{verify, 404, "is it the admin address"},
		{pair, 503, "does not serve yet"},
		{verify, 503, "does not serve yet"},
		{pair, 500, "is it the admin address"},
	} {
		answer, text = tt.status, `{"status":"starting"}`
		err := tt.call()
		require.ErrorContains(t, err, tt.want)
		if tt.want != "is it the admin address" {
			assert.NotContains(t, err.Error(), "is it the admin address")
		}
	}
}

// A promotion ends when the process serves.
func TestAwaitReadyWaitsForTheService(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/readyz", r.URL.Path)
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	c := NewClient(server.Listener.Addr().String(), server.Client())
	require.NoError(t, c.AwaitReady(t.Context()))
	assert.Equal(t, 3, asked)
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, c.AwaitReady(ctx), "does not serve yet")
}
