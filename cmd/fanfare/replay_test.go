package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/client/clienttest"
)

// replayed runs `fanfare replay` in this process, without a reachable admin address.
func replayed(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	// Port 1 has no admin address.
	status = run(append([]string{"fanfare", "replay"}, args...), []string{"FANFARE_ADMIN_ADDR=127.0.0.1:1"}, &out, &problems)
	return status, out.String(), problems.String()
}

func edges(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "some.edges")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestReplayTellsWrongUseFromFailure(t *testing.T) {
	t.Parallel()
	good := edges(t, "a b\nc b\n")
	nobody := "http://127.0.0.1:1"
	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"nothing to play":         {nil, 2, "graph"},
		"unknown flag":            {[]string{"--graph", good, "--fast"}, 2, "--fast"},
		"an argument":             {[]string{"--graph", good, "now"}, 2, "now"},
		"play and check":          {[]string{"--graph", good, "--check", good}, 2, "check"},
		"check and posts":         {[]string{"--check", good, "--posts", "3"}, 2, "check"},
		"negative posts":          {[]string{"--graph", good, "--posts", "-1"}, 2, "--posts"},
		"one user":                {[]string{"--graph", good, "--max-users", "1"}, 2, "--max-users"},
		"more than all away":      {[]string{"--graph", good, "--away", "1.1"}, 2, "--away"},
		"check and away":          {[]string{"--check", good, "--away", "0.5"}, 2, "away"},
		"a limit below zero":      {[]string{"--graph", good, "--push-limit", "-1"}, 2, "--push-limit"},
		"no concurrency":          {[]string{"--graph", good, "--concurrency", "0"}, 2, "--concurrency"},
		"too many likes":          {[]string{"--graph", good, "--posts", "1", "--likes", "4", "--target", nobody}, 2, "4 likes"},
		"no such graph":           {[]string{"--graph", good + "x"}, 1, good + "x"},
		"a bad line":              {[]string{"--graph", edges(t, "a b\nc\n")}, 1, "some.edges:2:"},
		"no such journal":         {[]string{"--check", good + "x", "--target", nobody}, 1, good + "x"},
		"what is no journal":      {[]string{"--check", good, "--target", nobody}, 1, "some.edges"},
		"a target that is no URL": {[]string{"--graph", good, "--likes", "1", "--target", "localhost:8080"}, 2, "localhost:8080"},
		"no admin address there":  {[]string{"--graph", good, "--likes", "1", "--target", nobody, "--admin", "127.0.0.1:1"}, 1, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := replayed(t, tt.args...)
			if status != tt.status || stdout != "" || !strings.Contains(stderr, tt.says) {
				t.Errorf("status %d, stdout %q, stderr %q; want %d and %q", status, stdout, stderr, tt.status, tt.says)
			}
			assert.NotContains(t, stderr, "queue depths", "the fault comes first, and alone")
		})
	}
}

func TestReplayPrintsItsReport(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	server := httptest.NewServer(fake)
	defer server.Close()
	args := []string{"--graph", edges(t, "a b\nc b\n"), "--posts", "5", "--likes", "6", "--target", server.URL}
	status, stdout, stderr := replayed(t, append(args, "--json")...)
	var report map[string]any
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != 0 || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("status %d, error %v, stdout %q, stderr %q", status, err, stdout, stderr)
	}
	if report["users"] != 3.0 || report["edges"] != 4.0 || report["missing"] != 0.0 || report["wcu"] != nil {
		t.Errorf("printed %s", stdout)
	}
	if status, stdout, stderr = replayed(t, append(args, "--away", "0.5", "--rebuilt-after", "1ns")...); status != 0 || !strings.Contains(stdout, "away 2") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if status, stdout, _ = replayed(t, args...); status != 0 || !strings.Contains(stdout, "missing 0, unexpected 0, duplicated 0; wrong counts 0") {
		t.Errorf("status %d, stdout %q", status, stdout)
	}
}

func TestReplayFailsOnAPostThatDoesNotBelong(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	fake.AlterHome = func(_ string, items []client.HomeItem) []client.HomeItem {
		return append(items, client.HomeItem{Post: client.Post{ID: "00000000000000000000000000"}})
	}
	server := httptest.NewServer(fake)
	defer server.Close()
	status, stdout, stderr := replayed(t, "--graph", edges(t, "a b\n"), "--posts", "1", "--likes", "1", "--target", server.URL, "--json")
	if status != 1 || !strings.Contains(stdout, `"unexpected":2`) || !strings.Contains(stderr, "not exact") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}
