//go:build e2e

package sqs_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
	"fanfare/internal/queue/queuetest"
	"fanfare/internal/queue/sqs"
)

// localstack makes new queues on LocalStack.
func localstack(t *testing.T) *backend {
	t.Helper()
	url := os.Getenv("AWS_ENDPOINT_URL")
	require.NotEmpty(t, url, "AWS_ENDPOINT_URL is not set: run this by scripts/with-emulators.sh, or give the address of LocalStack")
	cfg, err := awsclient.Load(t.Context(), config.WithRegion("us-east-1"))
	require.NoError(t, err)
	cfg.BaseEndpoint = &url
	b := &backend{
		http: cfg.HTTPClient,
		client: func(over aws.HTTPClient) *awssqs.Client {
			cfg := cfg.Copy()
			cfg.HTTPClient = over
			return awssqs.NewFromConfig(cfg)
		},
		options: sqs.Options{
			Prefix: "qt-" + strings.ToLower(watermill.NewShortUUID())[:8], Visibility: 8 * time.Second, PollWait: time.Second,
			Drain: time.Minute, // a loaded emulator answers late
			Log:   zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)),
		},
	}
	require.NoError(t, b.open(t, queuetest.Options{}).(*sqs.Broker).Create(t.Context()))
	return b
}

func TestBrokerKeepsTheContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T) queuetest.Backend {
		t.Helper()
		l := localstack(t)
		return queuetest.Backend{Open: l.open, Crash: l.crash}
	})
}

func TestBrokerPassesWatermillsSuite(t *testing.T) {
	t.Parallel()
	l := localstack(t)
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
	t.Parallel()
	l := localstack(t)
	for _, visibility := range []time.Duration{10 * time.Second, 20 * time.Second} {
		b := l.open(t, queuetest.Options{Visibility: visibility}).(*sqs.Broker)
		require.NoError(t, b.Create(t.Context()))
		assert.NoError(t, b.Ping(t.Context()))
		described, err := b.Describe(t.Context())
		require.NoError(t, err)
		require.Len(t, described, len(queue.Topics()))
		for _, d := range described {
			for name, want := range map[string]string{
				"MessageRetentionPeriod": "1209600", "MaximumMessageSize": "1048576",
				"VisibilityTimeout": map[time.Duration]string{10 * time.Second: "10", 20 * time.Second: "20"}[visibility],
			} {
				assert.Equalf(t, want, d.Attributes[name], "%s: %s", d.Name, name)
			}
			if policy := d.Attributes["RedrivePolicy"]; !strings.Contains(policy, d.Name+"-dlq") || !strings.Contains(policy, "1000") {
				t.Errorf("%s: redrive policy %s", d.Name, policy)
			}
		}
	}
}

func TestMissingQueueSaysWhatToDo(t *testing.T) {
	t.Parallel()
	l := localstack(t)
	l.options.Prefix = "no-such"
	b := l.open(t, queuetest.Options{})
	_, err := b.Subscribe(t.Context(), queue.TopicPosts)
	require.ErrorContains(t, err, "fanfare queues create")
	assert.True(t, queue.Transient(err), "an operator mends it")
}
