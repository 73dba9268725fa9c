package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// connect returns a client that never repeats a call.
func connect(t *testing.T, addr string) *client.Client {
	t.Helper()
	return reach(t, addr, client.WithAttempts(1))
}

// reach returns a client that repeats a call to which a busy machine did not answer.
func reach(t *testing.T, addr string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New("http://"+addr, options...)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// signUp makes a user with a profile and returns a client for that user. The client tries each call once,
// so signUp repeats a call to which a busy machine did not answer.
func signUp(t *testing.T, c *client.Client, user string) *client.Client {
	t.Helper()
	var as *client.Client
	await(t, "sign up "+user, func() bool {
		issued, err := c.DevToken(t.Context(), user, 0)
		if err != nil {
			return false
		}
		as = c.AsToken(issued.Token)
		_, err = as.PutMe(t.Context(), client.ProfileInput{Name: user})
		return err == nil
	})
	return as
}
