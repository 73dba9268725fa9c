package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
)

// listing is an admin address that lists these dead letters for each topic.
func listing(t *testing.T, letters ...admin.DeadLetter) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(letters); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// A stranger may send a message, choose its id, and so write on the screen.
func TestAListOfDeadLettersHasOneRowForEach(t *testing.T) {
	addr := listing(t,
		admin.DeadLetter{ID: "x\nposts  forged  2026-01-01T00:00:00Z  1  all is well", Topic: "posts", Reason: "two\nlines"},
		admin.DeadLetter{ID: "\x1b[2Jclear", Topic: "posts", Reason: "a\ttab and \u202eback"},
		admin.DeadLetter{ID: "plain-1", Topic: "posts", Reason: `the body "é" is not JSON`})
	code, out, errs := result(t, nil, "fanfare", "dlq", "ls", "posts", "--admin", addr)
	require.Zerof(t, code, "exit code %d, %s", code, errs)
	assert.Equalf(t, 4, strings.Count(out, "\n"), "lines for a heading and 3 letters:\n%s", out)
	for _, want := range []string{`"x\nposts  forged`, `"two\nlines"`, `"\x1b[2Jclear"`, `"a\ttab and \u202eback"`, `plain-1 `, ` the body "é" is not JSON`} {
		assert.Contains(t, out, want, "the list lacks")
	}
}

func TestShowSaysIfItHasNotSeenAllDeadLetters(t *testing.T) {
	flood := make([]admin.DeadLetter, admin.MaxDeadLetters)
	for i := range flood {
		flood[i] = admin.DeadLetter{ID: fmt.Sprint("flood-", i), Topic: "posts"}
	}
	for name, c := range map[string]struct {
		letters []admin.DeadLetter
		want    string
	}{
		"all are listed": {flood[:5], "there is no dead letter wanted in posts"},
		"a flood":        {flood, "not among the first 1000 dead letters of posts, and there may be more"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := result(t, nil, "fanfare", "dlq", "show", "posts", "wanted", "--admin", listing(t, c.letters...))
			if code != 1 || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, %q, %q; want 1 and %q", code, out, errs, c.want)
			}
		})
	}
}
