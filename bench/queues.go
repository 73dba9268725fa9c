package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/awsclient"
	"fanfare/internal/fanout"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
	"fanfare/internal/table"
	"fanfare/internal/throttle"
)

// queues is SQS in memory on a loopback port.
type queues struct {
	*sqstest.Server
	http *httptest.Server
	url  string
}

func startQueues(latency time.Duration) *queues {
	server := sqstest.New(latency)
	listening := httptest.NewServer(server)
	return &queues{server, listening, listening.URL}
}

func (q *queues) stop() {
	q.http.CloseClientConnections()
	q.http.Close()
}

// client returns a client of the queues over at most conns connections.
func (q *queues) client(ctx context.Context, conns int) (*awssqs.Client, error) {
	cfg, err := standInConfig(ctx, q.url, overAtMost(conns))
	if err != nil {
		return nil, err
	}
	return awssqs.NewFromConfig(cfg), nil
}

// standInConfig returns the product's configuration for a stand-in, including the product's HTTP client.
func standInConfig(ctx context.Context, url string, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	return awsclient.Load(ctx, append([]func(*config.LoadOptions) error{
		config.WithRegion("us-east-1"), config.WithBaseEndpoint(url),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("bench", "bench", "")),
	}, options...)...)
}

// overAtMost bounds the number of connections.
func overAtMost(conns int) func(*config.LoadOptions) error {
	return config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.MaxConnsPerHost, tr.MaxIdleConnsPerHost, tr.MaxIdleConns = conns, conns, 0
	}))
}

// requestCounts counts requests by operation.
type requestCounts map[string]int

func (c requestCounts) total() (n int) {
	for _, v := range c {
		n += v
	}
	return n
}

func (c requestCounts) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%d %s", c[name], name))
	}
	return strings.Join(parts, ", ")
}

// counts returns the numbers of requests so far. It omits long polls that received no message, and
// requests for the URL of a queue.
func (q *queues) counts() requestCounts {
	c := requestCounts(q.Requests())
	c["ReceiveMessage"] = q.FullReceives()
	delete(c, "GetQueueUrl")
	return c
}

// consumeAll runs the consumers of the fan-out, as a daemon on AWS does, until the caller calls stop.
func consumeAll(ctx context.Context, shares *throttle.Shares, store table.Store, broker queue.Broker, observe func(int, time.Duration)) (stop func() error) {
	working, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	for _, c := range []struct {
		topic   string
		handle  func(*fanout.Worker) queue.Handler
		workers int
		urgency throttle.Urgency
	}{
		{queue.TopicPosts, func(w *fanout.Worker) queue.Handler { return w.HandlePosts }, 32, throttle.Posts},
		{queue.TopicChunks, func(w *fanout.Worker) queue.Handler { return w.HandleChunks }, 16, throttle.Chunks},
		{queue.TopicBackfills, func(w *fanout.Worker) queue.Handler { return w.HandleBackfills }, 16, throttle.Backfills},
	} {
		w := newWorkers(shares.Store(store, c.urgency), broker, 0, 8, observe)
		consumer := &queue.Consumer{
			Topic: c.topic, Broker: broker, Handle: c.handle(w.fanout), Workers: c.workers, Grace: 5 * time.Second, Now: time.Now, Log: zap.NewNop(),
		}
		running.Go(func() error { return consumer.Run(working) })
	}
	return func() error {
		cancel()
		return running.Wait()
	}
}
