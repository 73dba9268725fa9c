package daemon_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
	"fanfare/messages"
)

// blackHole is an AWS that lets a process start, gives some hundred messages to each subscription, and then
// answers no request. To return the messages in tens, the process needs three rounds of concurrent requests,
// each with a timeout of 20 s.
type blackHole struct {
	sqs *sqstest.Server
	// working is called after all likes have been received.
	working func()
}

// ServeHTTP implements http.Handler.
func (b *blackHole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, _ := io.ReadAll(r.Body) // in this process no read fails
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case op == "GetQueueUrl", op == "GetQueueAttributes", op == "ReceiveMessage" && b.sqs.Visible("fanfare-likes") > 0:
		b.sqs.ServeHTTP(w, r)
	case op == "GetItem" && (bytes.Contains(body, []byte("format")) || bytes.Contains(body, []byte("lifetimes"))):
		_, _ = io.WriteString(w, found(body)) // the client may have left
	case op == "ReceiveMessage":
		b.working()
		fallthrough
	default:
		<-r.Context().Done()
	}
}

// load puts messages into the queues of posts and likes.
func (b *blackHole) load(t *testing.T, n int) {
	t.Helper()
	ids := id.NewGenerator(time.Now)
	next := func() string {
		s, err := ids.New()
		require.NoError(t, err)
		return s
	}
	for range n {
		head := messages.Header{EventID: next(), Time: time.Now()}
		for name, event := range map[string]messages.Event{
			"fanfare-posts": &messages.PostCreated{Header: head, PostID: next(), AuthorID: "ann", Content: messages.Content{Text: "hello"}},
			"fanfare-likes": &messages.Liked{Like: messages.Like{Header: head, PostID: next(), UserID: "bob"}},
		} {
			msg, err := queue.Message(t.Context(), event)
			if err == nil {
				err = b.sqs.Load(name, msg)
			}
			require.NoError(t, err)
		}
	}
}

// TestProcessEndsWhateverAWSDoes stops a process that holds messages while AWS does not
// answer, so that handlers, polls and returns of messages all wait for AWS. The process
// must end before Kubernetes kills it, 30 s after the stop.
func TestProcessEndsWhateverAWSDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		working := make(chan struct{})
		hole := &blackHole{sqs: sqstest.New(0), working: sync.OnceFunc(func() { close(working) })}
		hole.load(t, 400)
		cfg, err := config.Load([]string{"FANFARE_ENGINE=aws", "FANFARE_ADMIN_ADDR=127.0.0.1:0"}, config.Worker)
		require.NoError(t, err)
		cfg.AdminAddr = "" // virtual time does not pass while a listener waits
		ctx, stop := context.WithCancel(withAWS(t.Context(), hole))
		defer stop()
		ended := make(chan error, 1)
		go func() {
			ended <- daemon.Run(ctx, daemon.Options{Config: cfg, Roles: daemon.Roles{Fanout: true, Likes: true}, Log: zap.NewNop()})
		}()
		select {
		case <-working:
		case err := <-ended:
			t.Fatalf("not started: %v", err)
		}
		stop()
		stopped := time.Now()
		err = <-ended
		took := time.Since(stopped)
		t.Logf("the process ended after %s: %v", took, err)
		assert.Less(t, took, 30*time.Second)
	})
}
