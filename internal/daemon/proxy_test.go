package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The address of a proxy on the same machine is a loopback address, but anyone on the network may use the proxy. So each request that came
// through a proxy is refused, unless public dev tokens are allowed.
func TestDevTokensAreNotForRequestsThroughAProxy(t *testing.T) {
	t.Parallel()
	proxied := []string{
		"X-Forwarded-For: 6.6.6.6", "X-Forwarded-Host: example.org", "X-Forwarded-Proto: https", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6", "Via: 1.1 proxy",
		"X-Forwarded-For: 127.0.0.1", "x-forwarded-for: ", "CF-Connecting-IP: 6.6.6.6", "True-Client-IP: 6.6.6.6",
	}
	calls := []struct {
		call, body string
		direct     int // the status without a proxy
		public     int // the status with FANFARE_DEV_AUTH_PUBLIC=allow
	}{
		{"POST /v1/dev/token", `{"user_id":"ann"}`, 200, 200},
		{"POST /v1/dev/token", `{"user_id":"backend","scope":"fanfare:act fanfare:delete"}`, 200, 200},
		{"GET /v1/home", "", 401, 401},
		{"GET /", "", 200, 200},
		{"GET /users/ann", "", 200, 200},
		{"GET /docs", "", 200, 200},
		{"GET /openapi.json", "", 200, 200},
		{"GET /healthz", "", 200, 200},
		{"GET /operator", "", 200, 404},
		{"GET /metrics", "", 200, 404},
		{"GET /admin/dead-letters/posts?limit=1", "", 200, 404},
		{"POST /admin/dead-letters/posts/redrive", `{"all":true}`, 200, 404},
		{"GET /admin/explain/ann", "", 410, 404},
		{"GET /admin/delivery/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", 410, 404},
		{"GET /admin/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", 410, 404},
		{"GET /admin/history", "", 200, 404},
		{"GET /admin/pair", "", 404, 404},                                 // there is no pair
		{"POST /admin/dead-letters/posts/drop", `{"all":true}`, 404, 404}, // only at the admin address
		{"POST /admin/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV/takedown", `{"reason":"x"}`, 404, 404},
		{"POST /admin/users/ann/forget", `{"unknown_ok":true}`, 404, 404},
		{"GET /admin/users/ann", "", 404, 404},
		{"GET /moderate", "", 404, 404},
		{"POST /admin/backup", `{"dir":"x"}`, 404, 404},
		{"POST /admin/verify", `{}`, 404, 404},
	}
	for _, public := range []bool{false, true} {
		var more []string
		if public {
			more = []string{"FANFARE_DEV_AUTH_PUBLIC=allow", "FANFARE_DEV_AUTH_HOSTS=example.org"}
		}
		at, stop := start(t, settings(t, t.TempDir(), more...))
		status := func(call, body, host, header string) int {
			t.Helper()
			method, path, _ := strings.Cut(call, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.HTTP+path, strings.NewReader(body))
			require.NoError(t, err)
			if body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			if name, value, ok := strings.Cut(header, ": "); ok {
				req.Header.Set(name, value)
			}
			req.Host = host
			res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			return res.StatusCode
		}
		for _, c := range calls {
			want := c.direct
			if public {
				want = c.public
			}
			assert.Equal(t, want, status(c.call, c.body, at.HTTP, ""), "%s, public %v", c.call, public)
			if !public {
				want = http.StatusMisdirectedRequest
			}
			for _, header := range proxied {
				assert.Equal(t, want, status(c.call, c.body, at.HTTP, header), "%s with %s, public %v", c.call, header, public)
			}
			assert.Equal(t, http.StatusMisdirectedRequest, status(c.call, c.body, "evil.example", proxied[0]), "%s, another host", c.call)
		}
		assert.NoError(t, stop())
	}
}
