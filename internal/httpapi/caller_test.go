package httpapi_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/auth"
	"fanfare/internal/feed"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
)

// act sends one request with the token of a service, on behalf of the named users.
func (w *world) act(t *testing.T, service, method, path, body string, users ...string) *httptest.ResponseRecorder {
	t.Helper()
	token, _, err := w.dev.Issue(service, time.Hour, auth.ActScope)
	require.NoError(t, err)
	return w.with(t, token, method, path, body, users...)
}

// with sends one request with a token, on behalf of the named users.
func (w *world) with(t *testing.T, token, method, path, body string, users ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header["Fanfare-User"] = users
	res := httptest.NewRecorder()
	w.api.ServeHTTP(res, req)
	return res
}

// A service acts with the rights of the user that its request names. The log has one line for each such
// call, at any level. If the request names no user, the service acts as itself, like any user.
func TestAServiceActsForUsers(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	w := newWorld(t, func(c *httpapi.Config) { c.Log = zap.New(core) })
	require.Equal(t, 200, w.act(t, "backend", "PUT", "/v1/me", `{"name":"secret name"}`, "auth0|5f7c").Code)
	post := w.act(t, "backend", "POST", "/v1/posts", `{"text":"secret text"}`, "auth0|5f7c")
	require.Equal(t, 201, post.Code)
	at := post.Header().Get("Location")
	problem(t, w.act(t, "backend", "DELETE", at, "", "ben"), 409, "profile-missing") // the rights are ben's
	require.Equal(t, 200, w.call(t, "auth0|5f7c", "GET", "/v1/me", "").Code)
	require.Equal(t, 200, w.act(t, "backend", "PUT", "/v1/me", `{"name":"n"}`).Code)
	require.Equal(t, 200, w.call(t, "backend", "GET", "/v1/me", "").Code, "without a name it is itself")

	lines := logged.FilterMessage("acted for a user").All()
	require.Len(t, lines, 3)
	for i, want := range []string{"PUT /v1/me for auth0|5f7c", "POST /v1/posts for auth0|5f7c", "DELETE /v1/posts/{id} for ben"} {
		fields := lines[i].ContextMap()
		assert.Equal(t, want, fmt.Sprintf("%s %s for %s", fields["method"], fields["route"], fields["user_id"]))
		assert.Equal(t, "backend", fields["service"])
		assert.NotEmpty(t, fields["request_id"])
		for name, value := range fields {
			assert.NotContains(t, fmt.Sprint(value), "secret", name)
			assert.NotContains(t, fmt.Sprint(value), "eyJ", name)
		}
	}
}

// nobody verifies any token as a token of a service whose subject is not a user id.
type nobody struct{}

func (nobody) Verify(context.Context, string) (auth.Identity, error) {
	return auth.Identity{Service: "https://client.example/1"}, nil
}

func TestOnlyTheScopeLetsATokenAct(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(c *httpapi.Config) { c.Log, c.Scopes.Act = zap.New(core), "fanfare/act" })
	w.profile(t, "ann")
	for _, user := range []string{"ben", "ann", "", "a b"} { // even its own name, or an invalid name
		res := w.call(t, "ann", "GET", "/v1/me", "", "Fanfare-User", user)
		p := problem(t, res, 403, "forbidden")
		assert.Contains(t, p.Detail, "the scope fanfare/act")
		assert.Equal(t, `Bearer realm="fanfare", error="insufficient_scope", scope="fanfare/act"`, res.Header().Get("WWW-Authenticate"))
	}
	problem(t, w.call(t, "", "GET", "/v1/me", "", "Fanfare-User", "ann"), 401, "unauthenticated")
	for name, users := range map[string][]string{"twice": {"ann", "ann"}, "empty": {""}, "not a user id": {"a/b"}, "two": {"ann,ben"}} {
		p := problem(t, w.act(t, "backend", "GET", "/v1/me", "", users...), 422, "invalid")
		require.Len(t, p.Errors, 1, name)
		assert.Equal(t, "Fanfare-User", p.Errors[0].Field)
	}
	assert.Zero(t, logged.FilterMessage("acted for a user").Len(), "nothing of this acted")

	w = newWorld(t, func(c *httpapi.Config) { c.Verifier = nobody{} })
	p := problem(t, w.act(t, "backend", "GET", "/v1/me", ""), 403, "forbidden")
	assert.Contains(t, p.Detail, "name the user in the header Fanfare-User")
	assert.Equal(t, 200, w.act(t, "backend", "PUT", "/v1/me", `{"name":"n"}`, "ann").Code)
}

// A service that acts for users deletes a user only if its token has a further scope. Any user deletes
// itself, and a service without the header does so, too.
func TestOnlyAScopeOfItsOwnLetsAServiceDeleteUsers(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(c *httpapi.Config) { c.Log, c.Scopes.Delete = zap.New(core), "fanfare/remove" })
	for _, user := range []string{"ann", "ben", "backend"} {
		w.profile(t, user)
	}
	for _, user := range []string{"ann", "backend", "nobody"} {
		res := w.act(t, "backend", "DELETE", "/v1/me", "", user)
		p := problem(t, res, 403, "forbidden")
		assert.Contains(t, p.Detail, "the scope fanfare/remove")
		assert.Equal(t, `Bearer realm="fanfare", error="insufficient_scope", scope="fanfare/remove"`, res.Header().Get("WWW-Authenticate"))
	}
	assert.Zero(t, logged.FilterMessage("acted for a user").Len(), "nothing of this acted")
	assert.Equal(t, 200, w.call(t, "ann", "GET", "/v1/me", "").Code)
	assert.Equal(t, 202, w.act(t, "backend", "DELETE", "/v1/me", "").Code, "itself")
	assert.Equal(t, 202, w.call(t, "ben", "DELETE", "/v1/me", "").Code, "itself")

	token, _, err := w.dev.Issue("backend", time.Hour, auth.ActScope, auth.DeleteScope)
	require.NoError(t, err)
	assert.Equal(t, 202, w.with(t, token, "DELETE", "/v1/me", "", "ann").Code)
	assert.Equal(t, 1, logged.FilterMessage("acted for a user").Len())
	problem(t, w.call(t, "ann", "GET", "/v1/me", ""), 409, "profile-missing")
}

// A take-down is a call of the service itself: it needs both scopes, names no user, and counts only for
// the service.
func TestOnlyAServiceWithBothScopesTakesAPostDown(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	w := newWorld(t, func(c *httpapi.Config) {
		c.Log, c.RateLimit, c.ServiceRateLimit, c.Now = zap.New(core), 1, 2, func() time.Time { return time.Unix(1e9, 0) }
	})
	w.profile(t, "ann")
	p, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "secret text"}})
	require.NoError(t, err)
	path, body := "/v1/posts/"+p.ID+"/takedown", `{"reason":"secret reason"}`
	token := func(subject string, scopes ...string) string {
		token, _, err := w.dev.Issue(subject, time.Hour, scopes...)
		require.NoError(t, err)
		return token
	}
	for scope, token := range map[string]string{
		auth.ActScope: token("moderation", auth.DeleteScope), auth.DeleteScope: token("moderation", auth.ActScope),
	} {
		res := w.with(t, token, "PUT", path, body)
		assert.Contains(t, problem(t, res, 403, "forbidden").Detail, scope)
		assert.Contains(t, res.Header().Get("WWW-Authenticate"), scope)
	}
	problem(t, w.call(t, "ann", "PUT", path, body), 403, "forbidden")
	res := w.with(t, token(feed.Operator, auth.ActScope, auth.DeleteScope), "PUT", path, body)
	assert.Contains(t, problem(t, res, 403, "forbidden").Detail, "another sub", "its take-downs would look like the ones of operators")
	require.Zero(t, logged.Len(), "nobody acted")
	both := token("moderation", auth.ActScope, auth.DeleteScope)
	for i, users := range [][]string{nil, {"ann"}, {"a b", ""}} {
		res := w.with(t, both, "PUT", path, body, users...)
		require.Equal(t, 200, res.Code, res.Body)
		assert.Contains(t, res.Body.String(), `"by":"moderation"`)
		lines := logged.All()
		require.Len(t, lines, i+1)
		fields := lines[i].ContextMap()
		assert.Equal(t, "takes a post down moderation "+p.ID, fmt.Sprint(lines[i].Message, " ", fields["service"], " ", fields["post_id"]))
		assert.NotContains(t, fmt.Sprint(fields), "secret")
	}
	for range 16 {
		require.Equal(t, 200, w.with(t, both, "PUT", path, body).Code)
	}
	problem(t, w.with(t, both, "PUT", path, body), 429, "rate-limited") // the service has used its 20 requests
	require.Equal(t, 404, w.call(t, "ann", "GET", "/v1/posts/"+p.ID, "").Code, "ann's own calls are left")
	// A service may act for nobody although its subject is not a user id.
	w = newWorld(t, func(c *httpapi.Config) { c.Verifier = nobody{} })
	problem(t, w.with(t, "x", "PUT", path, body), 403, "forbidden")
}

// The calls of a service count for it, and for the user that it names.
func TestAServiceHasALimitOfItsOwn(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w := newWorld(t, func(c *httpapi.Config) {
		c.RateLimit, c.ServiceRateLimit = 1, 2
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	statuses := func(service string, n int, user func(i int) string) (found []int) {
		for i := range n {
			found = append(found, w.act(t, service, "GET", "/v1/me", "", user(i)).Code)
		}
		return found
	}
	repeated := func(status, n int) []int { return slices.Repeat([]int{status}, n) }
	ann := func(int) string { return "ann" }
	others := func(i int) string { return fmt.Sprint("user", i) }
	assert.Equal(t, append(repeated(409, 10), 429), statuses("one", 11, ann), "as many as ann may")
	problem(t, w.call(t, "ann", "GET", "/v1/me", ""), 429, "rate-limited")
	assert.Equal(t, append(repeated(409, 9), 429), statuses("one", 10, others), "20 in all for the service")
	res := w.act(t, "one", "GET", "/v1/me", "", "ben")
	problem(t, res, 429, "rate-limited")
	assert.Equal(t, "1", res.Header().Get("Retry-After"))
	assert.Equal(t, repeated(409, 1), statuses("two", 1, func(int) string { return "ben" }), "another service")
	problem(t, w.call(t, "one", "GET", "/v1/me", ""), 409, "profile-missing") // a service that names no user is a user
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	assert.Equal(t, append(repeated(409, 2), 429), statuses("one", 3, others), "after a second")
}

// A like takes five tokens from its user, and so does the end of a like. Each takes one token from the
// acting service.
func TestALikeCountsFiveTimesForItsUser(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(c *httpapi.Config) {
		c.RateLimit, c.ServiceRateLimit = 1, 1
		c.Now = func() time.Time { return now }
	})
	const path = "/v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV/like"
	for _, method := range []string{"PUT", "DELETE"} {
		user := "liker" + method
		assert.NotEqual(t, 429, w.call(t, user, method, path, "").Code)
		assert.NotEqual(t, 429, w.call(t, user, method, path, "").Code)
		problem(t, w.call(t, user, "GET", "/v1/me", ""), 429, "rate-limited") // all ten tokens are used
	}
	for i := range 10 {
		assert.NotEqual(t, 429, w.act(t, "one", "PUT", path, "", fmt.Sprint("fan", i)).Code, i)
	}
	problem(t, w.act(t, "one", "GET", "/v1/me", "", "ben"), 429, "rate-limited")
	assert.NotEqual(t, 429, w.call(t, "fan0", "PUT", path, "").Code, "the like by the service took five of ten")
	problem(t, w.call(t, "fan0", "GET", "/v1/me", ""), 429, "rate-limited")
}

func TestAServicesRequestsLeaveSlotsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits = httpapi.Limits{Requests: 50, ServiceRequests: 40} })
		leave := make(chan struct{})
		network := w.serve(t)
		w.profile(t, "ben")
		w.store.get = func(context.Context) error { <-leave; return nil }
		token, _, err := w.dev.Issue("backend", time.Hour, auth.ActScope)
		require.NoError(t, err)
		conns := make([]net.Conn, 60)
		for i := range conns {
			conns[i] = network.send(t, w.request(t, "", "GET /v1/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV",
				"Authorization: Bearer "+token, fmt.Sprint("Fanfare-User: user", i)))
		}
		synctest.Wait()
		assert.Equal(t, http.StatusOK, w.call(t, "ben", "GET", "/v1/me", "").Code)
		close(leave)
		assert.Equal(t, map[int]int{http.StatusNotFound: 40, http.StatusServiceUnavailable: 20}, answers(t, conns))
	})
}

// The service reads the answers, so they count for the service and not for its users.
func TestAnswersThatAServiceDoesNotReadCountAsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits = httpapi.Limits{ServiceUnread: 1 << 20, UserUnread: 4 << 20} })
		w.profile(t, "ann")
		for range 12 {
			_, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: strings.Repeat("😀", 5000)}})
			require.NoError(t, err)
		}
		network := w.serve(t)
		token, _, err := w.dev.Issue("backend", time.Hour, auth.ActScope)
		require.NoError(t, err)
		conns := make([]net.Conn, 10)
		for i := range conns { // an answer has 12 posts of 20 kB
			conns[i] = network.send(t, w.request(t, "", "GET /v1/users/ann/posts?limit=100", "Authorization: Bearer "+token, fmt.Sprint("Fanfare-User: user", i%2)))
			synctest.Wait()
		}
		assert.Equal(t, http.StatusOK, w.call(t, "user0", "GET", "/v1/users/ann/posts?limit=100", "").Code, "the user itself")
		assert.Equal(t, map[int]int{http.StatusOK: 4, http.StatusServiceUnavailable: 6}, answers(t, conns))
		assert.Equal(t, http.StatusOK, w.act(t, "backend", "GET", "/v1/users/ann/posts", "", "user0").Code, "after it has read")
	})
}

func TestStreamsOfAServiceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *httpapi.Config) { c.Limits = httpapi.Limits{ServiceStreams: 2} })
		for _, user := range []string{"ann", "ben", "cat"} {
			w.profile(t, user)
		}
		network := w.serve(t)
		token, _, err := w.dev.Issue("backend", time.Hour, auth.ActScope)
		require.NoError(t, err)
		open := func(user string) *events {
			return w.stream(t, network, "", "", "Authorization: Bearer "+token, "Fanfare-User: "+user)
		}
		first := open("ann")
		assert.Equal(t, 200, first.status)
		assert.Equal(t, 200, open("ben").status)
		assert.Equal(t, http.StatusTooManyRequests, open("cat").status)
		assert.Equal(t, 200, w.stream(t, network, "cat", "").status, "of the user itself")
		require.NoError(t, first.Close())
		synctest.Wait()
		again := open("cat")
		assert.Equal(t, 200, again.status)
		began := time.Now()
		_, err = again.next()
		require.Error(t, err)
		assert.Equal(t, time.Hour+30*time.Second, time.Since(began), "it ends with the token of the service")
	})
}

// A page must not hold the token of a service, so the API does not let browsers send the header.
func TestPagesCannotAct(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Origins = []string{"https://app.example"} })
	res := w.call(t, "", "OPTIONS", "/v1/posts", "", "Origin", "https://app.example",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,fanfare-user")
	require.Equal(t, 204, res.Code)
	assert.NotContains(t, strings.ToLower(res.Header().Get("Access-Control-Allow-Headers")), "fanfare-user")
}

// FuzzUserHeader checks that a service acts for exactly the user whose id the header has, or is refused.
func FuzzUserHeader(f *testing.F) {
	for _, user := range []string{"ann", "auth0|5f7c", "000123.a.0456", "", ".", "a b", "a,b", "ann ", "\x00", "é", strings.Repeat("a", 65)} {
		f.Add(user)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, user string) {
		res := w.act(t, "backend", "PUT", "/v1/me", `{"name":"n"}`, user)
		if !id.ValidUser(user) {
			problem(t, res, 422, "invalid")
			return
		}
		require.Equal(t, 200, res.Code)
		require.Contains(t, res.Body.String(), `"id":"`+user+`"`)
	})
}
