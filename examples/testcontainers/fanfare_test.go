//go:build docker

// Package fanfare_test shows how your own test starts Fanfare in a container. In a clone:
//
//	docker build -f deploy/Dockerfile -t fanfare .
//	cd examples/testcontainers && go test -tags docker ./...
//
// Without the tag nothing is built or run. With FEED_URL the test uses a Fanfare that already
// runs, without Docker:
//
//	FEED_URL=http://127.0.0.1:8080 go test -tags docker ./...
package fanfare_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"fanfare/client"
)

// startFanfare runs all of Fanfare on the embedded engine in one container, and returns the address of
// the API.
func startFanfare(t *testing.T) string {
	t.Helper()
	if url := os.Getenv("FEED_URL"); url != "" {
		return url
	}
	container, err := testcontainers.GenericContainer(t.Context(), testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image: "fanfare",
			// With dev tokens the test can act as any user. Docker maps the port to this machine.
			Env:          map[string]string{"FANFARE_DEV_AUTH_PUBLIC": "allow", "FANFARE_CANARY": "off"},
			ExposedPorts: []string{"8080/tcp"},
			WaitingFor:   wait.ForHTTP("/readyz").WithPort("8080/tcp").WithStartupTimeout(2 * time.Minute),
		},
		Started: true,
	})
	testcontainers.CleanupContainer(t, container)
	require.NoError(t, err)
	address, err := container.PortEndpoint(t.Context(), "8080/tcp", "http")
	require.NoError(t, err)
	return address
}

func signUp(t *testing.T, c *client.Client, user string) *client.Client {
	t.Helper()
	token, err := c.DevToken(t.Context(), user, 0)
	require.NoError(t, err)
	as := c.AsToken(token.Token)
	_, err = as.PutMe(t.Context(), client.ProfileInput{Name: user})
	require.NoError(t, err)
	return as
}

func TestAPostComesIntoTheHomeOfAFollower(t *testing.T) {
	c, err := client.New(startFanfare(t))
	require.NoError(t, err)
	ann, bob := signUp(t, c, "ann"), signUp(t, c, "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Hello"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		home, err := bob.Home(client.Push).Page(t.Context(), "", 10)
		return err == nil && len(home.Items) == 1 && home.Items[0].Post.ID == post.ID
	}, 30*time.Second, 100*time.Millisecond)
}
