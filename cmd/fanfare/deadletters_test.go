package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
)

// listing returns an admin address that lists the given dead letters for each topic.
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

// A stranger may send a message and choose its id, so the id must not control the terminal.
func TestAListOfDeadLettersHasOneRowForEach(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// slow counts the redrives of an endless queue of dead letters. 25 of the letters failed before the start.
type slow struct {
	left  int
	calls []string
}

func (o *slow) redrive(s admin.Selection) (admin.Redriven, error) {
	n := min(s.Limit, o.left)
	o.left -= n
	again := "again"
	if !s.Before.IsZero() {
		again = "once"
	}
	o.calls = append(o.calls, fmt.Sprintf("%s %d %s", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), n, again))
	return admin.Redriven{Sent: n, Refused: 2}, nil
}

func TestARedriveKeepsItsRateAndSendsALetterOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &slow{left: 25}
		var progress []int
		done, err := redriveSlowly(t.Context(), admin.Selection{All: true, Limit: 10}, o.redrive, func(r admin.Redriven) { progress = append(progress, r.Sent) })
		require.NoError(t, err)
		assert.Equal(t, admin.Redriven{Sent: 25, Refused: 2}, done)
		assert.Equal(t, []string{"0s 10 again", "1s 10 once", "2s 5 once"}, o.calls)
		assert.Equal(t, []int{10, 20}, progress)
	})
}

func TestDropOfAllAsks(t *testing.T) {
	t.Parallel()
	addr := listing(t, admin.DeadLetter{ID: "a", Topic: "posts", Reason: "bad"}, admin.DeadLetter{ID: "b", Topic: "posts", Reason: "worse"})
	code, out, errs := result(t, nil, "fanfare", "dlq", "drop", "posts", "--all", "--admin", addr)
	assert.Equal(t, 2, code)
	assert.Empty(t, out)
	assert.Regexp(t, "^Remove 2 dead letters of posts for good\\? Type yes: \nfanfare: nothing was changed.* --yes.*\n$", errs)
	_, _, errs = result(t, nil, "fanfare", "dlq", "drop", "posts", "--all", "--reason", "wor", "--admin", addr)
	assert.Contains(t, errs, "Remove 1 dead letters")
	code, out, errs = result(t, nil, "fanfare", "dlq", "drop", "posts", "--all", "--dry-run", "--admin", addr)
	assert.Zero(t, code, errs)
	assert.Equal(t, 3, strings.Count(out, "\n"), out)
	for _, none := range [][]string{{listing(t)}, {addr, "--reason", "none of them"}} {
		code, out, errs = result(t, nil, "fanfare", append([]string{"dlq", "drop", "posts", "--all", "--admin"}, none...)...)
		assert.Equal(t, "0 dropped 0\n ", fmt.Sprint(code, " ", out, errs, " "), "there is nothing to ask about")
	}
	flood := make([]admin.DeadLetter, admin.MaxDeadLetters)
	_, _, errs = result(t, nil, "fanfare", "dlq", "drop", "posts", "--all", "--reason", "rare", "--admin", listing(t, flood...))
	assert.Contains(t, errs, "Remove 0 or more dead letters", "those that were not looked at may be meant")
}

func TestOnlyTheExpectedAnswerConfirms(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"yes\n": true, "\tyes\r\n": true, "no\n": false, "\n": false, "": false, "yes": false, "YES\n": false} {
		var out strings.Builder
		err := (&app{stderr: &out}).confirm(strings.NewReader(answer), "Sure? ", "yes")
		assert.Equal(t, want, err == nil, "%q", answer)
		_, usage := errors.AsType[*usageError](err)
		assert.Equal(t, !want, usage, "every refusal has one exit code")
		assert.Equal(t, "Sure? \n", out.String())
	}
}

// Only confirm asks the operator, so that all refused questions have the same exit code.
func TestOnePlaceAsks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if name := "output.go"; file != name && !strings.HasSuffix(file, "_test.go") {
			assert.NotRegexp(t, `bufio\.|os\.Stdin`, string(text), file)
		}
	}
}
