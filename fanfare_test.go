package fanfare_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fanfare"
	"fanfare/client"
)

// Each test also proves that a stopped Server leaves no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a Server, and stops it at the end of the test.
func start(t *testing.T, cfg fanfare.Config) *fanfare.Server {
	t.Helper()
	s, err := fanfare.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// at serves a Server on an address of the test's own, and returns a client without a token.
func at(t *testing.T, s *fanfare.Server) *client.Client {
	t.Helper()
	own := httptest.NewServer(s)
	t.Cleanup(own.Close)
	c, err := client.New(own.URL, client.WithAttempts(1))
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
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

// ask sends a request to the handler itself, without a server, and returns the status and the body.
func ask(t *testing.T, s *fanfare.Server, method, path string) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil))
	return answer.Code, answer.Body.String()
}

func TestAPostIsDeliveredAndItsLikesAreCounted(t *testing.T) {
	t.Setenv("FANFARE_ENGINE", "aws") // the program's environment does not matter
	s := start(t, fanfare.Config{DataDir: t.TempDir()})
	c := at(t, s)
	ann, bob := signUp(t, c, "ann"), signUp(t, c, "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Hello"})
	require.NoError(t, err)
	require.NoError(t, bob.Like(t.Context(), post.ID))
	require.Eventually(t, func() bool {
		home, err := bob.Home(client.Push).Page(t.Context(), "", 10)
		return err == nil && len(home.Items) == 1 && home.Items[0].Post.ID == post.ID && home.Items[0].LikeCount == 1
	}, 2*time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { // the last entry precedes the end of the delivery
		delivery, err := ann.Delivery(t.Context(), post.ID)
		return err == nil && delivery.State == client.DeliveryComplete
	}, 2*time.Minute, 20*time.Millisecond)
	assert.Empty(t, s.Addr())
	assert.Empty(t, s.AdminAddr())
}

func TestAServerWithoutAnAddressHasNoOperations(t *testing.T) {
	closed := start(t, fanfare.Config{})
	status, _ := ask(t, closed, http.MethodGet, "/operator")
	assert.Equal(t, http.StatusNotFound, status, "nobody knows who reaches the handler")

	open := start(t, fanfare.Config{HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"})
	status, _ = ask(t, open, http.MethodGet, "/operator")
	assert.Equal(t, http.StatusOK, status)
	for _, url := range []string{"http://" + open.Addr() + "/readyz", "http://" + open.AdminAddr() + "/metrics"} {
		status, _ = get(t, url)
		assert.Equal(t, http.StatusOK, status, url)
	}
}

func get(t *testing.T, url string) (status int, err error) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func TestDevTokensAreForThisMachineOnly(t *testing.T) {
	s := start(t, fanfare.Config{})
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://feed.example.org/readyz", nil))
	assert.Equal(t, http.StatusMisdirectedRequest, answer.Code)
}

func TestCloseEndsStreamsAndKeepsAnsweredCalls(t *testing.T) {
	dir := t.TempDir()
	s := start(t, fanfare.Config{DataDir: dir})
	ann := signUp(t, at(t, s), "ann")
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Kept"})
	require.NoError(t, err)
	seen, ended := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(ended)
		for update, err := range ann.Live(t.Context(), post.ID) {
			if err != nil {
				return
			}
			if update.Entry != nil {
				seen <- update.Entry.Post.Text
			}
		}
	}()
	_, err = ann.CreatePost(t.Context(), client.PostInput{Text: "Seen live"})
	require.NoError(t, err)
	assert.Equal(t, "Seen live", <-seen)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close only waits")
	<-ended

	status, body := ask(t, s, http.MethodGet, "/v1/me")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, `"unavailable"`)

	again := start(t, fanfare.Config{DataDir: dir})
	kept, err := signUp(t, at(t, again), "ann").Post(t.Context(), post.ID)
	require.NoError(t, err)
	assert.Equal(t, "Kept", kept.Text)
}

func TestTheTemporaryDirectoryIsRemoved(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	first, second := start(t, fanfare.Config{}), start(t, fanfare.Config{})
	made, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Len(t, made, 2, "two Servers of one program have their own data")
	require.NoError(t, errors.Join(first.Close(), second.Close()))
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTheEndOfTheContextStopsRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := fanfare.Start(ctx, fanfare.Config{HTTPAddr: "127.0.0.1:0"})
	require.NoError(t, err)
	cancel()
	require.NoError(t, s.Wait())
	_, err = get(t, "http://"+s.Addr()+"/healthz")
	require.Error(t, err, "the address is closed")

	require.ErrorIs(t, fanfare.Run(ctx, fanfare.Config{HTTPAddr: "127.0.0.1:0"}), context.Canceled)
	require.ErrorContains(t, fanfare.Run(t.Context(), fanfare.Config{}), "HTTPAddr is missing")
}

func TestAUselessConfigNamesItsFaults(t *testing.T) {
	used := t.TempDir()
	start(t, fanfare.Config{DataDir: used})
	for name, c := range map[string]struct {
		cfg  fanfare.Config
		says string
	}{
		"no port":                          {fanfare.Config{HTTPAddr: "localhost"}, "FANFARE_HTTP_ADDR"},
		"dev tokens for other machines":    {fanfare.Config{HTTPAddr: "0.0.0.0:0"}, "FANFARE_AUTH: dev gives a token to whoever asks"},
		"a short secret":                   {fanfare.Config{DevSecret: "short"}, "FANFARE_DEV_SECRET: it has 5 bytes"},
		"an issuer without an audience":    {fanfare.Config{JWTIssuer: "https://issuer.example"}, "FANFARE_JWT_AUDIENCE is missing"},
		"keys without an issuer":           {fanfare.Config{JWKSURL: "https://issuer.example/keys"}, "FANFARE_JWT_ISSUER is missing"},
		"a directory that another one has": {fanfare.Config{DataDir: used}, "another process"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := fanfare.Start(t.Context(), c.cfg)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, s)
			assert.True(t, strings.HasPrefix(err.Error(), "fanfare: "), err)
		})
	}
}
