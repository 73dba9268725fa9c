//go:build e2e && slow

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// schemathesisSeed is the seed of the requests that Schemathesis generates.
var schemathesisSeed = flag.Int("schemathesis-seed", 1, "seed of the tests by Schemathesis")

// recorder is a proxy in front of the API that counts the answers of each operation.
type recorder struct {
	url    string
	server *httptest.Server
	alter  func(operation string, body []byte) []byte // changes answers, if not nil
	routes *http.ServeMux

	mu       sync.Mutex
	statuses map[string]map[int]int // by operation; "" means a request of no operation
	failures []string               // requests with a 5xx answer
}

// record puts a recorder with the operations of d in front of u. alter, if not nil, changes the answers
// of the API.
func record(t *testing.T, u *upright, d document, alter func(operation string, body []byte) []byte) *recorder {
	t.Helper()
	r := &recorder{alter: alter, routes: http.NewServeMux(), statuses: map[string]map[int]int{}}
	for path, methods := range d.Paths {
		for method, op := range methods {
			r.routes.HandleFunc(strings.ToUpper(method)+" "+path, func(http.ResponseWriter, *http.Request) {})
			r.statuses[strings.ToUpper(method)+" "+path] = map[int]int{}
			assert.NotEmptyf(t, op.OperationID, "%s %s has no operationId", method, path)
		}
	}
	r.statuses[""] = map[int]int{}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	r.server = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: u.http})
			p.Out.URL.RawQuery = p.In.URL.RawQuery // unchanged, even if it is not well-formed
		},
		ModifyResponse: r.note,
	})
	t.Cleanup(r.server.Close)
	r.url = r.server.URL
	return r
}

// stop ends the recording. The records may be read only after stop.
func (r *recorder) stop() { r.server.Close() }

func (r *recorder) note(resp *http.Response) error {
	_, operation := r.routes.Handler(resp.Request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.statuses[operation] == nil { // the routes redirect a path that is not clean
		operation = ""
	}
	r.statuses[operation][resp.StatusCode]++
	if resp.StatusCode >= http.StatusInternalServerError {
		r.failures = append(r.failures, fmt.Sprintf("%s %s: %s", resp.Request.Method, resp.Request.URL, resp.Status))
	}
	if r.alter == nil || resp.StatusCode >= 300 {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	body = r.alter(operation, body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// realIDs are the ids that testdata/real_ids.py puts into generated paths.
type realIDs struct {
	Users     []string    `json:"users"`
	Posts     []string    `json:"posts"`
	Deletable []string    `json:"deletable"`
	Comments  [][2]string `json:"comments"`
}

// seed makes users, follows, posts, comments and likes through the API and returns
// a token of the author, with the scope to act for others.
func seed(t *testing.T, u *upright) (token string, ids realIDs) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	base, err := client.New("http://" + u.http)
	must(err)
	t.Cleanup(base.CloseIdleConnections)
	as := func(user string, scopes ...string) (*client.Client, string) {
		t.Helper()
		issued, err := base.DevToken(ctx, user, 0, scopes...)
		must(err)
		c := base.AsToken(issued.Token)
		_, err = c.PutMe(ctx, client.ProfileInput{Name: user, Bio: "of " + user})
		must(err)
		return c, issued.Token
	}
	me, token := as("me", "fanfare:act", "fanfare:delete")
	post := func(i int) string {
		t.Helper()
		p, err := me.CreatePost(ctx, client.PostInput{Text: fmt.Sprintf("post %d", i)})
		must(err)
		return p.ID
	}
	for i := range 120 {
		ids.Deletable = append(ids.Deletable, post(i))
	}
	for i := range 8 {
		ids.Posts = append(ids.Posts, post(i))
	}
	for i := range 80 {
		p := ids.Posts[i%len(ids.Posts)]
		c, err := me.CreateComment(ctx, p, fmt.Sprintf("comment %d", i))
		must(err)
		ids.Comments = append(ids.Comments, [2]string{p, c.ID})
	}
	for _, name := range []string{"ann", "ben", "cat"} {
		ids.Users = append(ids.Users, name)
		user, _ := as(name)
		must(user.Follow(ctx, "me"))
		must(me.Follow(ctx, name))
		own, err := user.CreatePost(ctx, client.PostInput{Text: "by " + name})
		must(err)
		must(me.Like(ctx, own.ID))
		for _, p := range ids.Posts {
			_, err := user.CreateComment(ctx, p, "from "+name)
			must(err)
			must(user.Like(ctx, p))
		}
	}
	for _, p := range ids.Posts {
		await(t, "likes of "+p, func() bool {
			count, err := me.LikeCount(ctx, p)
			must(err)
			return count.Count == int64(len(ids.Users))
		})
	}
	return token, ids
}

// schemathesis tests the API through r, and returns its output and exit code.
func schemathesis(t *testing.T, r *recorder, token string, ids realIDs, more ...string) (output string, exit int) {
	t.Helper()
	script, err := filepath.Abs("../scripts/python-tools.sh")
	require.NoError(t, err)
	hooks, err := filepath.Abs("testdata/real_ids.py")
	require.NoError(t, err)
	known, err := json.Marshal(ids)
	require.NoError(t, err)
	others := newOutsiders(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, script, append([]string{
		"run", "schemathesis", "st", "run", r.url + "/openapi.json", "--header", "Authorization: Bearer " + token,
		"--seed", fmt.Sprint(*schemathesisSeed), "--max-examples", "10", "--generation-database", "none", "--no-color",
		// The check positive_data_acceptance would count each 4xx for valid data as a failure, even 404
		// and 409.
		"--exclude-checks", "positive_data_acceptance",
		"--report", "junit", "--report-junit-path", filepath.Join(t.TempDir(), "junit.xml"),
	}, more...)...)
	command.Dir = t.TempDir()
	command.Env = environment(append(others.environment(), "SCHEMATHESIS_HOOKS="+hooks, "E2E_REAL_IDS="+string(known), "PYTHONDONTWRITEBYTECODE=1")...)
	// The children of a killed command may keep the pipe open.
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	exit = code(err)
	require.GreaterOrEqualf(t, exit, 0, "schemathesis: %v\n%s", err, out)
	others.none(t)
	return string(out), exit
}

// TestTheAPIKeepsItsOpenAPIDocument lets Schemathesis send requests that the document allows and requests
// that the document forbids, for all operations of the API.
func TestTheAPIKeepsItsOpenAPIDocument(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	u.env = append(append(u.env, newOutsiders(t).environment()...), "FANFARE_EVENTS_KEPT=1h")
	p := u.start(t)
	token, ids := seed(t, u)
	r := record(t, u, u.document(t), nil)
	output, exit := schemathesis(t, r, token, ids)
	r.stop()
	if !assert.Zero(t, exit, "exit code of Schemathesis") {
		t.Log(output) // testify prints no message with such long lines
	}
	for _, failure := range r.failures {
		t.Errorf("server error: %s", failure)
	}
	calls := 0
	for operation, statuses := range r.statuses {
		succeeded := 0
		for status, n := range statuses {
			calls += n
			if status < 300 {
				succeeded += n
			}
		}
		if operation != "" && succeeded == 0 {
			t.Errorf("%s never succeeded: %v", operation, statuses)
		}
		t.Logf("%4d × 2xx of %s %v", succeeded, operation, statuses)
	}
	t.Logf("%d calls", calls)
	assert.GreaterOrEqualf(t, calls, 500, "only %d calls were made", calls)
	p.stop(t)
}

// TestSchemathesisFindsAnAnswerThatIsNotAsDocumented proves that TestTheAPIKeepsItsOpenAPIDocument can
// fail.
func TestSchemathesisFindsAnAnswerThatIsNotAsDocumented(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	token, ids := seed(t, u)
	r := record(t, u, u.document(t), func(operation string, body []byte) []byte {
		if operation != "GET /v1/me" {
			return body
		}
		return bytes.Replace(body, []byte(`"bio"`), []byte(`"biography"`), 1)
	})
	output, exit := schemathesis(t, r, token, ids, "--include-operation-id", "get-me", "--phases", "examples,fuzzing")
	assert.Equal(t, 1, exit, "schemathesis ended with")
	assert.Contains(t, output, "Response violates schema", "schemathesis ended with")
	p.stop(t)
}
