//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/messages"
)

// buildExample builds an example, which is a separate module, and returns the path of the binary.
func buildExample(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, ".")
	build.Dir = filepath.Join("..", "examples", name)
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "build %s:\n%s", name, out)
	return binary
}

// TestProducersInGoAndPythonPostAndLike runs the two examples against real daemons on LocalStack. Their
// posts arrive in homes, and their likes are counted.
func TestProducersInGoAndPythonPostAndLike(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, []string{"api", "fanout", "likeagg"})
	ann, bob := signUp(t, reach(t, c.http), "ann"), signUp(t, reach(t, c.http), "bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	var posts []string
	produce := func(text string, command ...string) string {
		t.Helper()
		run := exec.CommandContext(t.Context(), command[0], append(command[1:], "--prefix", c.name, "--author", "ann", "--fan", "bob", "--text", text)...)
		var problems strings.Builder
		run.Env, run.Stderr = c.env, &problems
		out, err := run.Output()
		require.NoErrorf(t, err, "%s:\n%s", command, &problems)
		return strings.TrimSpace(string(out))
	}
	python := []string{"../scripts/producer-python.sh", "run"}
	posts = append(posts, produce("from Go", buildExample(t, "producer")), produce("from Python: é, \ufffe, \x01", python...))
	for i, post := range posts {
		await(t, "a like of a producer is counted", func() bool {
			count, err := ann.LikeCount(t.Context(), post)
			return err == nil && count.Count == 1
		})
		p, err := bob.Post(t.Context(), post)
		require.NoError(t, err)
		assert.Equal(t, []string{"from Go", "from Python: é, \ufffe, \x01"}[i], p.Text)
	}
	var home []string
	await(t, "the posts of both are in bob's home", func() bool {
		page, err := bob.Home(client.Push).Page(t.Context(), "", 10)
		require.NoError(t, err)
		home = home[:0]
		for _, item := range page.Items {
			home = append(home, item.Post.ID)
		}
		return len(home) == 2
	})
	assert.ElementsMatch(t, posts, home)

	bad := produce(strings.Repeat("x", 5001), python...)
	await(t, "a post that is too long is a dead letter", func() bool {
		stdout, _, err := fanfare(t, c.env, "dlq", "ls", "posts", "--json")
		return err == nil && strings.Contains(stdout, "5001 characters")
	})
	_, err := bob.Post(t.Context(), bad)
	var problem *client.Problem
	require.ErrorAs(t, err, &problem)
	assert.Equal(t, http.StatusNotFound, problem.Status)
	c.stop(t)
}

// createQueue makes an SQS queue on LocalStack and returns its URL.
func createQueue(t *testing.T, name string) string {
	t.Helper()
	var made struct{ QueueUrl string }
	callSQS(t, "CreateQueue", map[string]any{"QueueName": name}, &made)
	return made.QueueUrl
}

// callSQS makes a call to the emulator. No entry of a batch may fail.
func callSQS(t *testing.T, operation string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, os.Getenv("AWS_ENDPOINT_URL"), bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=x")
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", operation, answer)
	require.NotContains(t, string(answer), `"Failed": [{`)
	if out != nil {
		require.NoError(t, json.Unmarshal(answer, out))
	}
}

// TestEventsReachTheirQueue follows, posts, mentions and likes, and expects an event for each action.
func TestEventsReachTheirQueue(t *testing.T) {
	t.Parallel()
	queue := "e2e-events-" + strings.ToLower(rand.Text()[:10])
	url := createQueue(t, queue)
	c := newClusterOf(t, []string{"api", "fanout", "likeagg"}, "FANFARE_EVENTS_QUEUE="+queue, "FANFARE_NOTIFICATIONS=on")
	ann, bob := signUp(t, reach(t, c.http), "ann"), signUp(t, reach(t, c.http), "bob")
	got := map[string]messages.Event{}
	arrives := func(kind string) {
		t.Helper()
		await(t, kind, func() bool {
			var received struct {
				Messages []struct{ Body, ReceiptHandle string }
			}
			callSQS(t, "ReceiveMessage", map[string]any{"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1}, &received)
			for _, m := range received.Messages {
				e, err := messages.Decode([]byte(m.Body))
				require.NoError(t, err)
				name := string(messages.KindOf(e))
				if n, ok := e.(*messages.Notified); ok {
					name += " " + n.NoticeKind
				}
				got[name] = e
				callSQS(t, "DeleteMessage", map[string]any{"QueueUrl": url, "ReceiptHandle": m.ReceiptHandle}, nil)
			}
			return got[kind] != nil
		})
	}
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	arrives("Followed")
	arrives("Notified follow")
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "Hello"})
	require.NoError(t, err)
	require.NoError(t, bob.Like(t.Context(), post.ID))
	_, err = bob.CreateComment(t.Context(), post.ID, "Hi")
	require.NoError(t, err)
	for _, kind := range []string{"PostDelivered", "LikeCounted", "Notified like", "Notified comment"} {
		arrives(kind)
	}
	liked, ok := got["Notified like"].(*messages.Notified)
	require.True(t, ok)
	assert.Equal(t, []string{"ann", post.ID, "bob"}, []string{liked.UserID, liked.Target, liked.ActorID})
	c.stop(t)
}
