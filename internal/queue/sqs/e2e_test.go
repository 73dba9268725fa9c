//go:build e2e

package sqs_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
	"fanfare/internal/queue/queuetest"
	"fanfare/internal/queue/sqs"
)

// wire is the HTTP client of one broker, which a crash cuts.
type wire struct {
	inner aws.HTTPClient
	cut   context.Context // the life of the simulated process
	kill  context.CancelFunc
}

func (w *wire) Do(req *http.Request) (*http.Response, error) {
	if w.cut.Err() != nil {
		return nil, errors.New("the process is dead")
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(w.cut, cancel)
	resp, err := w.inner.Do(req.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
	}
	// After a success the context must live as long as the body.
	return resp, err
}

type localstack struct {
	prefix string
	cfg    aws.Config
	mu     sync.Mutex
	wires  map[queue.Broker]*wire
}

func newLocalstack(t *testing.T) *localstack {
	t.Helper()
	if os.Getenv("AWS_ENDPOINT_URL") == "" {
		t.Fatal("AWS_ENDPOINT_URL is not set: run this by scripts/with-emulators.sh, or give the address of a LocalStack")
	}
	cfg, err := awsclient.Load(t.Context(), config.WithRegion("us-east-1"))
	if err != nil {
		t.Fatal(err)
	}
	l := &localstack{
		prefix: "qt-" + strings.ToLower(watermill.NewShortUUID())[:8], cfg: cfg, wires: map[queue.Broker]*wire{},
	}
	if err := l.open(t, queuetest.Options{}).(*sqs.Broker).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *localstack) open(t *testing.T, o queuetest.Options) queue.Broker {
	t.Helper()
	cut, kill := context.WithCancel(context.Background())
	w := &wire{inner: l.cfg.HTTPClient, cut: cut, kill: kill}
	cfg := l.cfg.Copy()
	cfg.HTTPClient = w
	options := sqs.Options{
		Prefix: l.prefix, Visibility: o.Visibility, PollWait: time.Second,
		Log: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)),
	}
	if o.Visibility == 0 {
		options.Visibility = 8 * time.Second
	}
	if o.MaxInFlight > 0 {
		options.MaxInFlight = map[string]int{}
		for _, topic := range queue.Topics() {
			options.MaxInFlight[topic] = o.MaxInFlight
		}
	}
	b := sqs.New(awssqs.NewFromConfig(cfg), options)
	l.mu.Lock()
	l.wires[b] = w
	l.mu.Unlock()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		kill()
	})
	return b
}

func (l *localstack) crash(_ *testing.T, b queue.Broker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wires[b].kill()
}

func TestBrokerKeepsTheContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Backend {
		t.Helper()
		l := newLocalstack(t)
		return queuetest.Backend{Open: l.open, Crash: l.crash}
	})
}

func TestBrokerPassesWatermillsSuite(t *testing.T) {
	l := newLocalstack(t)
	var made sync.Map
	queuetest.RunWatermill(t, func(t *testing.T) queue.Broker {
		t.Helper()
		return l.open(t, queuetest.Options{})
	}, func(ctx context.Context, b queue.Broker, topic string) error {
		if _, done := made.Load(topic); done {
			return nil
		}
		if err := b.(*sqs.Broker).Create(ctx, topic); err != nil {
			return err
		}
		made.Store(topic, true)
		return nil
	})
}

func TestCreateIsIdempotentAndCorrects(t *testing.T) {
	l := newLocalstack(t)
	for _, visibility := range []time.Duration{10 * time.Second, 20 * time.Second} {
		b := l.open(t, queuetest.Options{Visibility: visibility}).(*sqs.Broker)
		if err := b.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		described, err := b.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(described) != len(queue.Topics()) {
			t.Fatalf("%d queues, want %d", len(described), len(queue.Topics()))
		}
		for _, d := range described {
			for name, want := range map[string]string{
				"MessageRetentionPeriod": "345600", "MaximumMessageSize": "1048576",
				"VisibilityTimeout": map[time.Duration]string{10 * time.Second: "10", 20 * time.Second: "20"}[visibility],
			} {
				if got := d.Attributes[name]; got != want {
					t.Errorf("%s: %s is %q, want %q", d.Name, name, got, want)
				}
			}
			if policy := d.Attributes["RedrivePolicy"]; !strings.Contains(policy, d.Name+"-dlq") || !strings.Contains(policy, "1000") {
				t.Errorf("%s: redrive policy %s", d.Name, policy)
			}
		}
	}
}

func TestMissingQueueSaysWhatToDo(t *testing.T) {
	l := newLocalstack(t)
	l.prefix = "no-such"
	b := l.open(t, queuetest.Options{})
	_, err := b.Subscribe(t.Context(), queue.TopicPosts)
	if err == nil || !strings.Contains(err.Error(), "fanfare queues create") || sqs.Transient(err) {
		t.Errorf("error %v, want one that says how to create the queue", err)
	}
}
