package client_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/client/clienttest"
	"fanfare/internal/httpapi/apitest"
)

// TestClienttestKeepsTheContract runs the contract's rows against the server in memory,
// except the rows of parts that its package comment excludes.
func TestClienttestKeepsTheContract(t *testing.T) {
	fake := clienttest.New()
	fake.Reactions = []string{"love", "wow"}
	server := httptest.NewServer(fake)
	defer server.Close()
	anyone, err := client.New(server.URL)
	require.NoError(t, err)
	defer anyone.CloseIdleConnections()
	apitest.Exercise(t, apitest.Target{
		URL: server.URL, DevTokens: true, Notifications: true, Reactions: true, Events: true,
		Token: func(t *testing.T, user string) string {
			t.Helper()
			token, err := anyone.DevToken(t.Context(), user, 0)
			require.NoError(t, err)
			return token.Token
		},
		Service: func(t *testing.T, subject string, deletes bool) string {
			t.Helper()
			scopes := []string{"fanfare:act"}
			if deletes {
				scopes = append(scopes, "fanfare:delete")
			}
			token, err := anyone.DevToken(t.Context(), subject, 0, scopes...)
			require.NoError(t, err)
			return token.Token
		},
		Lacks: func(path string, status int) bool {
			for _, part := range []string{"/comments", "/delivery", "/export", "/home/stream", "day=", "since=", "until=", "source=", "users/{ben}/likes", "users/u/likes", "users/{ben}/reactions", "users/u/reactions", "/../"} {
				if strings.Contains(path, part) {
					return true
				}
			}
			return status == 400 || status >= 405 && status != 409 || !strings.HasPrefix(path, "/v1/")
		},
	})
}
