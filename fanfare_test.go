package fanfare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
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

func TestSettingsHaveTheNamesOfTheEnvironment(t *testing.T) {
	s := start(t, fanfare.Config{Settings: map[string]string{
		"FANFARE_REACTIONS": "love,wow", "FANFARE_CORS_ORIGINS": "https://app.example", "FANFARE_CONSOLE": "off", "FANFARE_ADMIN_ADDR": "127.0.0.1:0",
	}, AdminAddr: "127.0.0.1:0"})
	ann := signUp(t, at(t, s), "ann")
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Hello"})
	require.NoError(t, err)
	require.NoError(t, ann.React(t.Context(), post.ID, "love"))
	require.Error(t, ann.React(t.Context(), post.ID, "hate"))
	assert.NotEmpty(t, s.AdminAddr(), "the same value in both")
	status, _ := ask(t, s, http.MethodGet, "/")
	assert.Equal(t, http.StatusFound, status, "without the console the root leads to the docs")
	answer, page := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/me", nil)
	page.Header.Set("Origin", "https://app.example")
	s.ServeHTTP(answer, page)
	assert.Equal(t, "https://app.example", answer.Header().Get("Access-Control-Allow-Origin"))
}

func TestAnAddressInSettingsIsAnAddress(t *testing.T) {
	data := t.TempDir()
	s := start(t, fanfare.Config{Settings: map[string]string{"FANFARE_HTTP_ADDR": "127.0.0.1:0", "FANFARE_DATA_DIR": data}})
	status, err := get(t, "http://"+s.Addr()+"/readyz")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	kept, err := os.ReadDir(data)
	require.NoError(t, err)
	assert.NotEmpty(t, kept)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fanfare.Run(ctx, fanfare.Config{Settings: map[string]string{"FANFARE_HTTP_ADDR": "127.0.0.1:0"}}), context.Canceled)
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

// asks is a site in which a header names the user, and another one the service.
func asks(name string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) { return r.Header.Get(name), nil }
}

// as is a client's transport with a header.
type as struct{ name, value string }

// RoundTrip implements http.RoundTripper.
func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(a.name, a.value)
	return http.DefaultTransport.RoundTrip(r)
}

// A site serves the whole product below a prefix, and identifies its users.
func TestASiteServesTheFeedBelowAPrefix(t *testing.T) {
	t.Cleanup((&http.Client{}).CloseIdleConnections) // of the default transport
	s := start(t, fanfare.Config{Prefix: "/feed", User: asks("User"), Service: func(r *http.Request) (string, error) {
		if !strings.HasPrefix(r.URL.Path, "/feed/v1/") {
			return "", nil
		}
		return r.Header.Get("Service"), nil
	}})
	own := httptest.NewServer(s)
	t.Cleanup(own.Close)
	of := func(name, value string) *client.Client {
		c, err := client.New(own.URL+"/feed", client.WithAttempts(1), client.WithHTTPClient(&http.Client{Transport: as{name, value}}))
		require.NoError(t, err)
		return c
	}
	ann, shop := of("User", "ann"), of("Service", "shop")
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	first, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Hello"})
	require.NoError(t, err)
	post, err := shop.ActAs("ann").CreatePost(t.Context(), client.PostInput{Text: "Forged shoes"})
	require.NoError(t, err)
	for update, err := range ann.Live(t.Context(), first.ID) {
		require.NoError(t, err)
		if update.Entry != nil {
			assert.Equal(t, post.ID, update.Entry.Post.ID)
			break
		}
	}
	_, err = shop.TakeDown(t.Context(), post.ID, "forged")
	require.NoError(t, err)
	_, err = of("User", "").Me(t.Context())
	require.ErrorContains(t, err, "nobody is signed in")

	for path, want := range map[string]string{
		"/feed":              "302 /feed/",
		"/feed/":             "200 ",
		"/feed/docs":         "200 ",
		"/feed/openapi.json": "200 ",
		"/feed/readyz":       "200 ",
		"/feed/users/ann":    "200 ",
		"/":                  "404 ",
		"/readyz":            "404 ",
		"/feeds/readyz":      "404 ",
		"/feed/feed/readyz":  "404 ",
		"/feed//readyz":      "404 ",
	} {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://feed.example.org"+path, nil))
		assert.Equal(t, want, fmt.Sprint(answer.Code, " ", answer.Header().Get("Location")), path)
	}
	made := httptest.NewRecorder()
	create := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/feed/v1/posts", strings.NewReader(`{"text":"Hello"}`))
	create.Header.Set("User", "ann")
	s.ServeHTTP(made, create)
	assert.Regexp(t, "^/feed/v1/posts/[0-9A-Z]{26}$", made.Header().Get("Location"))
	for path, has := range map[string]string{
		"/feed/openapi.json": `"url": "/feed"`, "/feed/docs": `src="/feed/docs/page.js"`, "/feed/": `href="/feed/users/{id}`,
	} {
		_, body := ask(t, s, http.MethodGet, path)
		assert.Contains(t, strings.ReplaceAll(body, "href=/feed", `href="/feed`), has, path)
		assert.NotRegexp(t, `(href|src)="?/(console|docs|users|posts|profile|openapi)`, body, path)
	}
}

// Fanfare uses huma. huma keeps some of its settings in globals, and the program's own huma has to be as before.
func TestTheProgramKeepsItsOwnHuma(t *testing.T) {
	before := hosted(t)
	s := start(t, fanfare.Config{})
	ann := signUp(t, at(t, s), "ann")
	refused := func() *client.Problem {
		_, err := ann.CreatePost(t.Context(), client.PostInput{Text: strings.Repeat("x", 5001)})
		problem, _ := errors.AsType[*client.Problem](err)
		require.NotNil(t, problem, err)
		return problem
	}
	assert.Equal(t, before, hosted(t))
	assert.Equal(t, "invalid", refused().Type)
	assert.Equal(t, "text", refused().Errors[0].Field)

	was := huma.NewError
	t.Cleanup(func() { huma.NewError = was })
	huma.NewError = func(status int, _ string, _ ...error) huma.StatusError { return own(status) }
	assert.Contains(t, hosted(t), "422 own")
	assert.Equal(t, "invalid", refused().Type, "with an error of the program Fanfare has its own problems, without the fields")
	other := start(t, fanfare.Config{})
	_, body := ask(t, s, http.MethodGet, "/openapi.json")
	_, again := ask(t, other, http.MethodGet, "/openapi.json")
	assert.Equal(t, body, again)
}

// own is an error of the program.
type own int

func (own) Error() string    { return "own" }
func (o own) GetStatus() int { return int(o) }

// MarshalText implements encoding.TextMarshaler.
func (o own) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d own", int(o)), nil }

// hosted returns the answers of an API of the program to a name in another spelling, and to a name that is too short.
func hosted(t *testing.T) (answers string) {
	t.Helper()
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("Program", "1.0.0"))
	type in struct {
		Body struct {
			Name string `json:"name" minLength:"2"`
		}
	}
	huma.Post(api, "/greet", func(context.Context, *in) (*struct{}, error) { return nil, nil })
	for _, body := range []string{`{"Name":"Ann"}`, `{"name":"A"}`} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/greet", strings.NewReader(body)))
		answers += fmt.Sprintln(answer.Code, answer.Body)
	}
	return answers
}

// set returns a Config with one setting.
func set(name, value string) fanfare.Config {
	return fanfare.Config{Settings: map[string]string{name: value}}
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
		"another engine":                   {set("FANFARE_ENGINE", "aws"), "FANFARE_ENGINE: a Fanfare inside a program has the embedded engine"},
		"a name with a typing error":       {set("FANFARE_REACTION", "love"), "did you mean FANFARE_REACTIONS?"},
		"a value out of range":             {set("FANFARE_LIKE_WINDOW", "1h"), "FANFARE_LIKE_WINDOW: 1h0m0s is not between 10ms and 1m"},
		"two values of a setting":          {fanfare.Config{HTTPAddr: "127.0.0.1:0", Settings: map[string]string{"FANFARE_HTTP_ADDR": "127.0.0.1:1"}}, "set FANFARE_HTTP_ADDR in one of both"},
		"an issuer beside dev tokens":      {fanfare.Config{JWTIssuer: "https://issuer.example", Settings: map[string]string{"FANFARE_AUTH": "dev"}}, "set FANFARE_AUTH in one of both"},
		"a prefix without a slash":         {fanfare.Config{Prefix: "feed"}, `Prefix: "feed" is not a path such as /feed`},
		"a prefix with a slash at its end": {fanfare.Config{Prefix: "/feed/"}, `Prefix: "/feed/" is not a path`},
		"a prefix that is no clean path":   {fanfare.Config{Prefix: "/a/../b"}, `Prefix: "/a/../b" is not a path`},
		"tokens beside sessions":           {fanfare.Config{User: asks("User"), JWTIssuer: "https://issuer.example"}, "FANFARE_JWT_ISSUER: the program identifies the callers"},
		"a standby of no pair":             {fanfare.Config{Standby: true}, "FANFARE_PEER"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := fanfare.Start(t.Context(), c.cfg)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, s)
			assert.True(t, strings.HasPrefix(err.Error(), "fanfare: "), err)
		})
	}
}
