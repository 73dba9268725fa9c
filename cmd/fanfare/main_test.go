package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/datadir"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
	"fanfare/messages"
)

// binDir is a directory with a link to the test binary for each program.
var binDir string

func TestMain(m *testing.M) {
	// A test that needs a program runs the test binary by a link with the program's name, so the tests link one binary.
	if !strings.HasSuffix(filepath.Base(os.Args[0]), ".test") {
		main()
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	own, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "fanfare-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	for _, name := range []string{"fanfare", "api", "fanout", "likeagg"} {
		if err := os.Symlink(own, filepath.Join(dir, name)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	binDir = dir
	if signal.Ignored(syscall.SIGHUP) { // nohup started the tests: their processes must not ignore SIGHUP
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return m.Run()
}

// command returns a program with its own environment.
func command(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(binDir, name), args...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	c.Dir = t.TempDir()
	return c
}

// result runs a program to its end, and returns its exit code and output.
func result(t *testing.T, env []string, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := command(t, env, name, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// running is a running fanfare up.
type running struct {
	*exec.Cmd
	url, admin string
}

// readyLine has the addresses of a process. A standby has no address of the API in it.
var readyLine = regexp.MustCompile(`(?:ready at (http://\S+) .* |\()admin: http://(\S+)\)`)

func up(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	return upWith(t, nil, dir, args...)
}

func upWith(t *testing.T, env []string, dir string, args ...string) *running {
	t.Helper()
	env = append([]string{"FANFARE_CANARY=off"}, env...) // these tests count posts, so the canary must not post
	c := command(t, env, "fanfare", append([]string{"up", "--data-dir", dir, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	var errs bytes.Buffer
	c.Stderr = &errs
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // the process may have ended already
		_ = c.Wait()
		if t.Failed() {
			t.Logf("stderr of %v: %s", c.Args, &errs)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	found := readyLine.FindStringSubmatch(line)
	if err != nil || found == nil {
		t.Fatalf("it said %q, %v; stderr: %s", line, err, &errs)
	}
	return &running{c, found[1], found[2]}
}

// stop sends a signal to the process, waits for its end, and returns the exit code.
func (r *running) stop(t *testing.T, sig os.Signal) int {
	t.Helper()
	require.NoError(t, r.Process.Signal(sig))
	_ = r.Wait() // the exit code shows the result
	return r.ProcessState.ExitCode()
}

func (r *running) as(t *testing.T, user string) *client.Client {
	t.Helper()
	c, err := client.New(r.url)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	token, err := c.DevToken(t.Context(), user, time.Hour)
	require.NoError(t, err)
	return c.AsToken(token.Token)
}

func TestUpServesAndStopsOnASignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := up(t, t.TempDir())
		res, err := http.Get(p.url + "/readyz")
		require.NoError(t, err)
		res.Body.Close()
		assert.Equalf(t, http.StatusOK, res.StatusCode, "readyz answered %s", res.Status)
		assert.Zerof(t, p.stop(t, sig), "%s: exit code", sig)
	}
}

func TestUpAsJSONSaysWhereItIs(t *testing.T) {
	t.Parallel()
	c := command(t, nil, "fanfare", "up", "--data-dir", t.TempDir(), "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--json")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var at struct{ URL, Docs, Admin string }
	assert.NoError(t, json.NewDecoder(out).Decode(&at))
	for _, url := range []string{at.URL + "/healthz", at.Docs, at.Admin + "/readyz"} {
		if res, err := http.Get(url); err != nil {
			t.Error(err)
		} else if res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("%s answered %s", url, res.Status)
		}
	}
	require.NoError(t, c.Process.Signal(os.Interrupt))
	assert.NoError(t, c.Wait())
}

// until waits until a condition holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a loaded machine, with the race detector
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("not in time: " + what)
		case <-tick.C:
		}
	}
}

// Metrics and dead letters need no token. The API's address serves them only on loopback with dev tokens,
// where no stranger can reach the address.
func TestOperationsAreOnTheAPIsAddressOfALoopbackOnly(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		env  []string
		want int
	}{
		"loopback":             {nil, http.StatusOK},
		"for other machines":   {[]string{"FANFARE_DEV_AUTH_PUBLIC=allow"}, http.StatusNotFound},
		"without the console":  {[]string{"FANFARE_CONSOLE=off"}, http.StatusNotFound},
		"a page of a stranger": {[]string{"FANFARE_CORS_ORIGINS=https://app.example"}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			p := upWith(t, row.env, t.TempDir())
			for path, want := range map[string]int{"/metrics": row.want, "/admin/dead-letters/posts?limit=1": row.want, "/debug/pprof/": http.StatusNotFound} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, http.NoBody)
				require.NoError(t, err)
				if row.want == http.StatusForbidden {
					req.Header.Set("Origin", "https://app.example")
					req.Header.Set("Sec-Fetch-Site", "cross-site")
				}
				res, err := (&http.Client{Timeout: time.Minute}).Do(req)
				require.NoError(t, err)
				res.Body.Close()
				assert.Equal(t, want, res.StatusCode, path)
			}
			res, err := http.Get("http://" + p.admin + "/")
			require.NoError(t, err)
			res.Body.Close()
			assert.Equal(t, http.StatusOK, res.StatusCode, "the page on the admin address")
			require.Zero(t, p.stop(t, os.Interrupt), "exit code")
		})
	}
}

func TestKillLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir)
	ann := p.as(t, "ann")
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "durable"})
	require.NoError(t, err)
	require.NoError(t, ann.Like(t.Context(), post.ID))
	p.stop(t, os.Kill)
	p = up(t, dir)
	ann = p.as(t, "ann")
	if got, err := ann.Post(t.Context(), post.ID); err != nil || got.Text != "durable" {
		t.Errorf("post is %+v, %v", got, err)
	}
	until(t, "the like that was answered", func() bool {
		count, err := ann.LikeCount(t.Context(), post.ID)
		return err == nil && count.Count == 1
	})
}

func TestTokenOpensTheRunningUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir)
	code, out, errs := result(t, nil, "fanfare", "token", "ann", "--data-dir", dir)
	require.Zerof(t, code, "exit code %d: %s", code, errs)
	c, err := client.New(p.url, client.WithToken(strings.TrimSpace(out)))
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	_, err = c.PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	assert.NoError(t, err)
	_, err = c.ActAs("ben").Me(t.Context())
	assert.ErrorContains(t, err, "scope fanfare:act")
	code, out, errs = result(t, nil, "fanfare", "token", "--act", "backend", "--data-dir", dir)
	require.Zerof(t, code, "exit code %d: %s", code, errs)
	ann, err := c.AsToken(strings.TrimSpace(out)).ActAs("ann").Me(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "ann", ann.ID)
	err = c.AsToken(strings.TrimSpace(out)).ActAs("ann").DeleteMe(t.Context())
	require.ErrorContains(t, err, "scope fanfare:delete")
	code, out, errs = result(t, nil, "fanfare", "token", "--act", "--delete", "backend", "--data-dir", dir)
	require.Zerof(t, code, "exit code %d: %s", code, errs)
	require.NoError(t, c.AsToken(strings.TrimSpace(out)).ActAs("ann").DeleteMe(t.Context()))
	code, _, errs = result(t, nil, "fanfare", "token", "--delete", "ann", "--data-dir", dir)
	assert.Equal(t, 2, code, errs)
}

func TestDeadLettersOfARunningUp(t *testing.T) {
	t.Parallel()
	p := up(t, t.TempDir())
	for _, args := range [][]string{
		{"ls", "--json"}, {"redrive", "posts", "--all", "--json"}, {"drop", "likes", "--all", "--yes", "--json"},
	} {
		code, out, errs := result(t, nil, "fanfare", append([]string{"dlq", "--admin", p.admin}, args...)...)
		if code == 2 { // the subcommand has the flag --admin, and the group does not have it
			code, out, errs = result(t, nil, "fanfare", append(append([]string{"dlq"}, args...), "--admin", p.admin)...)
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil {
			t.Errorf("%v: exit code %d, %q, %s", args, code, out, errs)
		}
	}
	for _, args := range []string{"show posts nothing", "redrive posts nothing", "redrive posts nothing --dry-run", "drop posts nothing"} {
		code, _, errs := result(t, nil, "fanfare", append([]string{"dlq"}, strings.Fields(args+" --admin "+p.admin)...)...)
		assert.Equal(t, 1, code, args)
		assert.Regexp(t, "no dead letter|not found among the dead letters", errs, args)
	}
}

// poison publishes messages that can never be processed, into the queues of a data directory that no
// process has open.
func poison(t *testing.T, path string, msgs map[string]*message.Message) {
	t.Helper()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	broker, err := embedded.Create(dir.Path("queue"), embedded.Options{})
	require.NoError(t, err)
	for topic, msg := range msgs {
		assert.NoError(t, broker.Publish(topic, msg))
	}
	require.NoError(t, errors.Join(broker.Close(), dir.Close()))
}

// A message that can never be processed is listed with its reason, fails again after a redrive, and can
// be dropped for good. A letter that is too old is not redriven.
func TestPoisonIsADeadLetterToShowRedriveAndDrop(t *testing.T) {
	t.Parallel()
	old, err := id.NewGenerator(func() time.Time { return time.Now().Add(-messages.MaxAge - time.Hour) }).New()
	require.NoError(t, err)
	stale, err := queue.Message(t.Context(), &messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: old, Time: time.Now().UTC()}, PostID: old, UserID: "ann",
	}})
	require.NoError(t, err)
	dir := t.TempDir()
	poison(t, dir, map[string]*message.Message{
		queue.TopicPosts: message.NewMessage("poison-1", []byte(`{"type":"post_recited"}`)), queue.TopicLikes: stale,
	})
	p := up(t, dir)
	dlq := func(answer any, args ...string) string {
		t.Helper()
		code, out, errs := result(t, nil, "fanfare", append(append([]string{"dlq"}, args...), "--admin", p.admin)...)
		require.Zerof(t, code, "%v: exit code %d: %s", args, code, errs)
		if answer != nil {
			require.NoErrorf(t, json.Unmarshal([]byte(out), answer), "%v: %s", args, out)
		}
		return out
	}
	list := func(args ...string) []admin.DeadLetter {
		t.Helper()
		var answer struct{ Items []admin.DeadLetter }
		dlq(&answer, append([]string{"ls", "--json"}, args...)...)
		return answer.Items
	}
	until(t, "both dead letters", func() bool { return len(list()) == 2 })
	if text := dlq(nil, "ls"); !strings.Contains(text, "poison-1") || !strings.Contains(text, "post_recited") || !strings.Contains(text, "older than") {
		t.Errorf("ls says %s", text)
	}
	assert.Contains(t, dlq(nil, "ls", "likes", "--reason", "OLDER", "--newer", "1h"), " Liked  ann ")
	assert.NotContains(t, dlq(nil, "redrive", "posts", "--all", "--older", "1h", "--dry-run"), "poison-1")
	var shown admin.DeadLetter
	dlq(&shown, "show", "posts", "poison-1")
	if shown.ID != "poison-1" || shown.Topic != "posts" || shown.Payload != `{"type":"post_recited"}` || !strings.Contains(shown.Reason, "post_recited") || shown.Receives != 1 {
		t.Errorf("show says %+v", shown)
	}

	type redriven struct{ Sent, Refused int }
	var answer redriven
	dlq(&answer, "redrive", "posts", "poison-1", "--json")
	assert.Equal(t, redriven{Sent: 1}, answer)
	until(t, "the poison to come back", func() bool {
		again := list("posts")
		return len(again) == 1 && again[0].ID == "poison-1" && again[0].FailedAt.After(shown.FailedAt)
	})
	if dlq(&answer, "redrive", "likes", "--all", "--json"); answer != (redriven{Refused: 1}) || len(list("likes")) != 1 {
		t.Errorf("redrive of a like that is too old: %+v, then %+v", answer, list("likes"))
	}

	var dropped struct{ Dropped int }
	if dlq(&dropped, "drop", "posts", "poison-1", "--json"); dropped.Dropped != 1 || len(list("posts")) != 0 || len(list("likes")) != 1 {
		t.Errorf("dropped %d of posts, then there are %+v", dropped.Dropped, list())
	}
	if text := dlq(nil, "drop", "likes", "--all", "--yes", "--reason", "older than"); text != "dropped 1\n" || len(list()) != 0 {
		t.Errorf("drop says %q, then there are %+v", text, list())
	}
	p.stop(t, os.Interrupt)
	p = up(t, dir)
	assert.Empty(t, list(), "after a restart there")
}

func TestHealthAsksAProcess(t *testing.T) {
	t.Parallel()
	p := up(t, t.TempDir())
	if code, out, errs := result(t, nil, "fanfare", "health", "--url", "http://"+p.admin+"/readyz"); code != 0 || !strings.Contains(out, "ready") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs := result(t, nil, "fanfare", "health", "--json", "--url", "http://"+p.admin+"/readyz")
	var answer struct{ Status string }
	if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil || answer.Status != "ready" {
		t.Errorf("as JSON: exit code %d, %v: %s%s", code, err, out, errs)
	}
	if code, out, errs := result(t, nil, "fanfare", "health", "--json", "--url", "http://"+p.admin+"/metrics"); code != 1 || out != "" || !strings.Contains(errs, "--json") {
		t.Errorf("of what is no JSON: exit code %d, %q, %q", code, out, errs)
	}
	code, out, errs = result(t, []string{"FANFARE_ADMIN_ADDR=" + p.admin}, "fanfare", "health")
	assert.Equal(t, 0, code, out+errs)
	assert.JSONEq(t, `{"status":"serving"}`, out, "a queue that is away must not restart a container")
	p.stop(t, os.Interrupt)
	code, _, _ = result(t, nil, "fanfare", "health", "--url", "http://"+p.admin+"/readyz")
	assert.Equal(t, 1, code, "after the stop: exit code")
}

func TestEveryProgramTellsItsVersion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fanfare", "api", "fanout", "likeagg"} {
		code, out, errs := result(t, nil, name, "--version")
		assert.Zero(t, code, errs)
		assert.Regexp(t, "^"+name+` \S+, commit .+, go1\.\S+ `, out)
	}
}

func TestVersionAsJSON(t *testing.T) {
	t.Parallel()
	code, out, _ := result(t, nil, "fanfare", "version", "--json")
	var v struct{ Version, Commit, Go string }
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || !strings.HasPrefix(v.Go, "go1.") || v.Version == "" || v.Commit == "" {
		t.Errorf("exit code %d, %q, %v", code, out, err)
	}
}

func TestExitCodesNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
	})
	taken := l.Addr().String()
	locked := t.TempDir()
	up(t, locked)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	newer := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(newer, "FORMAT"), []byte("99\n"), 0o600))
	older := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(older, "FORMAT"), []byte("1\n"), 0o600))
	free := []string{"--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	aws := []string{"FANFARE_ENGINE=aws", "AWS_REGION=eu-central-1"}
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		code int
		want string
	}{
		{"unknown variable", []string{"FANFARE_WORKERS=1"}, []string{"fanfare", "up"}, 2, "FANFARE_WORKERS"},
		{"unknown variable for a tool", []string{"FANFARE_WORKERS=1"}, []string{"fanfare", "token", "ann"}, 2, "FANFARE_WORKERS"},
		{"unknown variable for a daemon", append(aws, "FANFARE_WORKERS=1"), []string{"fanout"}, 2, "FANFARE_WORKERS"},
		{"bad value", []string{"FANFARE_LIKE_WINDOW=x"}, []string{"fanfare", "up"}, 2, "FANFARE_LIKE_WINDOW"},
		{"bad flag value", nil, []string{"fanfare", "up", "--http", "here"}, 2, "fanfare: --http: "},
		{"up on aws", aws, []string{"fanfare", "up"}, 2, "up runs on the embedded engine"},
		{"demo without dev tokens", []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=https://i.test/k"}, []string{"fanfare", "up", "--demo"}, 2, "--demo"},
		{"graph and journal", nil, []string{"fanfare", "replay", "--graph", "g", "--check", "j"}, 2, "leave out --graph"},
		{"neither graph nor journal", nil, []string{"fanfare", "replay"}, 2, "--graph"},
		{"no such graph", nil, []string{"fanfare", "replay", "--graph", "nowhere"}, 1, "nowhere"},
		{"dev tokens on aws", aws, []string{"api"}, 2, "FANFARE_AUTH"},
		{"daemon on embedded", nil, []string{"likeagg"}, 2, "FANFARE_ENGINE"},
		{"daemon with an argument", aws, []string{"fanout", "now"}, 2, "no arguments"},
		{"a command with a typing error", nil, []string{"fanfare", "relpay"}, 2, `"fanfare"; did you mean replay: see fanfare --help`},
		{"port of a daemon in use", append(aws, "FANFARE_ADMIN_ADDR="+taken, "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=https://i.test/k"), []string{"api"}, 1, "set FANFARE_ADMIN_ADDR\n"},
		{"http port in use", nil, []string{"fanfare", "up", "--data-dir", t.TempDir(), "--http", taken, "--admin", "127.0.0.1:0"}, 1, taken},
		{"admin port in use", nil, []string{"fanfare", "up", "--data-dir", t.TempDir(), "--admin", taken, "--http", "127.0.0.1:0"}, 1, taken},
		{"locked directory", nil, append([]string{"fanfare", "up", "--data-dir", locked}, free...), 1, locked},
		{"unusable directory", nil, append([]string{"fanfare", "up", "--data-dir", filepath.Join(file, "d")}, free...), 1, file},
		{"newer directory", nil, append([]string{"fanfare", "up", "--data-dir", newer}, free...), 1, newer},
		{"directory of a development version", nil, append([]string{"fanfare", "up", "--data-dir", older}, free...), 1, older + " has format 1"},
		{"unknown command", nil, []string{"fanfare", "down"}, 2, `"down" for "fanfare": see fanfare --help`},
		{"unknown command of a group", nil, []string{"fanfare", "dlq", "burn"}, 2, "burn"},
		{"help about an unknown command", nil, []string{"fanfare", "help", "nosuch"}, 2, `"nosuch": see fanfare --help`},
		{"help about an unknown command of a group", nil, []string{"fanfare", "help", "dlq", "burn"}, 2, `"dlq burn": see fanfare dlq --help`},
		{"group alone", nil, []string{"fanfare", "table"}, 2, "--help"},
		{"unknown flag", nil, []string{"fanfare", "up", "--fast"}, 2, "--fast: see fanfare up --help"},
		{"a command of the pair with a typing error", nil, []string{"fanfare", "pair", "statsu"}, 2, `unknown command "statsu"; did you mean status: see fanfare pair --help`},
		{"a flag with a typing error", nil, []string{"fanfare", "up", "--dmo"}, 2, "--dmo; did you mean --demo: see fanfare up --help"},
		{"a command of a group with a typing error", nil, []string{"fanfare", "dlq", "lst"}, 2, `unknown command "lst"; did you mean ls: see fanfare dlq --help`},
		{"a flag with a bad value", nil, []string{"fanfare", "restore", "--from", "s3:/x"}, 2, "fanfare: --from: "},
		{"unknown flag of a daemon", aws, []string{"fanout", "--fast"}, 2, `"--fast": see fanout --help`},
		{"too many arguments", nil, []string{"fanfare", "up", "now"}, 2, "now"},
		{"no user", nil, []string{"fanfare", "token"}, 2, "see fanfare token --help"},
		{"bad user", nil, []string{"fanfare", "token", "a b"}, 2, "a b"},
		{"service without a name", nil, []string{"fanfare", "token", "--act", "", "--data-dir", locked}, 2, "name of a service"},
		{"policy of no account", nil, []string{"fanfare", "iam", "policy", "--daemon", "api", "--account", "12"}, 2, "--account"},
		{"policy of an empty region", nil, []string{"fanfare", "iam", "policy", "--daemon", "api", "--region", ""}, 2, "--region"},
		{"doctor of an operator and a daemon", nil, []string{"fanfare", "doctor", "--daemon", "operator,api"}, 2, "alone"},
		{"dead letters of the future", nil, []string{"fanfare", "dlq", "ls", "--newer=-1h"}, 2, "--newer"},
		{"no secret", nil, []string{"fanfare", "token", "ann"}, 1, "fanfare-data"},
		{"bad ttl", nil, []string{"fanfare", "token", "ann", "--ttl", "0s"}, 2, "--ttl"},
		{"unknown topic", nil, []string{"fanfare", "dlq", "ls", "mail"}, 2, "mail"},
		{"redrive of nothing", nil, []string{"fanfare", "dlq", "redrive", "posts"}, 2, "--all"},
		{"too many dead letters at once", nil, []string{"fanfare", "dlq", "ls", "--limit", "1001"}, 2, "--limit"},
		{"nobody at the admin address", nil, []string{"fanfare", "dlq", "ls", "--admin", "127.0.0.1:1"}, 1, "--admin"},
		{"explain of no user", nil, []string{"fanfare", "explain"}, 2, "see fanfare explain --help"},
		{"explain of a bad user", nil, []string{"fanfare", "explain", "a b"}, 2, "a b is no user id"},
		{"explain of a bad post", nil, []string{"fanfare", "explain", "ann", "x"}, 2, "x is no post id"},
		{"delivery of a bad post", nil, []string{"fanfare", "delivery", "x"}, 2, "x is no post id"},
		{"nobody to explain", nil, []string{"fanfare", "explain", "ann", "--admin", "127.0.0.1:1"}, 1, "--admin"},
		{"no region", nil, []string{"fanfare", "table", "describe"}, 1, "AWS_REGION"},
		{"queues of up", nil, []string{"fanfare", "queues", "describe"}, 1, "fanfare_queue_depth"},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			code, out, errs := result(t, tt.env, tt.args[0], tt.args[1:]...)
			last := errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:]
			if code != tt.code || !strings.Contains(last, tt.want) {
				t.Errorf("exit code %d, not %d; stdout %q, stderr:\n%s", code, tt.code, out, errs)
			}
		})
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"fanfare"}, {"fanfare", "up"}, {"fanfare", "token"}, {"fanfare", "table"}, {"fanfare", "table", "create"}, {"fanfare", "queues", "describe"},
		{"fanfare", "dlq"}, {"fanfare", "dlq", "redrive"}, {"fanfare", "health"}, {"fanfare", "version"}, {"fanfare", "replay"}, {"fanfare", "capacity"}, {"fanfare", "explain"}, {"fanfare", "delivery"}, {"api"}, {"fanout"}, {"likeagg"},
	} {
		code, out, errs := result(t, nil, args[0], append(args[1:], "--help")...)
		assert.Zerof(t, code, "%v --help: exit code", args)
		assert.NotZerof(t, len(out)+len(errs), "%v --help: exit code", args)
		if args[0] != "fanfare" {
			continue
		}
		if code, help, errs := result(t, nil, "fanfare", append([]string{"help"}, args[1:]...)...); code != 0 || help != out || errs != "" {
			t.Errorf("help %v: exit code %d, %q, %q", args[1:], code, help, errs)
		}
	}
}

func TestEveryCommandTakesJSON(t *testing.T) {
	t.Parallel()
	root, _ := (&app{}).root()
	commands := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		_, isDaemon := called(c.Name())
		if c.Runnable() && !c.HasSubCommands() && !isDaemon && c.Name() != "help" {
			commands++
			if c.Name() == "export" { // export always prints lines of JSON
				return
			}
			if c.Flags().Lookup("json") == nil {
				t.Errorf("%s has no --json", c.CommandPath())
			}
		}
	}
	walk(root)
	assert.GreaterOrEqualf(t, commands, 15, "there are %d commands only", commands)
}

// This test reads stdout from a pipe: stdout has only the address, and stderr has the log.
func TestStdoutHasTheAddressAlone(t *testing.T) {
	t.Parallel()
	c := command(t, nil, "fanfare", "up", "--data-dir", t.TempDir(), "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || !readyLine.MatchString(line) {
		t.Errorf("first line is %q, %v", line, err)
	}
	require.NoError(t, c.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(r)
	assert.NoError(t, err)
	assert.Empty(t, rest)
	assert.NoError(t, c.Wait())
}
