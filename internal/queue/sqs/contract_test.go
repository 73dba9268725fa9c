package sqs_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"fanfare/internal/queue"
	"fanfare/internal/queue/queuetest"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
)

// wire is the HTTP client of one broker. A crash cuts it.
type wire struct {
	inner aws.HTTPClient
	life  context.Context // the life of the simulated process
	kill  context.CancelFunc
}

func (w *wire) Do(req *http.Request) (*http.Response, error) {
	if w.life.Err() != nil {
		return nil, errors.New("the process is dead")
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(w.life, cancel)
	resp, err := w.inner.Do(req.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
	}
	// After a success the context must live as long as the body.
	return resp, err
}

// backend opens brokers on one SQS.
type backend struct {
	http    aws.HTTPClient
	client  func(aws.HTTPClient) *awssqs.Client
	options sqs.Options

	mu    sync.Mutex
	wires map[queue.Broker]*wire
}

func (b *backend) open(t *testing.T, o queuetest.Options) queue.Broker {
	t.Helper()
	life, kill := context.WithCancel(context.Background())
	w := &wire{b.http, life, kill}
	options := b.options
	if o.Visibility > 0 {
		options.Visibility = o.Visibility
	}
	options.MaxInFlight = map[string]int{queue.TopicPosts: o.MaxInFlight} // 0 means the default
	broker := sqs.New(b.client(w), options)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wires == nil {
		b.wires = map[queue.Broker]*wire{}
	}
	b.wires[broker] = w
	t.Cleanup(kill)
	closeAfter(t, broker)
	return broker
}

func (b *backend) crash(_ *testing.T, broker queue.Broker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wires[broker].kill()
}

func TestBrokerKeepsTheContractOnTheFake(t *testing.T) {
	t.Parallel()
	queuetest.RunVirtual(t, func(*testing.T) queuetest.Backend {
		// The client of a crashed broker must not retry, because the SDK's retries would take
		// longer than the broker's Close.
		client := func(over aws.HTTPClient) *awssqs.Client {
			return awssqs.New(sqstest.Client(over).Options(), func(o *awssqs.Options) { o.Retryer = aws.NopRetryer{} })
		}
		b := &backend{http: sqstest.New(0), client: client, options: sqs.Options{Prefix: "test", PollWait: time.Second}}
		return queuetest.Backend{Open: b.open, Crash: b.crash}
	})
}

func TestOutagesOnTheFake(t *testing.T) {
	t.Parallel()
	queuetest.RunOutages(t, func(*testing.T) queuetest.Backend {
		b := &backend{http: sqstest.New(0), client: sqstest.Client, options: sqs.Options{Prefix: "test", PollWait: time.Second}}
		return queuetest.Backend{Open: b.open, Crash: b.crash}
	})
}
