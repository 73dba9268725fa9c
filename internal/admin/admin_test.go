package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

func TestHealthWaitsTwoSecondsForEachAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		h := admin.NewHealth(admin.Check{Name: "table", Ask: stuck}, admin.Check{Name: "queue", Ask: stuck},
			admin.Check{Name: "keys", Ask: func(context.Context) error { return nil }})
		start := time.Now()
		failing := h.Failing(t.Context())
		if len(failing) != 2 || failing[0].Name != "table" || failing[1].Name != "queue" || time.Since(start) != 2*time.Second {
			t.Errorf("failing are %v after %s", failing, time.Since(start))
		}
	})
}

// Health runs a check at most once a second, however many callers request /readyz.
func TestReadinessAsksOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, at atomic.Int64
		var away atomic.Bool
		h := admin.NewHealth(admin.Check{Name: "table", Ask: func(ctx context.Context) error {
			asked.Add(1)
			assert.LessOrEqual(t, at.Add(1), int64(1), "two checks at once")
			defer at.Add(-1)
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}})
		ready := func(ctx context.Context) int {
			res := httptest.NewRecorder()
			h.Ready(res, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
			return res.Code
		}
		impatient, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { ready(impatient) }) // this caller begins the check and leaves
		synctest.Wait()
		cancel()
		for range 300 {
			wg.Go(func() {
				if code := ready(t.Context()); code != http.StatusOK {
					t.Errorf("answered %d", code)
				}
			})
		}
		wg.Wait()
		away.Store(true)
		<-time.After(999 * time.Millisecond) // virtual time
		if code := ready(t.Context()); code != http.StatusOK || asked.Load() != 1 {
			t.Errorf("within a second: %d after %d checks", code, asked.Load())
		}
		<-time.After(time.Millisecond)
		if code := ready(t.Context()); code != http.StatusServiceUnavailable || asked.Load() != 2 {
			t.Errorf("after a second: %d after %d checks", code, asked.Load())
		}
	})
}

func TestACheckThatPanicsFails(t *testing.T) {
	h := admin.NewHealth(admin.Check{Name: "table", Ask: func(context.Context) error { panic("boom") }})
	if failing := h.Failing(t.Context()); len(failing) != 1 || failing[0].Name != "table" {
		t.Errorf("failing are %v", failing)
	}
}

func TestAWarningIsNamedByAReadyProcess(t *testing.T) {
	h := admin.NewHealth(admin.Check{Name: "little room", Ask: func(context.Context) error { return errors.New("low") }, Warn: true})
	w := httptest.NewRecorder()
	h.Ready(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
	if want := `{"status":"ready","warnings":["little room"]}`; w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	assert.Equal(t, http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}, w.Header())
	h.Drain()
	w = httptest.NewRecorder()
	h.Ready(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
	assert.Equal(t, http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "Retry-After": {"1"}}, w.Header())
}

func TestDrainingIsNotReadyButAlive(t *testing.T) {
	h := admin.NewHealth()
	h.Drain()
	for path, want := range map[string]int{
		"/readyz": http.StatusServiceUnavailable, "/servez": http.StatusServiceUnavailable, "/healthz": http.StatusOK, "/metrics": http.StatusOK,
	} {
		assert.Equalf(t, want, call(t, admin.Config{Health: h}, http.MethodGet, path, nil, ""), "%s answered", path)
	}
}

// A balancer must not remove a process because of a dependency that all processes share, and must not wait for
// such a dependency.
func TestAProcessServesWithoutItsDependenciesAndUnderLoad(t *testing.T) {
	h := admin.NewHealth(admin.Check{Name: "queue", Needed: true, Ask: func(context.Context) error {
		t.Error("the queue was asked")
		return errors.New("away")
	}})
	h.Watch(func() bool { return true })
	for address, handler := range map[string]http.Handler{
		"admin": admin.NewHandler(admin.Config{Metrics: prometheus.NewRegistry(), Health: h}), "metrics": admin.NewMetricsHandler(prometheus.NewRegistry(), h),
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/servez", http.NoBody))
		assert.Equal(t, `200 {"status":"serving"}`, fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())), address)
	}
}

// call makes one request to a handler and returns the status of the answer, which must have a body.
func call(t *testing.T, c admin.Config, method, path string, header http.Header, body string) int {
	t.Helper()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "up", Help: "Whether it is up."}))
	c.Metrics = metrics
	if c.Health == nil {
		c.Health = admin.NewHealth()
	}
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	req.Host = "127.0.0.1:9090"
	for name, values := range header {
		req.Header[name] = values
		if name == "Host" {
			req.Host = values[0]
		}
	}
	res := httptest.NewRecorder()
	admin.NewHandler(c).ServeHTTP(res, req)
	assert.NotEmptyf(t, res.Body, "%s %s answered %d with nothing", method, path, res.Code)
	return res.Code
}

// A page of a stranger can give its own host name the address of this machine, to read the
// answers.
func TestOnlyRequestsForThisHostAreAnswered(t *testing.T) {
	for host, want := range map[string]int{
		"127.0.0.1:9090": 200, "127.0.0.1": 200, "[::1]:9090": 200, "[::1]": 200, "10.1.2.3:9090": 200,
		"localhost": 200, "LocalHost:9090": 200, "ops.internal:9090": 200, "": 200,
		"evil.example": 421, "evil.example:9090": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example:9090": 421, "xlocalhost": 421,
	} {
		for _, path := range []string{"/metrics", "/healthz", "/debug/pprof/cmdline", "/admin/dead-letters/posts?limit=1"} {
			c := admin.Config{Host: "ops.internal", Domain: admin.Domain{Letters: &letters{}}, Profiles: true}
			got := call(t, c, http.MethodGet, path, http.Header{"Host": {host}}, "")
			assert.Equalf(t, want, got, "host %q, %s: answered", host, path)
		}
	}
	got := call(t, admin.Config{}, http.MethodGet, "/healthz", http.Header{"Host": {"ops.internal"}}, "")
	assert.Equalf(t, 421, got, "an address without a name answered %d to a name", got)
}

func TestProfilesAreThereIfTheyAreWanted(t *testing.T) {
	for name, c := range map[string]struct {
		on   bool
		site string
		want int
	}{
		"off": {false, "", 404}, "on": {true, "", 200}, "typed by a person": {true, "none", 200}, "own page": {true, "same-origin", 200},
		"page of another site": {true, "cross-site", 403}, "page of a neighbour": {true, "same-site", 403},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if c.site != "" {
				header.Set("Sec-Fetch-Site", c.site)
			}
			assert.Equal(t, c.want, call(t, admin.Config{Profiles: c.on}, http.MethodGet, "/debug/pprof/cmdline", header, ""))
		})
	}
}

func TestTheConsoleIsAtTheRootOfTheAdminAddress(t *testing.T) {
	for _, path := range []string{"/", "/console/console.js"} {
		assert.Equal(t, http.StatusNotFound, call(t, admin.Config{}, http.MethodGet, path, nil, ""), path)
		c := admin.Config{Console: pages{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) })}}
		assert.Equal(t, http.StatusOK, call(t, c, http.MethodGet, path, nil, ""), path)
		assert.Equal(t, http.StatusMisdirectedRequest, call(t, c, http.MethodGet, path, http.Header{"Host": {"evil.example"}}, ""), path)
	}
}

// pages answers the patterns of a console.
type pages struct{ http.Handler }

func (pages) Patterns() []string { return []string{"GET /{$}", "GET /console/console.js"} }

// letters holds dead letters, and records the calls.
type letters struct {
	queue.DeadLetters
	calls []string
	held  []queue.DeadLetter
}

func (l *letters) ListDead(_ context.Context, _ string, limit int) ([]queue.DeadLetter, error) {
	return l.held[:min(limit, len(l.held))], nil
}

func (l *letters) Redrive(_ context.Context, _ string, ids []string, refuse func(queue.DeadLetter) error) (sent, refused int, err error) {
	l.calls = append(l.calls, fmt.Sprint("redrive ", ids))
	for _, d := range l.held {
		switch err := refuse(d); {
		case errors.Is(err, queue.ErrEnough):
			return sent, refused, nil
		case errors.Is(err, queue.ErrNotMeant):
		case err != nil:
			refused++
		default:
			sent++
		}
	}
	return sent, refused, nil
}

func (l *letters) DropDead(_ context.Context, _ string, ids []string) (int, error) {
	l.calls = append(l.calls, fmt.Sprint("drop ", ids))
	before := len(l.held)
	l.held = slices.DeleteFunc(l.held, func(d queue.DeadLetter) bool { return d.Selected(ids) })
	return before - len(l.held), nil
}

func TestAllDeadLettersAreMeantOnlyIfTheRequestSaysSo(t *testing.T) {
	for _, op := range []string{"redrive", "drop"} {
		for body, want := range map[string]struct {
			status int
			call   string
		}{
			`{"all":true}`:               {200, op + " []"},
			`{"ids":["a","b"]}`:          {200, op + " [a b]"},
			`{}`:                         {422, ""},
			`{"ids":[]}`:                 {422, ""},
			`{"ids":null}`:               {422, ""},
			`{"all":false}`:              {422, ""},
			`{"ids":["a"],"all":true}`:   {422, ""},
			`{"ids":["a"],"every":true}`: {400, ""},
			`{"ids":["a"],"reason":"x"}`: {422, ""},
			`{"reason":"x"}`:             {422, ""},
			`{"all":true,"limit":-1}`:    {422, ""},
			`{"all":false,"all":true}`:   {400, ""},
			`{"ALL":true}`:               {400, ""},
			`{"all":true}{"ids":["a"]}`:  {400, ""},
			`{"ids":["\ud800"]}`:         {400, ""},
			`{"all":true,"before":"2026-01-01T00:00:00,5Z"}`: {400, ""},
			``: {400, ""},
		} {
			l := &letters{}
			got := call(t, admin.Config{Domain: admin.Domain{Letters: l}}, http.MethodPost, "/admin/dead-letters/posts/"+op, nil, body)
			if got != want.status || strings.Join(l.calls, ",") != want.call {
				t.Errorf("%s %s: answered %d, calls %q; want %d, %q", op, body, got, l.calls, want.status, want.call)
			}
		}
	}
}

// The kind and the user of a payload are shown only if every reader understands the
// payload in the same way.
func TestADeadLetterOfADoubtfulPayloadShowsNoUser(t *testing.T) {
	for payload, want := range map[string]string{
		`{"type":"Liked","user_id":"ann"}`: "Liked ann", `{"type":"Liked","version":9,"follower_id":"bob","x":[1]}`: "Liked bob",
		`{"type":"Liked","type":"Unliked","user_id":"ann"}`: " ", `{"TYPE":"Liked","USER_ID":"ann"}`: " ", `{"type":"Liked","user_id":"\ud800"}`: " ", `{"type":"Liked"}{}`: " ",
	} {
		l := &letters{held: []queue.DeadLetter{{ID: "a", Payload: []byte(payload)}}}
		found, err := admin.ListLetters().Do(t.Context(), admin.Domain{Letters: l}, selected(queue.TopicLikes, admin.Selection{Limit: 10}))
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Equalf(t, want, found[0].Type+" "+found[0].User, "%s", payload)
		assert.Equal(t, payload, found[0].Payload)
	}
}

func TestReconcileTakesNoRequestOfAnotherSite(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		body   string
		want   int
	}{
		"another site":   {http.Header{"Sec-Fetch-Site": {"cross-site"}}, `{"limit":1}`, 403},
		"no limit":       {nil, `{}`, 422},
		"too many":       {nil, `{"limit":101}`, 422},
		"unknown fields": {nil, `{"limit":1,"all":true}`, 400},
	} {
		got := call(t, admin.Config{Domain: emptyDomain()}, http.MethodPost, "/admin/reconcile", c.header, c.body)
		assert.Equalf(t, c.want, got, "%s: answered", name)
	}
}

func TestRedriveSendsTheEventsThatConsumersTake(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		payload string
		refused int
	}{
		"now":            {payload(t, now), 0},
		"an hour ahead":  {payload(t, now.Add(time.Hour)), 0},
		"months ahead":   {payload(t, now.AddDate(0, 3, 0)), 1},
		"months ago":     {payload(t, now.AddDate(0, -3, 0)), 1},
		"not understood": {"{", 0},
	} {
		l := &letters{held: []queue.DeadLetter{{Payload: []byte(row.payload)}}}
		got, err := admin.Redrive().Do(t.Context(), domainOf(l, now), selected("likes", admin.Selection{All: true}))
		assert.NoError(t, err, name)
		assert.Equal(t, admin.Redriven{Sent: 1 - row.refused, Refused: row.refused}, got.Redriven, name)
	}
}

// payload returns the payload of an event with the given time.
func payload(t *testing.T, at time.Time) string {
	t.Helper()
	encoded, err := messages.Encode(&messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: id.Floor(at), Time: at}, PostID: id.Floor(at), UserID: "ann",
	}})
	require.NoError(t, err)
	return string(encoded)
}

// behind returns a client of the admin address of a process with the parts d.
func behind(t *testing.T, d admin.Domain) *admin.Client {
	t.Helper()
	server := httptest.NewServer(admin.NewHandler(admin.Config{Metrics: prometheus.NewRegistry(), Health: admin.NewHealth(), Domain: d}))
	t.Cleanup(server.Close)
	return admin.NewClient(strings.TrimPrefix(server.URL, "http://"), server.Client())
}

func domainOf(l queue.DeadLetters, now time.Time) admin.Domain {
	return admin.Domain{Letters: l, Now: func() time.Time { return now }}
}

func selected(topic string, s admin.Selection) admin.Letters {
	return admin.Letters{Topic: topic, Selection: s}
}

func TestTheClientNamesItsSelection(t *testing.T) {
	l := &letters{}
	c := behind(t, admin.Domain{Letters: l, Now: time.Now})
	for _, s := range []admin.Selection{{All: true}, {IDs: []string{"a"}}} {
		_, err := admin.Redrive().Do(t.Context(), c, selected("posts", s))
		assert.NoError(t, err)
		_, err = admin.Drop().Do(t.Context(), c, selected("posts", s))
		assert.NoError(t, err)
	}
	assert.Equal(t, "redrive [],drop [],redrive [a],drop [a]", strings.Join(l.calls, ","))
}

// The admin address of fanfare up and the queues on AWS accept the same selections.
func TestDeadLettersAreSelectedByReasonAndAge(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	held := func() []queue.DeadLetter {
		return []queue.DeadLetter{
			{ID: "old", Topic: "posts", Reason: "Too large", FailedAt: now.Add(-time.Hour), Payload: []byte(payload(t, now))},
			{ID: "new", Topic: "posts", Reason: "too large", FailedAt: now, Payload: []byte(`{"type":"Followed","author_id":"bob","follower_id":"ann","v":99}`)},
			{ID: "raw", Topic: "posts", Reason: "not JSON", FailedAt: now, Payload: []byte{0xff, 0}},
		}
	}
	for name, row := range map[string]struct {
		admin.Selection
		want []string
	}{
		"all":         {admin.Selection{All: true}, []string{"old", "new", "raw"}},
		"by reason":   {admin.Selection{All: true, Reason: "TOO LARGE"}, []string{"old", "new"}},
		"the old":     {admin.Selection{All: true, Before: now}, []string{"old"}},
		"the new":     {admin.Selection{All: true, After: now.Add(-time.Minute)}, []string{"new", "raw"}},
		"both":        {admin.Selection{All: true, Reason: "large", After: now.Add(-time.Minute)}, []string{"new"}},
		"none":        {admin.Selection{All: true, Reason: "small"}, []string{}},
		"one at once": {admin.Selection{All: true, Reason: "large", Limit: 1}, []string{"old"}},
	} {
		for _, way := range []string{"broker", "address"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				l := &letters{held: held()}
				var at admin.Process = domainOf(l, now)
				if way == "address" {
					at = behind(t, domainOf(l, now))
				}
				sent, err := admin.Redrive().Do(t.Context(), at, selected("posts", row.Selection))
				require.NoError(t, err)
				assert.Equal(t, admin.Redriven{Sent: len(row.want)}, sent.Redriven)
				if row.Limit > 0 {
					return
				}
				all := row.Selection
				all.Limit = 10
				listed, err := admin.ListLetters().Do(t.Context(), at, selected("posts", all))
				require.NoError(t, err)
				ids := []string{}
				for _, d := range listed {
					ids = append(ids, d.ID)
				}
				assert.Equal(t, row.want, ids)
				dropped, err := admin.Drop().Do(t.Context(), at, selected("posts", row.Selection))
				require.NoError(t, err)
				assert.Equal(t, len(row.want), dropped.Dropped)
				assert.Len(t, l.held, 3-len(row.want))
			})
		}
	}
	shown, err := admin.ListLetters().Do(t.Context(), domainOf(&letters{held: held()}, now), selected("posts", admin.Selection{Limit: 10}))
	require.NoError(t, err)
	assert.Equal(t, []string{"Liked ann", "Followed ann", " "}, []string{shown[0].Type + " " + shown[0].User, shown[1].Type + " " + shown[1].User, shown[2].Type + " " + shown[2].User})
	assert.Equal(t, []byte{0xff, 0}, shown[2].Raw)
	assert.Empty(t, shown[2].Payload)
}
