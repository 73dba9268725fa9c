//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/porttest"
)

// TestReadsOutliveTheQueues blocks SQS for an api that serves and for processes that start.
func TestReadsOutliveTheQueues(t *testing.T) {
	t.Parallel()
	n := newBadNetwork(t)
	c := newClusterOf(t, []string{"api"}, n.environment()...)
	api, err := client.New("http://" + c.http)
	require.NoError(t, err)
	token, err := api.DevToken(t.Context(), "ann", time.Hour)
	require.NoError(t, err)
	ann := api.AsToken(token.Token)
	_, err = ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "before"})
	require.NoError(t, err)

	n.queues.Stop()
	worker := &member{kind: "fanout", admin: porttest.Free(t)}
	worker.env = append(append(append([]string(nil), c.env...), n.environment()...), "FANFARE_ADMIN_ADDR="+worker.admin)
	worker.start(t)
	other := &cluster{http: porttest.Free(t), env: c.env}
	second := &member{kind: "api", admin: porttest.Free(t)}
	second.env = append(append(append([]string(nil), c.env...), n.environment()...), "FANFARE_HTTP_ADDR="+other.http, "FANFARE_ADMIN_ADDR="+second.admin)
	second.start(t)
	await(t, "an api starts without its queues", func() bool {
		return second.running() && get(t, second.admin, "/servez", "") == `200 {"status":"serving"}`
	})
	for address, admin := range map[string]string{c.http: c.members[0].admin, other.http: second.admin} {
		for _, at := range []string{address, admin} {
			assert.Equal(t, `200 {"status":"serving"}`, get(t, at, "/servez", ""))
			await(t, "/readyz names the queue", func() bool { return get(t, at, "/readyz", "") == `503 {"status":"not ready","failing":["queue"]}` })
		}
		home := get(t, address, "/v1/home", token.Token)
		assert.True(t, strings.HasPrefix(home, "200 ") && strings.Contains(home, post.ID), home)
		status, retry := write(t, address, token.Token)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.NotEmpty(t, retry)
	}
	await(t, "a fan-out waits for its queues", func() bool { return get(t, worker.admin, "/servez", "") == `503 {"status":"starting"}` })
	assert.True(t, worker.running(), tail(worker.log))

	require.NoError(t, n.queues.Start())
	for _, m := range []*member{c.members[0], second, worker} {
		m.ready(t, m.admin)
	}
	for _, address := range []string{c.http, other.http} {
		status, _ := write(t, address, token.Token)
		assert.Equal(t, http.StatusCreated, status)
	}
	for _, m := range []*member{c.members[0], second, worker} {
		m.stop(t)
	}
}

// get returns the status and the body of an answer, or "" without an answer.
func get(t *testing.T, address, path, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return fmt.Sprint(res.StatusCode, " ", strings.TrimSpace(string(body)))
}

// write makes a post, and returns the status and the Retry-After of the answer.
func write(t *testing.T, address, token string) (status int, retry string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/posts", strings.NewReader(`{"text":"hello"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Header.Get("Retry-After")
}
