package daemon_test

import (
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum of a body
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/id"
	"fanfare/messages"
)

// blackHole is AWS as it lets a process start, gives each of its subscriptions some
// hundred messages, and never answers anything else. To hand them back in tens takes
// three rounds of the requests that may run at once, each with a timeout of 20 s.
type blackHole struct {
	t       *testing.T
	release chan struct{}
	// working is called when the likes have all been received.
	working func()

	mu    sync.Mutex
	given map[string]int
}

// ServeHTTP implements http.Handler.
func (b *blackHole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ QueueName, QueueURL string }
	var raw map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
		b.t.Error(err)
	}
	_ = json.Unmarshal(raw["QueueName"], &in.QueueName) // most have one of them, or none
	_ = json.Unmarshal(raw["QueueUrl"], &in.QueueURL)
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case op == "GetQueueUrl":
		b.reply(w, map[string]string{"QueueUrl": "http://" + r.Host + "/000000000000/" + in.QueueName})
	case op == "GetQueueAttributes":
		b.reply(w, map[string]any{"Attributes": map[string]string{"QueueArn": "arn:fake"}})
	case op == "GetItem" && strings.Contains(string(raw["Key"]), "ping"):
		b.reply(w, map[string]any{})
	case op == "ReceiveMessage" && b.receives(in.QueueURL) <= 40:
		b.reply(w, map[string]any{"Messages": b.messages(in.QueueURL)})
	default:
		if op == "ReceiveMessage" && strings.HasSuffix(in.QueueURL, "likes") {
			b.working()
		}
		select {
		case <-b.release:
		case <-r.Context().Done():
		}
	}
}

func (b *blackHole) reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		b.t.Error(err)
	}
}

func (b *blackHole) receives(queue string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given[queue]++
	return b.given[queue]
}

func (b *blackHole) messages(queue string) []map[string]any {
	ids := id.NewGenerator(time.Now)
	next := func() string {
		s, err := ids.New()
		if err != nil {
			b.t.Error(err)
		}
		return s
	}
	var out []map[string]any
	for range 10 {
		head := messages.Header{EventID: next(), Time: time.Now()}
		var e messages.Event = &messages.PostCreated{Header: head, PostID: next(), AuthorID: "ann", Text: "hello"}
		if strings.HasSuffix(queue, "likes") {
			e = &messages.Liked{Like: messages.Like{Header: head, PostID: next(), UserID: "bob"}}
		}
		body, err := messages.Encode(e)
		if err != nil {
			b.t.Error(err)
		}
		sum := md5.Sum(body) //nolint:gosec // SQS's checksum of a body
		out = append(out, map[string]any{
			"MessageId": head.EventID, "ReceiptHandle": head.EventID, "Body": string(body), "MD5OfBody": hex.EncodeToString(sum[:]),
			"Attributes": map[string]string{"ApproximateReceiveCount": "1"},
		})
	}
	return out
}

// TestProcessEndsWhateverAWSDoes stops a process that has messages in hand when AWS
// answers nothing: handlers, polls and hand-backs all wait for it. It has to be gone
// before Kubernetes kills it, 30 s after it was told to stop.
func TestProcessEndsWhateverAWSDoes(t *testing.T) {
	working := make(chan struct{})
	hole := &blackHole{t: t, release: make(chan struct{}), working: sync.OnceFunc(func() { close(working) }), given: map[string]int{}}
	server := httptest.NewServer(hole)
	defer server.Close()
	defer close(hole.release)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	cfg, err := config.Load([]string{"FANFARE_ENGINE=aws", "FANFARE_ADMIN_ADDR=127.0.0.1:0"}, config.Worker)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Config: cfg, Roles: daemon.Roles{Fanout: true, Likes: true}, Log: zap.NewNop(), Grace: time.Second,
		})
	}()
	select {
	case <-working:
	case err := <-ended:
		t.Fatalf("not started: %v", err)
	}
	stop()
	select {
	case err := <-ended:
		t.Logf("the process ended with: %v", err)
	case <-time.After(45 * time.Second):
		t.Fatal("the process still runs, 45 s after the stop and 44 s after its grace")
	}
}
