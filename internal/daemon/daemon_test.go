package daemon_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"fanfare/internal/auth"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/httpapi/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are an environment of free ports and a directory of its own.
func settings(t *testing.T, dir string, more ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(append([]string{
		"FANFARE_DATA_DIR=" + dir, "FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_ADMIN_ADDR=127.0.0.1:0", "FANFARE_LIKE_WINDOW=50ms",
	}, more...), config.API)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start runs a whole process and returns where it listens and how to stop it.
func start(t *testing.T, cfg config.Config) (daemon.Addresses, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Config: cfg, Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop(),
			Grace: time.Minute, Ready: func(at daemon.Addresses) { ready <- at },
		})
	}()
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
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
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
	secret, err := datadir.ReadSecret(dir)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := auth.NewDev(secret, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, user string) string {
		t.Helper()
		token, _, err := dev.Issue(user, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

func TestContractOnEmbedded(t *testing.T) {
	for _, index := range []string{"on", "off"} {
		t.Run("likes by user "+index, func(t *testing.T) {
			dir := t.TempDir()
			at, _ := start(t, settings(t, dir, "FANFARE_LIKES_BY_USER="+index))
			apitest.Exercise(t, apitest.Target{
				URL: "http://" + at.HTTP, Token: tokens(t, dir), LikesByUser: index == "on", DevTokens: true,
			})
		})
	}
}

func TestTwoProcessesInOne(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != want {
		t.Errorf("%s answered %s", url, res.Status)
	}
}

func TestStartAndStopAgainAndAgain(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		_, stop := start(t, settings(t, dir))
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
}

func TestStopDuringTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	opt := daemon.Options{Config: settings(t, dir), Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop()}
	_ = daemon.Run(ctx, opt) // whether it got to serve does not matter: everything must be undone
	_, _ = start(t, settings(t, dir))
}

func TestFailedStartUndoesEverything(t *testing.T) {
	dir := t.TempDir()
	taken, _ := start(t, settings(t, t.TempDir()))
	for _, tt := range []struct{ name, env, want string }{
		{"http port in use", "FANFARE_HTTP_ADDR=" + taken.HTTP, taken.HTTP + " is in use"},
		{"admin port in use", "FANFARE_ADMIN_ADDR=" + taken.Admin, taken.Admin + " is in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := daemon.Run(t.Context(), daemon.Options{
				Config: settings(t, dir, tt.env), Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop(),
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v", err)
			}
		})
	}
	_, stop := start(t, settings(t, dir)) // the directory is free again
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestSecondProcessOnOneDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, settings(t, dir))
	err := daemon.Run(t.Context(), daemon.Options{Config: settings(t, dir), Roles: daemon.Roles{API: true}, Log: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error is %v", err)
	}
}

func TestUnreachableDependencyIsNamed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := daemon.Run(ctx, daemon.Options{
		Config: settings(t, t.TempDir(), "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=http://127.0.0.1:1/keys"),
		Roles:  daemon.Roles{API: true}, Log: zap.NewNop(),
	})
	if err == nil || !strings.HasPrefix(err.Error(), "keys not reachable") {
		t.Errorf("error is %v", err)
	}
}

func TestDataSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	at, stop := start(t, settings(t, dir))
	token := tokens(t, dir)
	put(t, at.HTTP, token(t, "ann"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	secret, err := os.Stat(filepath.Join(dir, "dev-secret"))
	if err != nil || secret.Mode().Perm() != 0o600 {
		t.Errorf("dev secret: %v, %v", secret, err)
	}
	at, _ = start(t, settings(t, dir))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP+"/v1/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	do(t, req, token(t, "ann"), http.StatusOK)
}

func put(t *testing.T, addr, token string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/v1/me", strings.NewReader(`{"name":"Ann"}`))
	if err != nil {
		t.Fatal(err)
	}
	do(t, req, token, http.StatusOK)
}

func do(t *testing.T, req *http.Request, token string, want int) {
	t.Helper()
	req.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != want {
		t.Errorf("%s %s answered %s", req.Method, req.URL, res.Status)
	}
}
