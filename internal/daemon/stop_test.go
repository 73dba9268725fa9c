package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/porttest"
	"fanfare/internal/queue/sqstest"
)

// outage is an AWS with an empty table. Its services may be away.
type outage struct {
	sqs               *sqstest.Server
	noQueues, noTable atomic.Bool
}

var longPoll = regexp.MustCompile(`"WaitTimeSeconds":\d+`)

// ServeHTTP implements http.Handler.
func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)                                   // in this process no read fails
	body = longPoll.ReplaceAll(body, []byte(`"WaitTimeSeconds":1`)) // a stop waits for the last poll
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, isQueue := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	switch {
	case isQueue && o.noQueues.Load(), !isQueue && o.noTable.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case isQueue:
		o.sqs.ServeHTTP(w, r)
	case bytes.Contains(body, []byte(`"format"`)):
		_, _ = io.WriteString(w, markOf(1)) // the client may have left
	default:
		_, _ = io.WriteString(w, "{}") // the client may have left
	}
}

// onAWS starts a daemon that uses the outage. at gets the daemon's addresses once the daemon serves.
func (o *outage) onAWS(t *testing.T, roles daemon.Roles, env ...string) (at <-chan daemon.Addresses, admin string) {
	t.Helper()
	admin = porttest.Free(t)
	cfg, err := config.Load(append(env, "FANFARE_ENGINE=aws", "FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_ADMIN_ADDR="+admin, "FANFARE_DRAIN=0s",
		"FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET="+strings.Repeat("s", 32)), config.API)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(withAWS(t.Context(), o))
	ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
	go func() {
		defer close(ready) // a failed start must not block the test
		ended <- daemon.Run(ctx, daemon.Options{Config: cfg, Roles: roles, Log: zap.NewNop(), Ready: func(a daemon.Addresses) { ready <- a }})
	}()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	return ready, admin
}

// answers requests a path on a new connection, and returns the answer, "" for none.
func answers(t *testing.T, addr, path string) (answer string, closes bool) {
	t.Helper()
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + addr + path)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.Status[:3] + " " + strings.TrimSpace(string(body)), res.Close
}

func says(t *testing.T, addr, path, want string) {
	t.Helper()
	got := ""
	disktest.Until(t, func() bool { got, _ = answers(t, addr, path); return got != "" })
	assert.Equal(t, want, got, path)
}

// An outage of SQS must neither stop reads nor prevent the start of a process.
func TestAnAPIStartsAndServesReadsWithoutItsQueues(t *testing.T) {
	t.Parallel()
	aws := &outage{sqs: sqstest.New(0)}
	aws.noQueues.Store(true)
	ready, admin := aws.onAWS(t, daemon.Roles{API: true})
	at := <-ready
	for _, addr := range []string{at.HTTP, admin} {
		says(t, addr, "/servez", `200 {"status":"serving"}`)
		says(t, addr, "/readyz", `503 {"status":"not ready","failing":["queue"]}`)
		says(t, addr, "/healthz", `200 {"status":"ok"}`)
	}
	get(t, "http://"+at.HTTP+"/v1/me", http.StatusUnauthorized)
	aws.noQueues.Store(false)
	disktest.Until(t, func() bool { ready, _ := answers(t, at.HTTP, "/readyz"); return strings.HasPrefix(ready, "200 ") })
}

// A starting process waits for any missing needed dependency, and serves when the dependency is back.
func TestAStartOutlivesAnOutageOfWhatItNeeds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		roles daemon.Roles
		away  func(*outage) *atomic.Bool
	}{
		"an api without its table":             {daemon.Roles{API: true}, func(o *outage) *atomic.Bool { return &o.noTable }},
		"a fan-out without its table":          {daemon.Roles{Fanout: true}, func(o *outage) *atomic.Bool { return &o.noTable }},
		"a fan-out without its queues":         {daemon.Roles{Fanout: true}, func(o *outage) *atomic.Bool { return &o.noQueues }},
		"a like aggregator without its queues": {daemon.Roles{Likes: true}, func(o *outage) *atomic.Bool { return &o.noQueues }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aws := &outage{sqs: sqstest.New(0)}
			row.away(aws).Store(true)
			ready, admin := aws.onAWS(t, row.roles)
			for path, want := range map[string]string{
				"/healthz": `200 {"status":"ok"}`, "/servez": `503 {"status":"starting"}`, "/readyz": `503 {"status":"starting"}`,
			} {
				says(t, admin, path, want)
			}
			assert.Empty(t, ready, "it serves")
			row.away(aws).Store(false)
			<-ready
			says(t, admin, "/servez", `200 {"status":"serving"}`)
		})
	}
}

// stream opens a live home, and returns a channel that gets the error at the stream's end.
func stream(t *testing.T, addr, token string) (ended <-chan error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/home/stream", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{}}).Do(req) //nolint:bodyclose // the goroutine below closes it
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, res.Body)
		end <- errors.Join(err, res.Body.Close())
	}()
	return end
}

// From the stop to the end of the drain, a client sees only two changes: the answer of /servez, and the
// request to use a new connection, which the balancer leads to another process. A browser does not retry a
// refused stream. So the process still accepts streams, and all streams end properly with the drain.
func TestADrainingProcessAnswersAsBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The drain is long enough for a busy machine to look at the process within it.
	at, stop := start(t, settings(t, dir, "FANFARE_METRICS_ADDR=127.0.0.1:0", "FANFARE_DRAIN=5s"))
	ann := tokens(t, dir)(t, "ann")
	called(t, at.HTTP, ann, "Ann")
	streams := []<-chan error{stream(t, at.HTTP, ann)}
	for _, addr := range []string{at.HTTP, at.Admin, at.Metrics} {
		says(t, addr, "/servez", `200 {"status":"serving"}`)
	}
	idle := &http.Client{Transport: &http.Transport{}}
	reach := func() (closes bool, err error) {
		res, err := idle.Get("http://" + at.HTTP + "/healthz")
		if err != nil {
			return false, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return res.Close, errors.Join(err, res.Body.Close())
	}
	closes, err := reach()
	require.NoError(t, err)
	require.False(t, closes, "a connection ends without a stop")
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	disktest.Until(t, func() bool { answer, _ := answers(t, at.HTTP, "/servez"); return answer == `503 {"status":"draining"}` })
	assert.Empty(t, streams[0], "the stream ended before the drain")
	streams = append(streams, stream(t, at.HTTP, ann))
	closes, err = reach()
	require.NoError(t, err, "the idle connection was cut")
	assert.True(t, closes, "the connection stays")
	for _, addr := range []string{at.Admin, at.Metrics} {
		says(t, addr, "/servez", `503 {"status":"draining"}`)
		says(t, addr, "/readyz", `503 {"status":"draining"}`)
		says(t, addr, "/healthz", `200 {"status":"ok"}`)
	}
	answered := 0
	for { // repeat until the port is closed
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + at.HTTP + "/v1/me")
		if err != nil {
			assert.True(t, errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF), "the port closed: %v", err)
			break
		}
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusUnauthorized, res.StatusCode)
		answered++
	}
	assert.Positive(t, answered, "nothing was answered in the drain")
	require.NoError(t, <-ended)
	for _, end := range streams {
		assert.NoError(t, <-end, "the stream was cut")
	}
}
