package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/daemon"
	"fanfare/internal/feed/home"
)

// full is a stream whose writes fail because the disk is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAnAnswerThatIsLostIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--version", "version", "version --json", "version --help", "--help", "help", "help dlq", "help version", "dlq --help", "dlq ls --help", "completion bash", "completion zsh --no-descriptions", "completion fish", "completion powershell", "completion --help",
		"capacity", "iam policy --region eu-central-1 --account 123456789012 --daemon api", "api --version", "fanout -version",
	} {
		var stderr bytes.Buffer
		code := run(append([]string{"fanfare"}, strings.Fields(args)...), nil, full{}, &stderr)
		assert.Equalf(t, daemon.ExitFailure, code, "fanfare %s: %s", args, stderr.String())
		assert.Containsf(t, stderr.String(), "no space left on device", "fanfare %s", args)
		assert.NotContainsf(t, stderr.String(), "see fanfare", "fanfare %s", args)
	}
	assert.Equal(t, daemon.ExitFailure, run([]string{"api", "--version"}, nil, full{}, &bytes.Buffer{}))
	assert.Equal(t, daemon.ExitFailure, run([]string{"api", "--help"}, nil, full{}, full{}))
}

// hostile is a text that would clear the screen, hide a line, and reverse the direction of the text.
const hostile = "\x1b[2J\x1b]0;owned\a\rok  all is well\n\u202egnp.exe\u009b31m\x7f"

// No text of a stranger can control or fill an operator's terminal.
func TestTextsOfStrangersDoNothingToATerminal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\u6771", 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any
		switch {
		case strings.HasPrefix(r.URL.Path, "/admin/dead-letters/posts"):
			out = []admin.DeadLetter{{ID: hostile, Topic: "posts", Reason: hostile + long, Type: hostile, User: hostile, Payload: hostile, Metadata: map[string]string{hostile: hostile}}}
		case strings.HasPrefix(r.URL.Path, "/admin/dead-letters"):
			out = []admin.DeadLetter{}
		case strings.HasPrefix(r.URL.Path, "/admin/explain"):
			out = []home.Explanation{{Post: hostile, Author: hostile, Text: hostile + long}}
		case strings.HasPrefix(r.URL.Path, "/admin/delivery"):
			out = map[string]any{"state": hostile, "post_id": hostile}
		case r.URL.Path == "/admin/verify":
			out = json.RawMessage(`{"finding":{"kind":"x","pk":` + quoted(hostile) + `,"sk":` + quoted(hostile) + `,"detail":` + quoted(hostile+long) + `,"advice":` + quoted(hostile) + "}}\n" + `{"error":` + quoted(hostile+long) + `}`)
		case r.URL.Path == "/health":
			_, _ = w.Write([]byte(hostile)) // the write fails only if the client has failed its test
			return
		default:
			http.Error(w, hostile+long, http.StatusTeapot)
			return
		}
		if raw, ok := out.(json.RawMessage); ok {
			_, _ = w.Write(raw) // the command may have ended
			return
		}
		assert.NoError(t, json.NewEncoder(w).Encode(out))
	}))
	defer server.Close()
	environ := []string{"FANFARE_ADMIN_ADDR=" + server.Listener.Addr().String()}
	const post = "01JD8QJ4WZ0000000000000001"
	for _, args := range [][]string{
		{"dlq", "ls"}, {"dlq", "ls", "--json"}, {"dlq", "show", "posts", hostile}, {"dlq", "show", "posts", "other" + hostile}, {"dlq", "redrive", "posts", "--all", "--dry-run"}, {"dlq", "redrive", "posts", "x"}, {"dlq", "drop", "posts", hostile},
		{"explain", "ann"}, {"explain", "ann", "--json"}, {"explain", hostile}, {"explain", "ann", hostile}, {"delivery", post}, {"delivery", post, "--json"}, {"verify"}, {"verify", "--json"}, {"reconcile"}, {"backup", "x"},
		{"health", "--url", server.URL + "/health"}, {"health", "--url", server.URL + "/health", "--json"}, {"health", "--url", server.URL + "/else"}, {"health", "--url", hostile},
		{"token", hostile}, {"forget", hostile}, {"import", hostile}, {"restore", hostile}, {hostile}, {"help", hostile}, {"dlq", hostile}, {"--" + hostile}, {"doctor", "--daemon", hostile}, {"replay", "--check", hostile}, {"reconcile", "--since", hostile},
	} {
		var stdout, stderr bytes.Buffer
		run(append([]string{"fanfare"}, args...), environ, &stdout, &stderr)
		for name, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String()} {
			for _, bad := range []string{"\x1b", "\a", "\r", "\u202e", "\u009b", "\x7f", "\nok  all"} {
				assert.NotContainsf(t, text, bad, "%s of %.60q", name, args)
			}
			if !json.Valid([]byte(text)) { // JSON is never cut
				assert.Lessf(t, len(text), 200_000, "%s of %.60q", name, args)
			}
		}
		assert.NotEmptyf(t, stdout.String()+stderr.String(), "%.60q", args)
	}
}

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestJSONOnATerminalIsTheSameJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, (&app{stdout: &out}).printJSON(hostile+"😀\U000e0041"))
	var got string
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	assert.Equal(t, hostile+"😀\U000e0041", got)
}
