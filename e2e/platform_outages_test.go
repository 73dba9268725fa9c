//go:build e2e && platform

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/porttest"
	"fanfare/internal/queue"
)

// breakable is a proxy in front of SQS and the table. During a fault the proxy answers calls itself.
type breakable struct {
	url    string
	fault  atomic.Pointer[breakage]
	failed atomic.Int64
}

// breakage answers the nth call of an operation and returns true, or returns false and leaves the call to
// AWS.
type breakage func(rw http.ResponseWriter, operation string, n int64) bool

func newBreakable(t *testing.T) *breakable {
	t.Helper()
	b := &breakable{}
	var calls atomic.Int64
	b.url = startAWSProxy(t, func(rw http.ResponseWriter, r *http.Request) bool {
		fault := b.fault.Load()
		fails := fault != nil && (*fault)(rw, r.Header.Get("X-Amz-Target"), calls.Add(1))
		if fails {
			b.failed.Add(1)
		}
		return fails
	}, nil)
	return b
}

// answersWith returns a fault that answers these operations with an error of AWS.
func answersWith(status int, code string, operations ...string) breakage {
	return func(rw http.ResponseWriter, operation string, _ int64) bool {
		for _, prefix := range operations {
			if strings.HasPrefix(operation, prefix) {
				rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
				rw.WriteHeader(status)
				_, _ = fmt.Fprintf(rw, `{"__type":%q,"message":"as the test wants"}`, code) // the caller may have left
				return true
			}
		}
		return false
	}
}

// breaksConnections returns a fault that breaks the connections of operations with this prefix, without
// an answer.
func breaksConnections(prefix string) breakage {
	return func(rw http.ResponseWriter, operation string, _ int64) bool {
		if !strings.HasPrefix(operation, prefix) {
			return false
		}
		connection, _, err := http.NewResponseController(rw).Hijack()
		return err == nil && connection.Close() == nil
	}
}

// tableWrites returns the operations that write the table.
func tableWrites() []string {
	var all []string
	for _, name := range []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"} {
		all = append(all, "DynamoDB_20120810."+name)
	}
	return all
}

// outageOf is an outage for the workers, and for an api behind the proxy.
type outageOf struct {
	name  string
	fault breakage
	// home and post are the statuses with which that api answers a read and a post, 0 for any status.
	home, post int
	// alone is true if only one of the two fan-out workers has the fault.
	alone bool
}

func outagesOf() []outageOf {
	throttled := answersWith(http.StatusBadRequest, "ThrottlingException", tableWrites()...)
	const table, queues = "DynamoDB_", "AmazonSQS."
	return []outageOf{
		{name: "the role is denied its writes", fault: answersWith(http.StatusBadRequest, "AccessDeniedException", tableWrites()...), home: 200},
		{name: "the table throttles", fault: func(rw http.ResponseWriter, operation string, n int64) bool {
			return n%4 > 0 && throttled(rw, operation, n)
		}, home: 200},
		{name: "the table is away", fault: breaksConnections(table), home: 503, post: 503},
		{name: "the key of the table is off", fault: answersWith(http.StatusBadRequest, "KMSInvalidStateException", table), home: 503, post: 503},
		{name: "the queues are away", fault: answersWith(http.StatusServiceUnavailable, "ServiceUnavailable", queues), home: 200, post: 503},
		{name: "the key of the queues is off", fault: answersWith(http.StatusBadRequest, "KmsDisabled", queues+"SendMessage", queues+"ReceiveMessage"), home: 200, post: 503},
		{name: "a bad release of one fan-out", fault: answersWith(http.StatusBadRequest, "ValidationException", tableWrites()...), alone: true},
	}
}

// TestPlatformOutagesLoseNothing starts each outage under load. The load ends during the outage, and then
// the outage ends. Afterwards every home, like and count has to be exact, no dead letter may exist, and
// the log may have only a few lines about the outage.
func TestPlatformOutagesLoseNothing(t *testing.T) {
	t.Parallel()
	all, one := newBreakable(t), newBreakable(t)
	behind := porttest.Free(t)
	c := newClusterOf(t, []string{"api", "likeagg"})
	c.add(t, append(throughProxy(all.url), "FANFARE_HTTP_ADDR="+behind), "api", "fanout", "likeagg")
	c.add(t, throughProxy(one.url), "fanout")
	token := c.reader(t)
	for seed, o := range outagesOf() {
		t.Run(o.name, func(t *testing.T) {
			journal := filepath.Join(t.TempDir(), "journal")
			player := start(t, c.env, "fanfare", c.replay("--graph", graph, "--max-users", "20", "--posts", "60", "--likes", "300",
				"--rate", "40", "--journal", journal, "--seed", fmt.Sprint(seed))...)
			player.plays(t, journal, 600)
			written := c.logLines(t)
			proxies, calls := []*breakable{one, all}, int64(20)
			if o.alone { // the worker with the fault pauses, and the second worker gets the messages
				proxies, calls = proxies[:1], 4
			}
			for _, b := range proxies {
				b.failed.Store(0)
				b.fault.Store(&o.fault)
				t.Cleanup(func() { b.fault.Store(nil) })
			}
			for _, b := range proxies {
				await(t, "calls fail", func() bool { return b.failed.Load() >= calls })
			}
			if o.home > 0 {
				await(t, fmt.Sprint("a read is answered ", o.home), func() bool {
					return strings.HasPrefix(get(t, behind, "/v1/home", token), fmt.Sprint(o.home, " "))
				})
			}
			if o.post > 0 {
				status, retry := write(t, behind, token)
				assert.Equal(t, o.post, status)
				assert.NotEmpty(t, retry)
			}
			player.plays(t, journal, 1150)
			for _, b := range proxies {
				b.fault.Store(nil)
			}
			player.ends(t)
			stdout, stderr, err := fanfare(t, c.env, c.replay("--check", journal)...)
			verdict(t, stdout, stderr, err)
			assert.Zero(t, c.deadLetters(t), "dead letters")
			if o.alone {
				assert.Less(t, one.failed.Load(), int64(100), "writes of the bad release")
			}
			for m, lines := range c.logLines(t) {
				t.Logf("%s: %d lines, %d and %d calls failed", m.kind, lines-written[m], all.failed.Load(), one.failed.Load())
				assert.LessOrEqual(t, lines-written[m], 120, "lines of a %s in the outage", m.kind)
			}
		})
	}
	c.stop(t)
}

// reader returns the token of a new user.
func (c *cluster) reader(t *testing.T) string {
	t.Helper()
	api, err := client.New("http://" + c.http)
	require.NoError(t, err)
	token, err := api.DevToken(t.Context(), "reader", 12*time.Hour)
	require.NoError(t, err)
	_, err = api.AsToken(token.Token).PutMe(t.Context(), client.ProfileInput{Name: "Reader"})
	require.NoError(t, err)
	return token.Token
}

// logLines counts the lines of each member's log.
func (c *cluster) logLines(t *testing.T) map[*member]int {
	t.Helper()
	counts := map[*member]int{}
	for _, m := range c.members {
		counts[m] = lines(t, m.log)
	}
	return counts
}

// TestPlatformDeadLettersByTheThousandComeBackExactly turns every post and like into a dead letter, as a
// release with a defect would, and redrives all dead letters.
func TestPlatformDeadLettersByTheThousandComeBackExactly(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, []string{"api"})
	journal := filepath.Join(t.TempDir(), "journal")
	const calls = 20 + 230 + 100 + 1400 // profiles, follows, posts and likes
	player := start(t, c.env, "fanfare", c.replay("--graph", graph, "--max-users", "20", "--posts", "100", "--likes", "1400", "--journal", journal)...)
	player.plays(t, journal, 2*calls)
	player.kill(t) // a running replay would wait for the deliveries
	c.bury(t, queue.TopicPosts, 100)
	c.bury(t, queue.TopicLikes, 1400)

	c.add(t, nil, "fanout", "likeagg")
	for _, topic := range []string{queue.TopicPosts, queue.TopicLikes} {
		stdout, stderr, err := fanfare(t, c.env, "dlq", "redrive", topic, "--all", "--json")
		require.NoError(t, err, "%s%s", stdout, stderr)
		t.Logf("%s: %s", topic, stdout)
	}
	stdout, stderr, err := fanfare(t, c.env, c.replay("--check", journal)...)
	verdict(t, stdout, stderr, err)
	assert.Zero(t, c.deadLetters(t), "dead letters")
	c.stop(t)
}

// bury moves all messages of a topic to the topic's dead letters, as SQS does after too many receives. An answer of SQS may be
// empty before that.
func (c *cluster) bury(t *testing.T, topic string, atLeast int) {
	t.Helper()
	from := os.Getenv("AWS_ENDPOINT_URL") + "/000000000000/" + c.name + "-" + topic
	buried := 0
	await(t, fmt.Sprint(atLeast, " dead letters of ", topic), func() bool {
		var received struct {
			Messages []struct {
				Body, ReceiptHandle string
				MessageAttributes   json.RawMessage
			}
		}
		callSQS(t, "ReceiveMessage", map[string]any{"QueueUrl": from, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 2, "MessageAttributeNames": []string{"All"}}, &received)
		if len(received.Messages) == 0 {
			return buried >= atLeast
		}
		var letters, answered []any
		for i, m := range received.Messages {
			letters = append(letters, map[string]any{"Id": strconv.Itoa(i), "MessageBody": m.Body, "MessageAttributes": m.MessageAttributes})
			answered = append(answered, map[string]any{"Id": strconv.Itoa(i), "ReceiptHandle": m.ReceiptHandle})
		}
		callSQS(t, "SendMessageBatch", map[string]any{"QueueUrl": from + sqsDead, "Entries": letters}, nil)
		callSQS(t, "DeleteMessageBatch", map[string]any{"QueueUrl": from, "Entries": answered}, nil)
		buried += len(letters)
		return false
	})
}

// sqsDead is the suffix of the name of a dead-letter queue.
const sqsDead = "-dlq"
