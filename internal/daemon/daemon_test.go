package daemon_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/client"
	"fanfare/internal/auth"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/httpapi/apitest"
	"fanfare/internal/porttest"
)

// TestMain runs more tests at once than there are processors, because the tests of a pair wait for its leases.
func TestMain(m *testing.M) {
	flag.Parse()
	if most := flag.Lookup("test.parallel"); most.Value.String() == most.DefValue {
		if err := flag.Set(most.Name, strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// settings returns a configuration with free ports and its own data directory.
func settings(t *testing.T, dir string, more ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(append([]string{
		"FANFARE_DATA_DIR=" + dir, "FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_ADMIN_ADDR=127.0.0.1:0", "FANFARE_LIKE_WINDOW=50ms",
	}, more...), config.API)
	require.NoError(t, err)
	return cfg
}

// start runs a whole process and returns its addresses and a function that stops it.
func start(t *testing.T, cfg config.Config) (daemon.Addresses, func() error) {
	t.Helper()
	return startLogging(t, cfg, zap.NewNop())
}

// startLogging runs a whole process with the given log.
func startLogging(t *testing.T, cfg config.Config, log *zap.Logger) (daemon.Addresses, func() error) {
	t.Helper()
	return startAs(t, daemon.Options{Config: cfg, Log: log, Environ: os.Environ()})
}

// startAs runs a whole process with the given options.
func startAs(t *testing.T, opt daemon.Options) (daemon.Addresses, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
	opt.Roles, opt.Grace = daemon.Roles{API: true, Fanout: true, Likes: true}, time.Minute
	opt.Ready = func(at daemon.Addresses) { ready <- at }
	// A row of the contract waits until a process has forgotten a name.
	opt.KeptNames = 100 * time.Millisecond
	go func() { ended <- daemon.Run(ctx, opt) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		assert.NoError(t, stop())
	})
	select {
	case at := <-ready:
		return at, stop
	case err := <-ended:
		stopped = true
		cancel()
		t.Fatalf("not started: %v", err)
		return daemon.Addresses{}, nil
	}
}

func tokens(t *testing.T, dir string) func(*testing.T, string) string {
	t.Helper()
	issue := devTokens(t, dir)
	return func(t *testing.T, user string) string { t.Helper(); return issue(t, user) }
}

// services returns a function that makes the tokens of services.
func services(t *testing.T, dir string) func(*testing.T, string, bool) string {
	t.Helper()
	issue := devTokens(t, dir)
	return func(t *testing.T, subject string, deletes bool) string {
		t.Helper()
		if deletes {
			return issue(t, subject, auth.ActScope, auth.DeleteScope)
		}
		return issue(t, subject, auth.ActScope)
	}
}

func devTokens(t *testing.T, dir string) func(t *testing.T, user string, scopes ...string) string {
	t.Helper()
	secret, err := datadir.ReadSecret(dir)
	require.NoError(t, err)
	dev, err := auth.NewDev(secret, time.Now)
	require.NoError(t, err)
	return func(t *testing.T, user string, scopes ...string) string {
		t.Helper()
		token, _, err := dev.Issue(user, time.Hour, scopes...)
		require.NoError(t, err)
		return token
	}
}

func TestContractOnEmbedded(t *testing.T) {
	t.Parallel()
	for _, index := range []string{"on", "off"} {
		t.Run("likes by user and notifications "+index, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at, _ := start(t, settings(t, dir, "FANFARE_LIKES_BY_USER="+index, "FANFARE_NOTIFICATIONS="+index, "FANFARE_EVENTS_KEPT="+map[string]string{"on": "1h"}[index], "FANFARE_REACTIONS="+map[string]string{"on": "love,wow"}[index]))
			apitest.Exercise(t, apitest.Target{
				URL: "http://" + at.HTTP, Token: tokens(t, dir), Service: services(t, dir), LikesByUser: index == "on", Notifications: index == "on", Reactions: index == "on", Events: index == "on", DevTokens: true,
			})
			// Each role of the process counts the calls that the test has made.
			for _, name := range []string{
				"fanfare_posts_total", "fanfare_likes_total", "fanfare_deliveries_total", "fanfare_post_visible_seconds_count",
				"fanfare_like_flushes_total", `fanfare_http_requests_total{method="POST",route="/v1/posts",status="201"}`,
				`fanfare_table_capacity_units_total{flow="api",kind="write",op="transact"}`,
				`fanfare_table_capacity_units_total{flow="fanout",kind="write",op="batch_write"}`,
				`fanfare_table_capacity_units_total{flow="likes",kind="write",op="update"}`,
			} {
				until(t, name+" above 0", func() bool { return metric(t, at.Admin, name) > 0 })
			}
		})
	}
}

// metric returns the value of one metric of a process, 0 if it has none.
func metric(t *testing.T, admin, name string) float64 {
	t.Helper()
	for line := range strings.Lines(read(t, "http://"+admin+"/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return n
		}
	}
	return 0
}

func TestRateLimitIsTheConfiguredOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, _ := start(t, settings(t, dir, "FANFARE_RATE_LIMIT=1"))
	token := tokens(t, dir)
	for user, wait := range map[string]bool{"ann": true, "ben": false} {
		var status int
		var header http.Header
		for range 100 { // more requests than the burst, and faster than one a second
			status, header = send(t, http.MethodGet, "http://"+at.HTTP+"/v1/me", http.Header{"Authorization": {"Bearer " + token(t, user)}})
			if !wait || status == http.StatusTooManyRequests {
				break
			}
		}
		if limited := status == http.StatusTooManyRequests; limited != wait || limited && header.Get("Retry-After") == "" {
			t.Errorf("%s was answered %d, Retry-After %q", user, status, header.Get("Retry-After"))
		}
	}
}

// A comment counts 120 units, on whichever process it is written.
func TestTheLimitOfAnHourIsTheConfiguredOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, _ := start(t, settings(t, dir, "FANFARE_USER_UNITS=10000"))
	ann, err := client.New("http://"+at.HTTP, client.WithToken(tokens(t, dir)(t, "ann")), client.WithAttempts(1))
	require.NoError(t, err)
	defer ann.CloseIdleConnections()
	_, err = ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	p, err := ann.CreatePost(t.Context(), client.PostInput{Text: "x"})
	require.NoError(t, err)
	for n := 0; ; n++ {
		hour := time.Now().Truncate(time.Hour)
		_, err := ann.CreateComment(t.Context(), p.ID, "x")
		if err == nil {
			require.Lessf(t, n, 200, "no comment was refused") // twice the limit, because an hour may begin in between
			continue
		}
		refused, ok := errors.AsType[*client.Problem](err)
		require.Truef(t, ok, "%v", err)
		assert.Equal(t, http.StatusTooManyRequests, refused.Status)
		assert.Contains(t, refused.Detail, hour.Add(time.Hour).UTC().Format(time.RFC3339))
		return
	}
}

func TestOriginsAreTheConfiguredOnes(t *testing.T) {
	t.Parallel()
	at, _ := start(t, settings(t, t.TempDir(), "FANFARE_CORS_ORIGINS=https://app.example"))
	for origin, want := range map[string]int{"https://app.example": http.StatusNoContent, "https://evil.example": http.StatusMethodNotAllowed} {
		status, header := send(t, http.MethodOptions, "http://"+at.HTTP+"/v1/me", http.Header{"Origin": {origin}, "Access-Control-Request-Method": {http.MethodPut}})
		allowed := ""
		if want == http.StatusNoContent {
			allowed = origin
		}
		if got := header.Get("Access-Control-Allow-Origin"); status != want || got != allowed {
			t.Errorf("preflight from %s was answered %d for %q", origin, status, got)
		}
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	at, _ := start(t, settings(t, t.TempDir()))
	for _, addr := range []string{at.HTTP, at.Admin} {
		for size, want := range map[int]int{31 << 10: http.StatusOK, 40 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			status, _ := send(t, http.MethodGet, "http://"+addr+"/readyz", http.Header{"X-Filler": {strings.Repeat("x", size)}})
			assert.Equalf(t, want, status, "a header of %d bytes was answered", size)
		}
	}
}

func TestDevTokensAreLoggedLoudly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg   config.Config
		level zapcore.Level
		loud  int
	}{
		"dev tokens":                    {settings(t, t.TempDir()), zap.WarnLevel, 1},
		"dev tokens, all shown":         {settings(t, t.TempDir()), zap.DebugLevel, 1},
		"dev tokens, little shown":      {settings(t, t.TempDir()), zap.ErrorLevel, 1},
		"an issuer's tokens":            {newIssuer(t).settings(), zap.WarnLevel, 0},
		"an issuer's tokens, all shown": {newIssuer(t).settings(), zap.DebugLevel, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(tt.level)
			_, stop := startLogging(t, tt.cfg, zap.New(core))
			require.NoError(t, stop())
			assert.Equal(t, tt.loud, logs.FilterMessageSnippet("DEV TOKENS ARE ON").Len())
		})
	}
}

// send makes a request, and returns the status and the headers of the answer.
func send(t *testing.T, method, url string, header http.Header) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	req.Header = header
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	return res.StatusCode, res.Header
}

func TestTwoProcessesInOne(t *testing.T) {
	t.Parallel()
	first, _ := start(t, settings(t, t.TempDir()))
	second, _ := start(t, settings(t, t.TempDir()))
	for _, at := range []string{first.HTTP, second.HTTP, first.Admin, second.Admin} {
		get(t, "http://"+at+"/readyz", http.StatusOK)
	}
}

func get(t *testing.T, url string, want int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equalf(t, want, res.StatusCode, "%s answered %s", url, res.Status)
}

func TestStartAndStopAgainAndAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 5 {
		_, stop := start(t, settings(t, dir))
		require.NoError(t, stop())
	}
}

func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	opt := daemon.Options{Config: settings(t, dir), Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop()}
	_ = daemon.Run(ctx, opt) // the process may have served or not: all steps of the start must be undone
	_, _ = start(t, settings(t, dir))
}

func TestFailedStartUndoesEverything(t *testing.T) {
	t.Parallel()
	taken, _ := start(t, settings(t, t.TempDir()))
	for _, tt := range []struct{ name, env, want string }{
		{"http port in use", "FANFARE_HTTP_ADDR=" + taken.HTTP, taken.HTTP + " is in use"},
		{"admin port in use", "FANFARE_ADMIN_ADDR=" + taken.Admin, taken.Admin + " is in use"},
		{"metrics port in use", "FANFARE_METRICS_ADDR=" + taken.Admin, taken.Admin + " is in use: stop the other process, or set FANFARE_METRICS_ADDR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := daemon.Run(t.Context(), daemon.Options{
				Config: settings(t, dir, tt.env), Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop(),
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v", err)
			}
			_, stop := start(t, settings(t, dir)) // the directory is free again
			assert.NoError(t, stop())
		})
	}
}

// A scraper reaches only the metrics address, under any host name, and cannot operate anything.
func TestTheMetricsAddressHasNoOperations(t *testing.T) {
	t.Parallel()
	at, _ := start(t, settings(t, t.TempDir(), "FANFARE_METRICS_ADDR=127.0.0.1:0", "FANFARE_PPROF=on"))
	for path, want := range map[string]struct{ metrics, admin int }{
		"/metrics": {200, 421}, "/healthz": {200, 421}, "/servez": {200, 421}, "/readyz": {200, 421},
		"/admin/dead-letters/posts": {404, 421}, "/debug/pprof/cmdline": {404, 421},
	} {
		for addr, want := range map[string]int{at.Metrics: want.metrics, at.Admin: want.admin} {
			ask(t, addr, "scraper.internal", path, want)
		}
	}
	for _, path := range []string{"/metrics", "/healthz", "/servez", "/readyz", "/admin/dead-letters/posts?limit=1", "/debug/pprof/cmdline"} {
		ask(t, at.Admin, "", path, http.StatusOK)
	}
}

// A variable that a person has set is not ignored silently.
func TestIgnoredVariablesOfThePlatformAreLoggedOnce(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.InfoLevel)
	startAs(t, daemon.Options{Config: settings(t, t.TempDir()), Log: zap.New(core), Environ: []string{"FANFARE_SERVICE_PORT=8080", "FANFARE_API_PORT=tcp://10.0.0.1:80"}})
	lines := logged.FilterMessageSnippet("ignored variables").All()
	require.Len(t, lines, 1)
	assert.Equal(t, []any{"FANFARE_API_PORT", "FANFARE_SERVICE_PORT"}, lines[0].ContextMap()["names"])
}

func TestAnAdminAddressThatOthersReachIsLogged(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:0": 1} {
		core, logged := observer.New(zap.WarnLevel)
		_, stop := startLogging(t, settings(t, t.TempDir(), "FANFARE_ADMIN_ADDR="+addr), zap.New(core))
		got := logged.FilterMessageSnippet("other machines may reach the admin address").Len()
		assert.Equalf(t, want, got, "%s: %d lines", addr, got)
		assert.NoError(t, stop())
	}
}

// A web page can give its own host name the address of this machine (DNS rebinding). An API with
// dev tokens refuses such a host name, whatever address it listens on: the port of a container
// may be published only on loopback.
func TestDevTokensAreNotForPagesThatRebindTheirName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const public = "FANFARE_DEV_AUTH_PUBLIC=allow"
	for more, want := range map[string]int{
		"FANFARE_DEV_AUTH_PUBLIC=": http.StatusMisdirectedRequest, public: http.StatusMisdirectedRequest,
		public + " FANFARE_DEV_AUTH_HOSTS=evil": http.StatusMisdirectedRequest, public + " FANFARE_DEV_AUTH_HOSTS=other,Evil.example": http.StatusOK,
	} {
		at, stop := start(t, settings(t, dir, strings.Fields(more)...))
		for _, path := range []string{"/openapi.json", "/healthz"} {
			ask(t, at.HTTP, "evil.example", path, want)
			ask(t, at.HTTP, "localhost", path, http.StatusOK)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.HTTP+"/v1/dev/token", strings.NewReader(`{"user_id":"ann"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Host = "evil.example"
		do(t, req, "", want)
		assert.NoError(t, stop())
	}
}

// ask requests a path of addr under the name host, and expects the status want. If host is
// "", the name is addr.
func ask(t *testing.T, addr, host, path string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	require.NoError(t, err)
	req.Host = host
	do(t, req, "", want)
}

func TestSecondProcessOnOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, settings(t, dir))
	err := daemon.Run(t.Context(), daemon.Options{Config: settings(t, dir), Roles: daemon.Roles{API: true}, Log: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error is %v", err)
	}
}

func TestUnreachableDependencyIsNamed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	core, logged := observer.New(zap.WarnLevel)
	options := daemon.Options{
		Config: settings(t, t.TempDir(), "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=http://127.0.0.1:1/keys"),
		Roles:  daemon.Roles{API: true}, Log: zap.New(core),
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, options) }()
	until(t, "the wait for the keys", func() bool { return logged.FilterMessage("waiting for a dependency").Len() > 0 })
	cancel()
	err := <-ended
	if err == nil || !strings.HasPrefix(err.Error(), "keys cannot be used") {
		t.Errorf("error is %v", err)
	}
}

func TestTheAdminAddressAnswersDuringTheStart(t *testing.T) {
	t.Parallel()
	addr := porttest.Free(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	waiting := daemon.Options{ // the process waits for the keys
		Config: settings(t, t.TempDir(), "FANFARE_ADMIN_ADDR="+addr, "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=http://127.0.0.1:1/keys"),
		Roles:  daemon.Roles{API: true}, Log: zap.NewNop(),
	}
	go func() { ended <- daemon.Run(ctx, waiting) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer := func(path string) string {
		res, err := client.Get("http://" + addr + path)
		if err != nil {
			return ""
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		assert.NoError(t, err)
		return res.Status + " " + strings.TrimSpace(string(body))
	}
	disktest.Until(t, func() bool { return answer("/healthz") != "" || ctx.Err() != nil })
	for path, want := range map[string]string{
		"/healthz": `200 OK {"status":"ok"}`, "/servez": `503 Service Unavailable {"status":"starting"}`,
		"/readyz": `503 Service Unavailable {"status":"starting"}`, "/metrics": `503 Service Unavailable {"status":"starting"}`,
	} {
		assert.Equalf(t, want, answer(path), "%s answered", path)
	}
	cancel()
	assert.Error(t, <-ended, "the process served without keys")
}

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, stop := start(t, settings(t, dir))
	token := tokens(t, dir)
	called(t, at.HTTP, token(t, "ann"), "Ann")
	require.NoError(t, stop())
	secret, err := os.Stat(filepath.Join(dir, "dev-secret"))
	if err != nil || secret.Mode().Perm() != 0o600 {
		t.Errorf("dev secret: %v, %v", secret, err)
	}
	at, _ = start(t, settings(t, dir))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP+"/v1/me", nil)
	require.NoError(t, err)
	do(t, req, token(t, "ann"), http.StatusOK)
}

func do(t *testing.T, req *http.Request, token string, want int) {
	t.Helper()
	req.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	if res.StatusCode != want {
		t.Errorf("%s %s answered %s", req.Method, req.URL, res.Status)
	}
}
