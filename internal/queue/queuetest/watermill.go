package queuetest

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
)

// features describes the brokers to Watermill's suite: they are persistent, and have no
// consumer groups, no order and no exactly-once delivery.
func features() tests.Features { return tests.Features{Persistent: true} }

// RunWatermill runs Watermill's conformance suite, in its short mode under -short. Each pair of
// publisher and subscriber has its own handles on a broker that open returns. The suite invents
// topics, so prepare creates each topic.
func RunWatermill(t *testing.T, open func(t *testing.T) queue.Broker, prepare func(ctx context.Context, b queue.Broker, topic string) error) {
	t.Helper()
	f := features()
	f.ForceShort = testing.Short()
	tests.TestPubSub(t, f, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		b := open(t)
		// The suite closes one handle of the pair, and continues with the other handle.
		return &handle{broker: b, prepare: prepare, closing: make(chan struct{})},
			&handle{broker: b, prepare: prepare, closing: make(chan struct{})}
	}, nil)
}

// handle lets several of the suite's publishers and subscribers share a broker.
type handle struct {
	broker  queue.Broker
	prepare func(context.Context, queue.Broker, string) error

	mu            sync.Mutex
	closed        bool
	closing       chan struct{}
	subscriptions sync.WaitGroup
}

func (h *handle) Publish(topic string, msgs ...*message.Message) error {
	if err := h.prepare(context.Background(), h.broker, topic); err != nil {
		return err
	}
	return h.broker.Publish(topic, msgs...)
}

func (h *handle) SubscribeInitialize(topic string) error {
	return h.prepare(context.Background(), h.broker, topic)
}

func (h *handle) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, queue.ErrClosed
	}
	if err := h.prepare(ctx, h.broker, topic); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	in, err := h.broker.Subscribe(ctx, topic)
	if err != nil {
		cancel()
		return nil, err
	}
	out := make(chan *message.Message)
	h.subscriptions.Go(func() {
		defer cancel()
		defer close(out)
		for {
			select {
			case msg, open := <-in:
				if !open {
					return
				}
				// The suite nacks hundreds of messages and expects their redelivery soon.
				queue.ReceiveOf(msg).RetryAfter(0)
				select {
				case out <- msg:
				case <-h.closing:
					msg.Nack()
				}
			case <-h.closing:
				cancel()
				for msg := range in {
					queue.HandBack(msg)
				}
				return
			}
		}
	})
	return out, nil
}

func (h *handle) Close() error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
	h.mu.Unlock()
	h.subscriptions.Wait()
	return nil
}

// listSkips is an environment variable. It makes a child process list the skipped tests.
const listSkips = "FANFARE_LIST_WATERMILL_SKIPS"

var skipLine = regexp.MustCompile(`^\s*--- SKIP: [^/]+/(Test\w+)/`)

// CheckWatermillSkips fails unless Watermill's suite skips, for our features, exactly the tests
// that the file names. Each line of the file has a name, a colon and the reason. The check runs
// the test that calls it again, in a child process.
func CheckWatermillSkips(t *testing.T, file string) {
	t.Helper()
	if os.Getenv(listSkips) != "" {
		// A test that is not skipped calls for a pair of handles, and fails.
		tests.TestPubSub(t, features(), func(t *testing.T) (message.Publisher, message.Subscriber) {
			t.Helper()
			t.FailNow()
			return nil, nil
		}, nil)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), listSkips+"=1")
	out, err := cmd.CombinedOutput()
	require.Errorf(t, err, "Watermill's suite asked for no broker:\n%s", out)
	var got []string
	for line := range strings.Lines(string(out)) {
		if m := skipLine.FindStringSubmatch(line); m != nil {
			got = append(got, m[1])
		}
	}
	slices.Sort(got)
	want := readNames(t, file)
	assert.Truef(t, slices.Equal(got, want), "Watermill's suite skips %v, %s names %v", got, file, want)
}

func readNames(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var names []string
	for line := range strings.Lines(string(data)) {
		name, reason, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(reason) == "" {
			t.Fatalf("%s: line %q: want a test's name, a colon and the reason", file, line)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
