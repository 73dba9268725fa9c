package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAGateWaitsForTheRequestsOfTheProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, stopTakes time.Duration
		says             string
	}{
		"a request that ends within the grace": {3 * time.Second, 3 * time.Second, ""},
		"a request that never ends":            {time.Hour, 5 * time.Second, "requests of the program were still unanswered after 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cut error
				g := newGate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(c.takes):
					case <-r.Context().Done():
					}
					cut = r.Context().Err()
				}), 5*time.Second)
				send := func() int {
					answer := httptest.NewRecorder()
					g.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
					return answer.Code
				}
				answered := make(chan int, 1)
				go func() { answered <- send() }()
				synctest.Wait()
				ctx, stop := context.WithCancel(t.Context())
				stop()
				begin := time.Now()
				err := g.run(ctx)
				assert.Equal(t, c.stopTakes, time.Since(begin))
				if c.says == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.says)
				}
				assert.Equal(t, http.StatusOK, <-answered)
				assert.Equal(t, c.says != "", cut != nil, "only the request that is too slow is cut")
				assert.Equal(t, http.StatusServiceUnavailable, send(), "after the stop")
			})
		})
	}
}
