package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script answers requests in memory, one step for each request, so that tests run in virtual time.
type script struct {
	steps    []step
	requests []*http.Request
	bodies   []string
	at       []time.Time
}

// step is one answer. Status 0 means a lost connection.
type step struct {
	status int
	header http.Header
	body   string
}

var errCut = errors.New("connection cut")

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.requests, s.bodies, s.at = append(s.requests, r), append(s.bodies, string(body)), append(s.at, time.Now())
	next := s.steps[min(len(s.requests), len(s.steps))-1]
	if next.status == 0 {
		return nil, errCut
	}
	w := httptest.NewRecorder()
	if next.status < 300 && next.body != "" {
		w.Header().Set("Content-Type", strings.Split(r.Header.Get("Accept"), ",")[0])
	}
	maps.Copy(w.Header(), next.header)
	w.WriteHeader(next.status)
	if next.body != "" { // a 204 must have no body, not even an empty one
		if _, err := w.WriteString(next.body); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

func scripted(t *testing.T, s *script, options ...Option) *Client {
	t.Helper()
	c, err := New("http://fanfare.test", append([]Option{WithHTTPClient(&http.Client{Transport: s}), WithToken("t")}, options...)...)
	require.NoError(t, err)
	return c
}

func after(value string) http.Header { return http.Header{"Retry-After": {value}} }

func TestRepeatsWhereItIsSafe(t *testing.T) {
	get := func(ctx context.Context, c *Client) error { _, err := c.User(ctx, "u"); return err }
	put := func(ctx context.Context, c *Client) error { return c.Follow(ctx, "u") }
	del := func(ctx context.Context, c *Client) error { return c.DeletePost(ctx, "p") }
	post := func(ctx context.Context, c *Client) error {
		_, err := c.CreatePost(ctx, PostInput{Text: "x"})
		return err
	}
	comment := func(ctx context.Context, c *Client) error { _, err := c.CreateComment(ctx, "p", "x"); return err }
	edit := func(ctx context.Context, c *Client) error { _, err := c.EditPost(ctx, "p", PostEdit{}); return err }
	ok := step{status: 200, body: "{}"}
	gone := step{status: 404, header: http.Header{"Content-Type": {"application/problem+json"}}, body: `{"type":"not-found"}`}
	for name, tt := range map[string]struct {
		call    func(context.Context, *Client) error
		steps   []step
		sent    int
		success bool
	}{
		"GET after a cut connection":             {get, []step{{}, ok}, 2, true},
		"PUT after 503":                          {put, []step{{status: 503}, {status: 204}}, 2, true},
		"DELETE after 502 and 504":               {del, []step{{status: 502}, {status: 504}, {status: 204}}, 3, true},
		"DELETE that was done and lost":          {del, []step{{}, gone}, 2, true},
		"DELETE that was lost before a proxy":    {del, []step{{}, {status: 404, body: "<html>"}}, 2, false},
		"DELETE of what never was":               {del, []step{gone}, 1, false},
		"DELETE refused, then gone":              {del, []step{{status: 429}, gone}, 2, false},
		"PUT that was lost, of what is gone":     {put, []step{{}, gone}, 2, false},
		"POST with a key after a cut connection": {post, []step{{}, {status: 503}, {status: 201, body: "{}"}}, 3, true},
		"POST without a key is sent once":        {comment, []step{{}, ok}, 1, false},
		"POST without a key after 503":           {comment, []step{{status: 503}, ok}, 1, false},
		"POST without a key after 429":           {comment, []step{{status: 429}, ok}, 2, true},
		"PATCH is sent once":                     {edit, []step{{}, ok}, 1, false},
		"422 is final":                           {put, []step{{status: 422}, ok}, 1, false},
		"GET after 500":                          {get, []step{{status: 500}, ok}, 2, true},
		"attempts are bounded":                   {get, []step{{}}, 6, false},
		"a Retry-After beyond patience is final": {get, []step{{status: 503, header: after("3600")}, ok}, 1, false},
		"GET after an answer that is no JSON":    {get, []step{{status: 200, body: "<html>"}, ok}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{steps: tt.steps}
				err := tt.call(t.Context(), scripted(t, s))
				if (err == nil) != tt.success || len(s.requests) != tt.sent {
					t.Errorf("error %v after %d requests, want success %v after %d", err, len(s.requests), tt.success, tt.sent)
				}
			})
		})
	}
}

func TestWaitsAsLongAsRetryAfterSays(t *testing.T) {
	for name, value := range map[string]func() string{
		"seconds": func() string { return "7" },
		"date":    func() string { return time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{steps: []step{{status: 429, header: after(value())}, {status: 204}}}
				require.NoError(t, scripted(t, s).Follow(t.Context(), "u"))
				assert.Equal(t, 7*time.Second, s.at[1].Sub(s.at[0]))
			})
		})
	}
}

// The service may ask a user whose hour is used up to wait for up to an hour. The caller decides whether
// to wait, not the client.
func TestAWaitOfMoreThanAMinuteIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{status: 429, header: after("1800"), body: `{"type":"rate-limited","status":429,"detail":"try again after 2026-11-26T13:00:00Z"}`}, {status: 201}}}
		began := time.Now()
		_, err := scripted(t, s).CreatePost(t.Context(), PostInput{Text: "x"})
		p, ok := errors.AsType[*Problem](err)
		require.Truef(t, ok, "%v", err)
		assert.Equal(t, 30*time.Minute, p.RetryAfter)
		assert.Contains(t, err.Error(), "try again after 2026-11-26T13:00:00Z")
		assert.Len(t, s.requests, 1)
		assert.Equal(t, began, time.Now())
	})
}

func TestBackoffGrowsWithJitterAndHasACeiling(t *testing.T) {
	c := scripted(t, &script{}, WithAttempts(30))
	for _, tt := range []struct {
		attempt   int
		low, high time.Duration
	}{
		{1, 100 * time.Millisecond, 200 * time.Millisecond},
		{3, 400 * time.Millisecond, 800 * time.Millisecond},
		{20, maxBackoff / 2, maxBackoff},
	} {
		for jitter, want := range map[float64]time.Duration{0: tt.low, 1: tt.high} {
			c.jitter = func() float64 { return jitter }
			if got, again := c.next(t.Context(), &tries{n: tt.attempt - 1, short: tt.attempt - 1}, call{method: http.MethodGet}, errNoAnswer); !again || got != want {
				t.Errorf("backoff after attempt %d with jitter %v = %v, %v; want %v", tt.attempt, jitter, got, again, want)
			}
		}
	}
}

func TestOneKeyForAllAttemptsOfAPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{}, {status: 201, body: `{"id":"P"}`}, {status: 201, body: `{"id":"Q"}`}}}
		c := scripted(t, s)
		for range 2 {
			_, err := c.CreatePost(t.Context(), PostInput{Text: "x"})
			require.NoError(t, err)
		}
		key := func(i int) string { return s.requests[i].Header.Get("Idempotency-Key") }
		if key(0) == "" || key(0) != key(1) || key(1) == key(2) {
			t.Errorf("keys %q %q of one post and %q of the next", key(0), key(1), key(2))
		}
		if s.bodies[0] != s.bodies[1] || s.bodies[0] != `{"text":"x"}` {
			t.Errorf("bodies %q and %q", s.bodies[0], s.bodies[1])
		}
		if _, err := c.CreatePost(t.Context(), PostInput{Text: "x", IdempotencyKey: "mine"}); err != nil || key(3) != "mine" {
			t.Errorf("sent key %q, error %v", key(3), err)
		}
	})
}

func TestCancellationEndsTheWaitForARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{status: 503, header: after("30")}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := scripted(t, s).Follow(ctx, "u")
		if !Unanswered(err) || time.Since(began) != time.Second || len(s.requests) != 1 {
			t.Errorf("error %v after %v and %d requests", err, time.Since(began), len(s.requests))
		}
	})
}

func TestCancellationEndsARequestOnTheWire(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := New(server.URL)
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-arrived; cancel(errors.New("enough")) }()
	if _, err := c.User(ctx, "u"); !Unanswered(err) || !strings.Contains(err.Error(), "enough") {
		t.Errorf("error %v, want the cause of the cancellation", err)
	}
}

func TestAProblemIsTyped(t *testing.T) {
	body := `{"type":"invalid","title":"Bad value","detail":"see errors","errors":[{"field":"text","detail":"is empty"}]}`
	s := &script{steps: []step{{status: 422, header: http.Header{"Content-Type": {"application/problem+json; charset=utf-8"}}, body: body}}}
	_, err := scripted(t, s).CreatePost(t.Context(), PostInput{})
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Type != "invalid" || p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Field != "text" || Unanswered(err) {
		t.Fatalf("error %#v", err)
	}
	assert.Equal(t, "client: POST /v1/posts: 422 Bad value: see errors; text: is empty", err.Error())
}

func TestAProxysErrorPageIsAProblemToo(t *testing.T) {
	s := &script{steps: []step{{status: 404, body: "<html>\n no such\thost " + strings.Repeat("x", 5000)}}}
	_, err := scripted(t, s).Post(t.Context(), "p")
	p, ok := errors.AsType[*Problem](err)
	if !ok || !errors.Is(err, ErrNotFound) || p.Title != "Not Found" || len(p.Detail) > 200 || !strings.HasPrefix(p.Detail, "<html> no such host") {
		t.Errorf("error %v", err)
	}
}

func TestRequestsKeepTheContract(t *testing.T) {
	day := time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("", 3600))
	text := "new"
	for _, tt := range []struct {
		call              func(context.Context, *Client) error
		method, uri, body string
	}{
		{func(ctx context.Context, c *Client) error { _, err := c.Me(ctx); return err }, "GET", "/v1/me", ""},
		{func(ctx context.Context, c *Client) error {
			_, err := c.PutMe(ctx, ProfileInput{Name: "Ann"})
			return err
		}, "PUT", "/v1/me", `{"name":"Ann"}`},
		{func(ctx context.Context, c *Client) error { return c.Unfollow(ctx, "a/b?c") }, "DELETE", "/v1/me/following/a%2Fb%3Fc", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.Relationship(ctx, "a", "b"); return err }, "GET", "/v1/users/a/relationships/b", ""},
		{func(ctx context.Context, c *Client) error {
			_, err := c.EditPost(ctx, "p", PostEdit{Text: &text})
			return err
		}, "PATCH", "/v1/posts/p", `{"text":"new"}`},
		{func(ctx context.Context, c *Client) error {
			_, err := c.PostsByUser("a", PostRange{Day: "2026-03-01"}).Page(ctx, "C", 3)
			return err
		}, "GET", "/v1/users/a/posts?cursor=C&day=2026-03-01&limit=3", ""},
		{func(ctx context.Context, c *Client) error {
			_, err := c.PostsByUser("a", PostRange{Since: day, Until: day}).Page(ctx, "", 0)
			return err
		}, "GET", "/v1/users/a/posts?since=2026-03-01T11%3A00%3A00.000000005Z&until=2026-03-01T11%3A00%3A00.000000005Z", ""},
		{func(ctx context.Context, c *Client) error { return c.DeleteComment(ctx, "p", "c") }, "DELETE", "/v1/posts/p/comments/c", ""},
		{func(ctx context.Context, c *Client) error { return c.Like(ctx, "p") }, "PUT", "/v1/posts/p/like", ""},
		{func(ctx context.Context, c *Client) error { return c.Unlike(ctx, "p") }, "DELETE", "/v1/posts/p/like", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.LikeCount(ctx, "p"); return err }, "GET", "/v1/posts/p/likes/count", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.LikeOf(ctx, "p", "u"); return err }, "GET", "/v1/posts/p/likes/u", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.Home(Pull).Page(ctx, "", 1); return err }, "GET", "/v1/home?expand=view&limit=1&source=pull", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.News(ctx, "p", News{}); return err }, "GET", "/v1/home?after=p&expand=view", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.Delivery(ctx, "p"); return err }, "GET", "/v1/posts/p/delivery", ""},
		{func(ctx context.Context, c *Client) error { _, err := c.DevToken(ctx, "u", time.Hour); return err }, "POST", "/v1/dev/token", `{"user_id":"u","ttl_s":3600}`},
		{func(ctx context.Context, c *Client) error { return c.BeAway(ctx) }, "POST", "/v1/dev/away", ""},
	} {
		s := &script{steps: []step{{status: 200, body: `{"items":[]}`}}}
		if tt.method == "DELETE" || strings.HasSuffix(tt.uri, "/like") || tt.uri == "/v1/dev/away" {
			s.steps[0] = step{status: 204}
		}
		if err := tt.call(t.Context(), scripted(t, s)); err != nil {
			t.Errorf("%s %s: %v", tt.method, tt.uri, err)
			continue
		}
		r := s.requests[0]
		if r.Method != tt.method || r.URL.RequestURI() != tt.uri || s.bodies[0] != tt.body {
			t.Errorf("sent %s %s %s, want %s %s %s", r.Method, r.URL.RequestURI(), s.bodies[0], tt.method, tt.uri, tt.body)
		}
		if want := "Bearer t"; (r.Header.Get("Authorization") == want) != (tt.uri != "/v1/dev/token") {
			t.Errorf("%s has Authorization %q", tt.uri, r.Header.Get("Authorization"))
		}
	}
}

func TestNewsThatHaveNotChangedAreTheLastOnes(t *testing.T) {
	tag := http.Header{"Etag": {`W/"a"`}}
	s := &script{steps: []step{
		{status: 200, header: tag, body: `{"items":[{"like_count":7}],"unread":1}`},
		{status: 304, header: tag},
		{status: 200, header: http.Header{"Etag": {`W/"b"`}}, body: `{"items":[],"unread":0}`},
	}}
	c := scripted(t, s)
	first, err := c.News(t.Context(), "p", News{})
	require.NoError(t, err)
	assert.Equal(t, News{Items: []PostView{{HomeItem: HomeItem{LikeCount: 7}}}, Unread: 1, ETag: `W/"a"`}, first)
	second, err := c.News(t.Context(), "p", first)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	third, err := c.News(t.Context(), "p", second)
	require.NoError(t, err)
	assert.Equal(t, News{Items: []PostView{}, ETag: `W/"b"`}, third)
	for i, want := range []string{"", `W/"a"`, `W/"a"`} {
		assert.Equal(t, want, s.requests[i].Header.Get("If-None-Match"))
	}
}

func TestAllReadsEveryPageAndStopsWithTheLoop(t *testing.T) {
	pages := []step{
		{status: 200, body: `{"items":[{"user_id":"a"},{"user_id":"b"}],"next_cursor":"b"}`},
		{status: 200, body: `{"items":[],"next_cursor":"bb"}`}, // the service skipped many items
		{status: 200, body: `{"items":[{"user_id":"c"}]}`},
	}
	s := &script{steps: pages}
	edges, err := scripted(t, s).Followers("u").Collect(t.Context())
	if err != nil || len(edges) != 3 || edges[2].UserID != "c" || len(s.requests) != 3 {
		t.Fatalf("read %v in %d requests, error %v", edges, len(s.requests), err)
	}
	s = &script{steps: pages}
	for range scripted(t, s).Followers("u").All(t.Context()) {
		break
	}
	assert.Len(t, s.requests, 1, "requests for one item")
	s = &script{steps: []step{pages[0], {status: 400}}}
	_, err = scripted(t, s).Followers("u").Collect(t.Context())
	assert.Error(t, err, "a failed page was not reported")
}

func TestTokensComeFromTheirSourceForEachRequest(t *testing.T) {
	s := &script{steps: []step{{status: 204}}}
	first := scripted(t, s)
	second := first.AsToken("other")
	for _, c := range []*Client{first, second} {
		require.NoError(t, c.Follow(t.Context(), "u"))
	}
	assert.Equal(t, "Bearer tBearer other", s.requests[0].Header.Get("Authorization")+s.requests[1].Header.Get("Authorization"))
	broken := errors.New("no identity provider")
	err := first.As(func(context.Context) (string, error) { return "", broken }).Follow(t.Context(), "u")
	if !errors.Is(err, broken) || len(s.requests) != 2 {
		t.Errorf("error %v after %d requests", err, len(s.requests))
	}
}

func TestAServiceNamesTheUserInEachRequest(t *testing.T) {
	s := &script{steps: []step{{status: 204}}}
	service := scripted(t, s)
	for _, c := range []*Client{service.ActAs("auth0|5f7c"), service, service.ActAs("ann").AsToken("other"), service.ActAs("ann").ActAs("")} {
		require.NoError(t, c.Follow(t.Context(), "google-oauth2|1"))
	}
	var named []string
	for _, r := range s.requests {
		assert.Equal(t, "/v1/me/following/google-oauth2%7C1", r.URL.EscapedPath())
		named = append(named, r.Header.Get("Fanfare-User"))
	}
	assert.Equal(t, []string{"auth0|5f7c", "", "ann", ""}, named)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://elsewhere.test/", http.StatusFound))
	defer server.Close()
	c, err := New(server.URL, WithToken("secret"))
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	_, err = c.CreateComment(t.Context(), "p", "x")
	assert.True(t, Unanswered(err), "%v", err)
	assert.ErrorContains(t, err, "302 Found")
}

func TestABadBaseURLIsRefused(t *testing.T) {
	for _, base := range []string{"", "localhost:8080", "ftp://host", "http://", "http://h ost"} {
		_, err := New(base)
		assert.Errorf(t, err, "New(%q) is accepted", base)
	}
	s := &script{steps: []step{{status: 204}}}
	c, err := New("http://fanfare.test/prefix/", WithHTTPClient(&http.Client{Transport: s}))
	require.NoError(t, err)
	if err := c.Follow(t.Context(), "u"); err != nil || s.requests[0].URL.Path != "/prefix/v1/me/following/u" {
		t.Errorf("error %v, path %q", err, s.requests[0].URL.Path)
	}
}

func TestAnUneditedPostHasNoEditTime(t *testing.T) {
	raw, err := json.Marshal(Post{})
	if err != nil || strings.Contains(string(raw), "edited_at") {
		t.Errorf("encoded %s, error %v", raw, err)
	}
}
