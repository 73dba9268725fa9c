package daemon_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
)

// heard is an answer that a balancer or a client gets.
type heard struct {
	code int
	head http.Header
	body string
	// ends means that the machine ends the connection after the answer.
	ends bool
}

func hear(t *testing.T, method, url, token string) heard {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return heard{res.StatusCode, res.Header, strings.TrimSpace(string(text)), res.Close}
}

// refusal is why a machine is not ready. The warnings, which only /readyz has, are no part of the reason.
type refusal struct {
	Status, Role, Primary string
	Failing               []string
}

func reasons(t *testing.T, h heard) (r refusal) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(h.body), &r), h.body)
	return r
}

// health asks a machine for all answers that a balancer may use, and requires that they are equal. It returns the answer.
func (m *machine) health() heard {
	m.t.Helper()
	first := hear(m.t, http.MethodGet, "http://"+m.at.HTTP+"/readyz", "")
	for _, address := range []string{m.at.HTTP, m.at.Admin, m.at.Metrics} {
		assert.Equal(m.t, http.StatusOK, hear(m.t, http.MethodGet, "http://"+address+"/healthz", "").code, "the process is up")
		for _, path := range []string{"/readyz", "/servez"} {
			got := hear(m.t, http.MethodGet, "http://"+address+path, "")
			assert.Equal(m.t, first.code, got.code, address+path)
			assert.Equal(m.t, first.head.Get("Retry-After"), got.head.Get("Retry-After"), address+path)
			if got.code != http.StatusOK {
				assert.Equal(m.t, reasons(m.t, first), reasons(m.t, got), address+path)
			}
		}
	}
	return first
}

// refuses requires that the API of a machine refuses all requests with a problem of this type.
func (m *machine) refuses(kind, token string) {
	m.t.Helper()
	for _, call := range []string{"GET /v1/me", "PUT /v1/me", "POST /v1/posts", "GET /v1/home/stream", "GET /openapi.json", "GET /nothing", "DELETE /v1//me", "OPTIONS /v1/me"} {
		method, path, _ := strings.Cut(call, " ")
		got := hear(m.t, method, "http://"+m.at.HTTP+path, token)
		var problem struct {
			Type   string
			Status int
			Detail string
		}
		require.NoErrorf(m.t, json.Unmarshal([]byte(got.body), &problem), "%s: %s", call, got.body)
		assert.Equal(m.t, http.StatusServiceUnavailable, got.code, call)
		assert.Equal(m.t, http.StatusServiceUnavailable, problem.Status, call)
		assert.Equal(m.t, kind, problem.Type, call)
		assert.NotEmpty(m.t, problem.Detail, call)
		assert.Equal(m.t, "application/problem+json", got.head.Get("Content-Type"), call)
		assert.Equal(m.t, "1", got.head.Get("Retry-After"), call)
		assert.True(m.t, got.ends, "%s: a balancer must choose the machine of the next request", call)
	}
}

// A balancer may ask any address of a machine, and for readiness or for service: only the primary is up, and only while
// it may answer: here its standby and its register are away.
func TestABalancerFindsTheMachineThatServes(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	for _, m := range []*machine{one, two} {
		// The promise must last while the test asks all addresses, also on a busy machine.
		m.env, m.lease = append(m.env, "FANFARE_METRICS_ADDR=127.0.0.1:0"), 5*time.Second
	}
	one.start(false)
	ann := tokens(t, one.dir)(t, "ann")
	assert.Equal(t, http.StatusOK, one.health().code, "a primary without a standby yet")
	two.start(true)
	one.untilPaired()
	assert.Equal(t, http.StatusOK, one.health().code)
	got := two.health()
	assert.Equal(t, http.StatusServiceUnavailable, got.code)
	var body struct{ Role, Primary string }
	require.NoError(t, json.Unmarshal([]byte(got.body), &body))
	assert.Equal(t, "standby", body.Role)
	assert.NotEmpty(t, body.Primary)
	two.refuses("standby", ann)
	_, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{PrimaryIsGone: true})
	require.ErrorContains(t, err, "connected", "a false statement of an operator")

	one.register.SetAway(true)
	require.NoError(t, two.stop())
	until(t, "the promise of the standby has ended", func() bool {
		code, _ := one.get("/readyz", "")
		return code == http.StatusServiceUnavailable
	})
	assert.Contains(t, one.health().body, "promise of the standby")
	one.refuses("unavailable", ann)
	one.register.SetAway(false)
	until(t, "a promise", func() bool {
		code, _ := one.get("/readyz", "")
		return code == http.StatusOK
	})
	assert.Equal(t, http.StatusOK, one.health().code)
}
