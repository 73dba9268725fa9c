package daemon_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// A stop with open streams is no failure, and a client resumes its live home with the next process.
func TestALiveHomeGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var address atomic.Value
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address.Load().(string))
	}}
	defer transport.CloseIdleConnections()
	at, stop := start(t, settings(t, dir))
	address.Store(at.HTTP)
	anyone, err := client.New("http://127.0.0.1:1", client.WithHTTPClient(&http.Client{Transport: transport}), client.WithAttempts(30))
	require.NoError(t, err)
	token := tokens(t, dir)
	ann, ben := anyone.AsToken(token(t, "ann")), anyone.AsToken(token(t, "ben"))
	for _, c := range []*client.Client{ann, ben} {
		_, err := c.PutMe(t.Context(), client.ProfileInput{Name: "n"})
		require.NoError(t, err)
	}
	require.NoError(t, ben.Follow(t.Context(), "ann"))
	ctx, cancel := context.WithCancel(t.Context())
	posts, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for u, err := range ben.Live(ctx, "") {
			if err == nil && u.Entry != nil {
				posts <- u.Entry.Post.ID
			}
		}
	}()
	defer func() { cancel(); <-ended }()
	var want []string
	for range 2 {
		until(t, "a stream", func() bool { return metric(t, at.Admin, "fanfare_streams") == 1 })
		for range 5 {
			p, err := ann.CreatePost(t.Context(), client.PostInput{Text: "x"})
			require.NoError(t, err)
			want = append(want, p.ID)
		}
		var got []string
		for range 5 {
			got = append(got, <-posts)
		}
		assert.ElementsMatch(t, want[len(want)-5:], got)
		require.NoError(t, stop())
		at, stop = start(t, settings(t, dir))
		address.Store(at.HTTP)
	}
	assert.Empty(t, posts)
}
