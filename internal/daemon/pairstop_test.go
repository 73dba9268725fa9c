package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// A stop ends without an error while the standby is away, even if writes wait for the standby.
func TestAPrimaryStopsWithoutItsStandby(t *testing.T) {
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	called(t, one.at.HTTP, ann, "paired")
	require.NoError(t, two.stop())
	code := one.put(ann, "unconfirmed")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	require.NoError(t, one.stop())

	role, err := pair.LoadRole(one.dir)
	require.NoError(t, err)
	require.NoError(t, role.Unpair())
	one.start(false) // the stores were closed, so the process opens them again
	_, text := one.get("/v1/me", ann)
	assert.Contains(t, text, "ann")
	require.NoError(t, one.stop())
}

// put changes a name, and returns the status of the answer.
func (m *machine) put(token, name string) int {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, "http://"+m.at.HTTP+"/v1/me", strings.NewReader(`{"name":"`+name+`"}`))
	require.NoError(m.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(m.t, err)
	require.NoError(m.t, res.Body.Close())
	return res.StatusCode
}
