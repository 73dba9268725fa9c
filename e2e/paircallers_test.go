package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callers write posts to both machines, read from both, and note the answers.
type callers struct {
	t     *testing.T
	token string
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.Mutex
	posts    []string
	answers  map[*upright]int
	heir     *upright // the machine of the newest promotion
	answered bool     // the heir has answered
	double   int      // answers of the other machine to requests that began after an answer of the heir
}

func callBoth(t *testing.T, machines ...*upright) *callers {
	t.Helper()
	stdout, _, err := fanfare(t, append(machines[0].env, "FANFARE_DATA_DIR="+machines[0].data), "token", "ann")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l := &callers{t: t, token: strings.TrimSpace(stdout), stop: cancel, answers: map[*upright]int{}}
	await(t, "a profile", func() bool {
		status, _ := l.call(ctx, machines[0], http.MethodPut, "/v1/me", `{"name":"Ann"}`)
		return status == http.StatusOK
	})
	for _, u := range machines {
		for range 2 {
			l.wg.Go(func() { l.write(ctx, u) })
			l.wg.Go(func() { l.read(ctx, u) })
		}
	}
	t.Cleanup(l.end)
	return l
}

func (l *callers) end() { l.stop(); l.wg.Wait() }

func (l *callers) call(ctx context.Context, u *upright, method, path, body string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+u.http+path, strings.NewReader(body))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, ""
	}
	text, err := io.ReadAll(resp.Body)
	if resp.Body.Close() != nil || err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

// asked calls and notes whether the answer was one too many.
func (l *callers) asked(ctx context.Context, u *upright, method, path, body string) string {
	l.mu.Lock()
	forbidden := l.heir != nil && l.answered && u != l.heir
	heir := l.heir
	l.mu.Unlock()
	status, text := l.call(ctx, u, method, path, body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if status != http.StatusOK && status != http.StatusCreated {
		return ""
	}
	l.answers[u]++
	l.answered = l.answered || u == l.heir
	if forbidden && l.heir == heir {
		l.double++
	}
	return text
}

func (l *callers) write(ctx context.Context, u *upright) {
	for pause(ctx, 20*time.Millisecond) {
		var post struct{ ID string }
		if text := l.asked(ctx, u, http.MethodPost, "/v1/posts", `{"text":"kept"}`); text != "" && json.Unmarshal([]byte(text), &post) == nil {
			l.mu.Lock()
			l.posts = append(l.posts, post.ID)
			l.mu.Unlock()
		}
	}
}

func (l *callers) read(ctx context.Context, u *upright) {
	for pause(ctx, 20*time.Millisecond) {
		l.asked(ctx, u, http.MethodGet, "/v1/me", "")
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// promoted makes a machine the only one that may answer.
func (l *callers) promoted(u *upright) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heir, l.answered = u, false
}

func (l *callers) count(u *upright) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[u]
}

// known returns the number of answered writes.
func (l *callers) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.posts)
}

// forget gives up all answered writes but the first ones.
func (l *callers) forget(first int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posts = l.posts[:first]
}

// more waits until a machine has answered more calls.
func (l *callers) more(u *upright) {
	l.t.Helper()
	before := l.count(u)
	await(l.t, "answers", func() bool { return l.count(u) > before+10 })
}

// kept fails the test unless the machine has each answered write, and no two machines answered at a time.
func (l *callers) kept(u *upright) {
	l.t.Helper()
	l.mu.Lock()
	posts, double := l.posts, l.double
	l.mu.Unlock()
	assert.Zero(l.t, double, "answers of a machine that the other machine had replaced")
	assert.NotEmpty(l.t, posts)
	for i := 0; i < len(posts); i += 100 {
		var text string
		await(l.t, "the posts", func() bool { // a primary whose standby is late refuses for a moment
			status, answer := l.call(l.t.Context(), u, http.MethodGet, "/v1/posts?ids="+strings.Join(posts[i:min(len(posts), i+100)], ","), "")
			text = answer
			return status == http.StatusOK
		})
		for _, id := range posts[i:min(len(posts), i+100)] {
			assert.Contains(l.t, text, id, "an answered write is lost")
		}
	}
	l.t.Logf("%d answered writes are kept", len(posts))
}
