package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/auth"
	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/httpapi"
)

// line is a record of about 1,000 bytes.
var line = `{"type":"post","text":"` + strings.Repeat("x", 1000) + `"}` + "\n"

// exporting makes exports of n lines. It calls each before each line, with the number of the line.
func exporting(n int, each func(ctx context.Context, i int) error) func(*httpapi.Config) {
	return func(c *httpapi.Config) {
		c.Export = func(ctx context.Context, _ string, out io.Writer) error {
			for i := range n {
				if err := each(ctx, i); err != nil {
					return err
				}
				if _, err := io.WriteString(out, line); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func nothing(context.Context, int) error { return nil }

// export requests an export and returns the status. took waits until the export has ended, and returns
// the lines of the export and the reason for its end.
func (w *world) export(t *testing.T, network pipes, user string) (status int, took func() (string, error)) {
	t.Helper()
	conn := network.send(t, w.request(t, user, "GET /v1/me/export"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // took closes it
	require.NoError(t, err)
	return res.StatusCode, func() (string, error) {
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		return string(all), err
	}
}

func TestAnExportHasALastLine(t *testing.T) {
	for _, n := range []int{0, 1, 3000} { // 3,000 lines are far above the bound of a user's answers
		w := newWorld(t, exporting(n, nothing), func(c *httpapi.Config) { c.Limits = httpapi.Limits{UserUnread: 1 << 20} })
		problem(t, w.call(t, "ann", "GET", "/v1/me/export", ""), 409, "profile-missing")
		w.profile(t, "ann")
		for range 2 { // one after another
			res := w.call(t, "ann", "GET", "/v1/me/export", "")
			require.Equal(t, 200, res.Code)
			assert.Equal(t, "application/x-ndjson", res.Header().Get("Content-Type"))
			assert.Equal(t, strings.Repeat(line, n)+fmt.Sprintf(`{"type":"end","records":%d}`+"\n", n), res.Body.String())
		}
		res := w.call(t, "ann", "HEAD", "/v1/me/export", "")
		assert.Equal(t, 200, res.Code)
		assert.Empty(t, res.Body.String())
	}
}

func TestAnExportIsForTheUsersOwnToken(t *testing.T) {
	w := newWorld(t, exporting(1, nothing))
	w.profile(t, "ann")
	problem(t, w.act(t, "backend", "GET", "/v1/me/export", "", "ann"), 403, "forbidden")
	token, _, err := w.dev.Issue("backend", time.Hour, auth.ActScope, auth.DeleteScope)
	require.NoError(t, err)
	problem(t, w.with(t, token, "GET", "/v1/me/export", "", "ann"), 403, "forbidden")
	problem(t, w.call(t, "", "GET", "/v1/me/export", ""), 401, "unauthenticated")
}

// A user has one export at a time, which delays no other user, and a process has a bounded number of exports.
// A client that reads nothing is cut.
func TestExportsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, exporting(100, nothing))
		network := w.serve(t)
		user := func(i int) string { return fmt.Sprint("user", i) }
		for i := range 34 {
			w.profile(t, user(i))
		}
		var first func() (string, error)
		for i := range 32 { // nobody reads these exports
			status, took := w.export(t, network, user(i))
			require.Equal(t, 200, status)
			if i == 0 {
				first = took
			}
		}
		res := w.call(t, user(0), "GET", "/v1/me/export", "")
		assert.Contains(t, problem(t, res, 429, "rate-limited").Detail, "under way")
		assert.Equal(t, "30", res.Header().Get("Retry-After"))
		problem(t, w.call(t, user(33), "GET", "/v1/me/export", ""), 503, "unavailable")
		assert.Equal(t, 200, w.call(t, user(0), "GET", "/v1/me", "").Code)
		all, err := first()
		require.NoError(t, err)
		assert.Equal(t, 101, strings.Count(all, "\n"))
		synctest.Wait()
		assert.Equal(t, 200, w.call(t, user(0), "GET", "/v1/me/export", "").Code)
		<-time.After(6 * time.Second)
		assert.Equal(t, 200, w.call(t, user(1), "GET", "/v1/me/export", "").Code, "its first one was cut")
	})
}

// A user has three exports at once, and then one in ten minutes. A client that was interrupted may try again.
func TestExportsOfAUserAreBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, exporting(1, nothing))
		w.profile(t, "ann")
		w.profile(t, "ben")
		exports := func(user string) (n int) {
			for range 100 {
				if w.call(t, user, "GET", "/v1/me/export", "").Code == 200 {
					n++
				}
				assert.Equal(t, 200, w.call(t, user, "HEAD", "/v1/me", "").Code, "nothing else waits")
			}
			return n
		}
		assert.Equal(t, 3, exports("ann"))
		res := w.call(t, "ann", "GET", "/v1/me/export", "")
		assert.Contains(t, problem(t, res, 429, "rate-limited").Detail, "lately")
		assert.Equal(t, "600", res.Header().Get("Retry-After"))
		assert.Equal(t, 3, exports("ben"))
		<-time.After(10 * time.Minute)
		assert.Equal(t, 1, exports("ann"))
		<-time.After(time.Hour)
		assert.Equal(t, 3, exports("ann"))
	})
}

// An export that fails before its end has no last line, and its connection is cut. An export that fails
// before its first byte is a problem.
func TestAnExportThatEndsEarlyShowsIt(t *testing.T) {
	failed := errors.New("the table is away")
	failing := func(at int) func(*httpapi.Config) {
		return exporting(10, func(_ context.Context, i int) error {
			if i == at {
				return failed
			}
			return nil
		})
	}
	w := newWorld(t, failing(0))
	w.profile(t, "ann")
	problem(t, w.call(t, "ann", "GET", "/v1/me/export", ""), 503, "unavailable")

	var withdrawn atomic.Bool
	slow := exporting(100, func(ctx context.Context, _ int) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	for name, row := range map[string]struct {
		change func(*httpapi.Config)
		end    func(stop func())
		least  int
	}{
		"the table fails": {failing(4), func(func()) {}, 3},
		"a panic": {exporting(10, func(_ context.Context, i int) error {
			if i == 5 {
				panic("a defect")
			}
			return nil
		}), func(func()) {}, 3},
		"the process stops":      {slow, func(stop func()) { <-time.After(5 * time.Second); stop() }, 3},
		"its token is withdrawn": {slow, func(func()) { withdrawn.Store(true) }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				withdrawn.Store(false)
				w := newWorld(t, row.change, func(c *httpapi.Config) {
					c.Verifier = verifying{c.Verifier, func() error {
						if withdrawn.Load() {
							return &auth.InvalidTokenError{Reason: "its key is gone"}
						}
						return nil
					}}
				})
				network := w.serve(t)
				w.profile(t, "ann")
				ctx, stop := context.WithCancel(t.Context())
				stopped := make(chan error, 1)
				go func() { stopped <- w.api.Run(ctx) }()
				status, took := w.export(t, network, "ann")
				require.Equal(t, 200, status)
				go row.end(stop)
				all, err := took()
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.NotContains(t, all, `"type":"end"`)
				assert.GreaterOrEqual(t, strings.Count(all, "\n"), row.least)
				assert.Less(t, strings.Count(all, "\n"), 20)
				synctest.Wait()
				withdrawn.Store(false)
				if name == "the process stops" {
					problem(t, w.call(t, "ann", "GET", "/v1/me/export", ""), 503, "unavailable")
				}
				stop()
				require.NoError(t, <-stopped)
			})
		})
	}
}

// If a token expires before an export has sent a byte, the answer is the usual refusal, because no retry
// with this token can succeed.
func TestAnExportWhoseTokenEndsBeforeItsFirstLineIsUnauthenticated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, exporting(1, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return fault.Wrap("table", context.Cause(ctx))
		}))
		w.profile(t, "ann")
		problem(t, w.call(t, "ann", "GET", "/v1/me/export", ""), 401, "unauthenticated") // the token expired after an hour
	})
}

// A stopping process begins no export, even if its streams end before all functions that wait for the
// stop have run.
func TestNoExportBeginsOnceTheProcessStops(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, exporting(1, nothing))
			w.profile(t, "ann")
			ctx, stop := context.WithCancel(t.Context())
			stopped := make(chan error, 1)
			go func() { stopped <- w.api.Run(ctx) }()
			for range 50_000 {
				context.AfterFunc(ctx, func() {})
			}
			synctest.Wait()
			stop()
			require.NoError(t, <-stopped)
			synctest.Wait()
			problem(t, w.call(t, "ann", "GET", "/v1/me/export", ""), 503, "unavailable")
		})
	}
}

// A user pays for the reads of an export: above the user's rate the export waits, and the user's next
// request waits, too.
func TestAnExportIsChargedWhatItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, lines, units = 10, 50, 100
		w := newWorld(t, exporting(lines, func(ctx context.Context, _ int) error { access.Cause(ctx, units); return nil }),
			func(c *httpapi.Config) { c.RateLimit = rate })
		w.profile(t, "ann")
		began := time.Now()
		res := w.call(t, "ann", "GET", "/v1/me/export", "")
		require.Equal(t, 200, res.Code)
		require.Contains(t, res.Body.String(), `"records":50`)
		// The export costs 250 tokens. The bucket has 98 of 100 tokens, and gets 10 tokens a second.
		assert.InDelta(t, (250.0-98)/rate, time.Since(began).Seconds(), 0.2)
		res = w.call(t, "ann", "GET", "/v1/me", "")
		problem(t, res, 429, "rate-limited")
		assert.Equal(t, 200, w.call(t, "ben", "PUT", "/v1/me", `{"name":"n"}`).Code)
	})
}
