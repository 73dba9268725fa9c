package httpapi_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
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
)

// site identifies the callers of a test by two headers. The user "down" is one whose session cannot be read.
func site(c *httpapi.Config) {
	c.Verifier, c.Tokens = nil, nil
	c.Site = &auth.Site{
		User: func(r *http.Request) (string, error) {
			if r.Header.Get("User") == "down" {
				return "ann", errors.New("a secret of the store")
			}
			return r.Header.Get("User"), nil
		},
		Service: func(r *http.Request) (string, error) { return r.Header.Get("Service"), nil },
	}
}

func TestASiteIdentifiesItsUsers(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zapcore.InfoLevel)
	w := newWorld(t, site, func(c *httpapi.Config) { c.Log = zap.New(core) })
	res := w.call(t, "", "PUT", "/v1/me", `{"name":"Ann"}`, "User", "ann", "Authorization", "Bearer of nothing")
	require.Equal(t, http.StatusOK, res.Code, "a token does not matter")
	assert.Contains(t, w.call(t, "", "GET", "/v1/me", "", "User", "ann").Body.String(), `"Ann"`)
	for name, detail := range map[string]string{
		"":     "nobody is signed in: sign in at this site",
		"down": "nobody is signed in: sign in at this site",
		"a#b":  "the name in the session is not a user id",
	} {
		res := w.call(t, "", "GET", "/v1/me", "", "User", name)
		assert.Contains(t, problem(t, res, http.StatusUnauthorized, "unauthenticated").Detail, detail)
		assert.Equal(t, `Bearer realm="fanfare"`, res.Header().Get("WWW-Authenticate"))
		assert.NotContains(t, res.Body.String(), "secret")
	}
	failed := logged.FilterMessage("the site could not identify a caller").All()
	require.Len(t, failed, 1)
	assert.Equal(t, "a secret of the store", errorOf(failed[0]))
	problem(t, w.call(t, "", "POST", "/v1/dev/token", `{"user_id":"ann"}`), http.StatusNotFound, "not-found")
	assert.Equal(t, http.StatusOK, w.call(t, "", "GET", "http://feed.example.org/v1/me", "", "User", "ann").Code, "any name of the site")
	problem(t, w.call(t, "", "GET", "/v1/me", "", "User", "ann", "Fanfare-User", "bob"), http.StatusForbidden, "forbidden")
}

// errorOf returns the error of a line of the log.
func errorOf(line observer.LoggedEntry) string {
	text, _ := line.ContextMap()["error"].(string)
	return text
}

func TestASiteIdentifiesItsServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, site)
	require.Equal(t, http.StatusOK, w.call(t, "", "PUT", "/v1/me", `{"name":"Ann"}`, "Service", "shop", "User", "down", "Fanfare-User", "ann").Code)
	post, err := w.cfg.Feed.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "Forged shoes"}})
	require.NoError(t, err)
	down := "/v1/posts/" + post.ID + "/takedown"
	problem(t, w.call(t, "", "PUT", down, `{"reason":"forged"}`, "User", "ann"), http.StatusForbidden, "forbidden")
	require.Equal(t, http.StatusOK, w.call(t, "", "PUT", down, `{"reason":"forged"}`, "Service", "shop").Code)
	problem(t, w.call(t, "", "GET", "/v1/me", "", "Service", "shop"), http.StatusForbidden, "forbidden")
	problem(t, w.call(t, "", "GET", "/v1/me", "", "Service", strings.Repeat("s", 256)), http.StatusUnauthorized, "unauthenticated")
	require.Equal(t, http.StatusAccepted, w.call(t, "", "DELETE", "/v1/me", "", "Service", "shop", "Fanfare-User", "ann").Code)
}

// The browser adds the cookies of a session to a request of any page, so the page of another site must not change anything.
func TestAPageOfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, site, func(c *httpapi.Config) { c.Origins = []string{"https://app.example"} })
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"the site's own page":             {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com"}, http.StatusOK},
		"a program":                       {nil, http.StatusOK},
		"another site":                    {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, http.StatusForbidden},
		"another name of the same domain": {[]string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example.com"}, http.StatusForbidden},
		"another site in an old browser":  {[]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"an allowed origin":               {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://app.example"}, http.StatusOK},
	} {
		res := w.call(t, "", "PUT", "/v1/me", `{"name":"Ann"}`, append([]string{"User", "ann"}, c.header...)...)
		assert.Equal(t, c.want, res.Code, name)
	}
	res := w.call(t, "", "GET", "/v1/me", "", "User", "ann", "Sec-Fetch-Site", "cross-site", "Origin", "https://app.example")
	assert.Equal(t, "200 true", res.Result().Status[:3]+" "+res.Header().Get("Access-Control-Allow-Credentials"))
	other := newWorld(t, func(c *httpapi.Config) { c.Origins = []string{"https://app.example"} })
	other.profile(t, "ann")
	res = other.call(t, "ann", "PUT", "/v1/me", `{"name":"Ann"}`, "Sec-Fetch-Site", "cross-site", "Origin", "https://app.example")
	assert.Equal(t, "200 ", res.Result().Status[:3]+" "+res.Header().Get("Access-Control-Allow-Credentials"), "no page has the token of another site")
}

// A stream ends soon after the session of its user.
func TestAStreamEndsSoonAfterItsSession(t *testing.T) {
	for after := time.Duration(0); after < 40*time.Second; after += 4 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			var signedOut atomic.Bool
			w := newWorld(t, func(c *httpapi.Config) {
				c.Site = &auth.Site{User: func(*http.Request) (string, error) {
					if signedOut.Load() {
						return "", nil
					}
					return "ann", nil
				}}
			})
			w.profile(t, "ann")
			e := w.stream(t, w.serve(t), "", "")
			require.Equal(t, http.StatusOK, e.status)
			<-time.After(after)
			assert.Equal(t, w.posts(t, "ann", 1), e.entries(t, 1), "the session lasts")
			signedOut.Store(true)
			began := time.Now()
			_, err := e.next()
			assert.Equal(t, io.EOF, err)
			assert.LessOrEqual(t, time.Since(began), 15*time.Second)
		})
	}
}
