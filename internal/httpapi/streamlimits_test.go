package httpapi_test

import (
	"bufio"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/auth"
	"fanfare/internal/httpapi"
)

// A replay counts against the next streams of its user, and against the next requests of the user and
// of a service that opened it.
func TestAReplayCountsAgainstTheNextRequests(t *testing.T) {
	for name, c := range map[string]struct {
		limit  func(*httpapi.Config)
		header []string
	}{
		"user":    {func(c *httpapi.Config) { c.RateLimit = 1 }, nil},
		"service": {func(c *httpapi.Config) { c.ServiceRateLimit = 1 }, []string{"Fanfare-User: ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.profile(t, "ann")
				posts := w.posts(t, "ann", 200)
				const units = 1050 // 200 posts of 20,064 bytes, 4,096 for one, and their references
				limited := w.cfg
				c.limit(&limited)
				var err error
				w.api, err = httpapi.New(limited)
				require.NoError(t, err)
				token, _, err := w.dev.Issue("ann", time.Hour, scopes(len(c.header))...)
				require.NoError(t, err)
				header := slices.Concat(c.header, []string{"Authorization: Bearer " + token})
				network := w.serve(t)
				e := w.stream(t, network, "", posts[0], header...)
				e.entries(t, len(posts)-1)
				require.NoError(t, e.Close())
				synctest.Wait()
				refused := w.stream(t, network, "", "", header...)
				assert.Equal(t, http.StatusTooManyRequests, refused.status)
				<-time.After(10 * time.Second)
				answered := 0
				for ; ; answered++ {
					res, err := http.ReadResponse(bufio.NewReader(network.send(t, w.request(t, "", "GET /v1/me", header...))), nil)
					require.NoError(t, err)
					require.NoError(t, res.Body.Close())
					if res.StatusCode == http.StatusTooManyRequests {
						break
					}
				}
				assert.InDelta(t, 10-1-units/100+10, answered, 1, "of ten tokens, and ten more")
			})
		})
	}
}

// scopes are those of a service if n is not 0.
func scopes(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{auth.ActScope}
}
