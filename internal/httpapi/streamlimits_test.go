package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/auth"
	"fanfare/internal/httpapi"
)

// A replay counts against the next streams of its user. It also counts against the next requests of the
// user, and of a service that opened the stream.
func TestAReplayCountsAgainstTheNextRequests(t *testing.T) {
	for name, c := range map[string]struct {
		limit  func(*httpapi.Config)
		header []string
	}{
		"user":    {func(c *httpapi.Config) { c.RateLimit = 5 }, nil},
		"service": {func(c *httpapi.Config) { c.ServiceRateLimit = 5 }, []string{"Fanfare-User: ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.profile(t, "ann")
				posts := w.posts(t, "ann", 200)
				const units = 1050 // 200 posts of 20,064 bytes, a unit for each 4,096 bytes, and the references to the posts
				limited := w.cfg
				c.limit(&limited)
				var err error
				w.api, err = httpapi.New(limited)
				require.NoError(t, err)
				token, _, err := w.dev.Issue("ann", time.Hour, scopes(len(c.header))...)
				require.NoError(t, err)
				header := slices.Concat(c.header, []string{"Authorization: Bearer " + token})
				network := w.serve(t)
				e := w.stream(t, network, "", posts[0], header...)
				e.entries(t, len(posts)-1)
				require.NoError(t, e.Close())
				synctest.Wait()
				refused := w.stream(t, network, "", "", header...)
				assert.Equal(t, http.StatusTooManyRequests, refused.status)
				<-time.After(10 * time.Second)
				answered := 0
				for ; ; answered++ {
					res, err := http.ReadResponse(bufio.NewReader(network.send(t, w.request(t, "", "GET /v1/me", header...))), nil)
					require.NoError(t, err)
					require.NoError(t, res.Body.Close())
					if res.StatusCode == http.StatusTooManyRequests {
						break
					}
				}
				assert.InDelta(t, 50-1-units/20+50, answered, 5, "of 50 tokens, and 50 more")
			})
		})
	}
}

// scopes returns the scopes of a service, or none if n is 0.
func scopes(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{auth.ActScope}
}

// A stream ends at the time from which a request with its token is refused. Neither the interval of
// heartbeats nor an issuer that does not answer changes this time.
func TestAStreamEndsWithItsToken(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 14 * time.Second, 15 * time.Second, 16 * time.Second, 61 * time.Second, time.Hour} {
		for _, asked := range []string{"an issuer", "an issuer that does not answer"} {
			t.Run(fmt.Sprint(ttl, " ", asked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var silent atomic.Bool
					w := newWorld(t, func(c *httpapi.Config) {
						c.Verifier = verifying{c.Verifier, func() error {
							if silent.Load() {
								return &auth.UnavailableError{Err: errors.New("no answer")}
							}
							return nil
						}}
					})
					network := w.serve(t)
					w.profile(t, "ann")
					token, expires, err := w.dev.Issue("ann", ttl)
					require.NoError(t, err)
					<-time.After(300 * time.Millisecond)
					e := w.stream(t, network, "", "", "Authorization: Bearer "+token)
					require.Equal(t, http.StatusOK, e.status)
					silent.Store(asked != "an issuer")
					_, err = e.next()
					assert.Equal(t, io.EOF, err)
					assert.Equal(t, 30*time.Second, time.Since(expires), "the leeway of clocks")
					silent.Store(false)
					problem(t, w.call(t, "", "GET", "/v1/home/stream", "", "Authorization", "Bearer "+token), http.StatusUnauthorized, "unauthenticated")
				})
			})
		}
	}
}

// A stream whose token is refused for a reason other than its age ends within 15 seconds.
func TestAStreamEndsSoonAfterItsTokenIsRefused(t *testing.T) {
	for after := time.Duration(0); after < 40*time.Second; after += 4 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			var withdrawn atomic.Bool
			w := newWorld(t, func(c *httpapi.Config) {
				c.Verifier = verifying{c.Verifier, func() error {
					if withdrawn.Load() {
						return &auth.InvalidTokenError{Reason: "its key is gone"}
					}
					return nil
				}}
			})
			w.profile(t, "ann")
			e := w.stream(t, w.serve(t), "ann", "")
			<-time.After(after)
			withdrawn.Store(true)
			began := time.Now()
			_, err := e.next()
			assert.Equal(t, io.EOF, err)
			assert.LessOrEqual(t, time.Since(began), 15*time.Second)
		})
	}
}

// A removed user's streams end, and the user opens no new stream.
func TestTheStreamsOfARemovedUserEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile(t, "ann")
		network := w.serve(t)
		e := w.stream(t, network, "ann", "")
		<-time.After(time.Minute)
		require.Equal(t, http.StatusAccepted, w.call(t, "ann", "DELETE", "/v1/me", "").Code)
		began := time.Now()
		_, err := e.next()
		assert.Equal(t, io.EOF, err)
		assert.LessOrEqual(t, time.Since(began), time.Minute)
		assert.Equal(t, 1, w.counted.endedBy("removed"))
		problem(t, w.call(t, "ann", "GET", "/v1/home/stream", ""), http.StatusConflict, "profile-missing")
		w.profile(t, "ann")
		assert.Equal(t, http.StatusOK, w.stream(t, network, "ann", "").status)
	})
}

// verifying is a Verifier that fails on demand.
type verifying struct {
	auth.Verifier
	fails func() error
}

func (v verifying) Verify(ctx context.Context, token string) (auth.Identity, error) {
	if err := v.fails(); err != nil {
		return auth.Identity{}, err
	}
	return v.Verifier.Verify(ctx, token)
}
