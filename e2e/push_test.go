//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endpoint is a false FCM, which refuses each third message.
type endpoint struct {
	mu      sync.Mutex
	asked   int
	pushed  map[string]int // by the name of the actor
	refused int
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Message struct {
			Topic string
			Data  map[string]string
		}
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	switch {
	case err != nil || r.Header.Get("Authorization") != "Bearer fcm" || body.Message.Topic != "ann" || body.Message.Data["kind"] != "follow":
		w.WriteHeader(http.StatusBadRequest)
	case e.asked%3 == 0:
		e.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		e.pushed[body.Message.Data["actor_id"]]++
	}
}

func (e *endpoint) state() (pushed map[string]int, refused int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.pushed), e.refused
}

// TestTheExampleOfPushPushesEachNotification runs examples/push beside a Fanfare that is killed in the middle. The program ends at
// each refusal of the endpoint, and is started again.
func TestTheExampleOfPushPushesEachNotification(t *testing.T) {
	t.Parallel()
	fcm := &endpoint{pushed: map[string]int{}}
	server := httptest.NewServer(fcm)
	t.Cleanup(server.Close)
	u := newUp(t)
	u.env = append(u.env, "FANFARE_EVENTS_KEPT=1h")
	p := u.start(t)
	token, _, err := fanfare(t, append(u.env, "FANFARE_DATA_DIR="+u.data), "token", "--act", "push")
	require.NoError(t, err)
	program, file := buildExample(t, "push"), filepath.Join(t.TempDir(), "position")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			run := exec.CommandContext(ctx, program, "http://"+u.http, server.URL, file)
			run.Env = append(slices.Clone(u.env), "SERVICE_TOKEN="+strings.TrimSpace(token), "PUSH_TOKEN=fcm")
			out, err := run.CombinedOutput()
			assert.Error(t, err)
			assert.True(t, ctx.Err() != nil || strings.HasPrefix(string(out), "push: "), string(out))
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	anyone := reach(t, u.http)
	signUp(t, anyone, "ann")
	want := map[string]int{}
	follow := func(users ...string) {
		t.Helper()
		for _, user := range users {
			require.NoError(t, signUp(t, anyone, user).Follow(t.Context(), "ann"))
			want[user] = 1
		}
		await(t, "each follow is pushed", func() bool {
			pushed, _ := fcm.state()
			return len(pushed) == len(want)
		})
	}
	follow("bob", "cid", "dan")
	pushed, refused := fcm.state()
	assert.Equal(t, want, pushed, "a refused push is repeated, and no other one")
	assert.Equal(t, 1, refused)
	p.kill(t)
	p = u.start(t)
	follow("eve", "fay", "gus")
	p.stop(t)
}
