package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/messages"
)

// connections is the limit of both transports, and the number of workers of the stock
// subscriber.
const connections = 32

// publishers is the number of callers that publish one message at a time, as an API does.
const publishers = 512

// transport holds the functions of one way to use SQS.
type transport struct {
	publish   func(topic string, msgs ...*message.Message) error
	subscribe func(ctx context.Context, topic string) (<-chan *message.Message, error)
	close     func() error
	// prefix precedes the topic in the name of a queue.
	prefix string
}

// sqsTransport is benchmark T6: it compares Fanfare's transport with the stock transport on SQS.
func sqsTransport(ctx context.Context, e *env) ([]Result, error) {
	var results []Result
	for _, latency := range []time.Duration{5 * time.Millisecond, 0} {
		rates := map[string][2]Cost{}
		for _, kind := range []string{"ours", "stock"} {
			published, consumed, err := e.measureTransport(ctx, kind, latency)
			if err != nil {
				return results, fmt.Errorf("%s at %s: %w", kind, latency, err)
			}
			rates[kind] = [2]Cost{published, consumed}
		}
		for i, name := range []string{"publish", "consume"} {
			ours, stock := rates["ours"][i], rates["stock"][i]
			r := Result{
				ID: "T6", Name: fmt.Sprintf("SQS %s, %d ms round trip", name, latency.Milliseconds()), Value: ours.rate(), Unit: "messages/s",
				Cost: &ours, BaselineCost: &stock,
				Note: fmt.Sprintf("%d connections each; client and stand-in share the machine, the CPU time is that of both", connections),
			}
			r = r.beside(fmt.Sprintf("stock watermill-aws, %d subscribers", connections), stock.rate())
			if latency > 0 {
				r = r.reach("≥ 5 × baseline", *r.Ratio >= 5)
			} else {
				r = r.reported()
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// measureTransport publishes messages for a while, and then consumes the messages.
func (e *env) measureTransport(ctx context.Context, kind string, latency time.Duration) (published, consumed Cost, err error) {
	e.say("%s transport at %s", kind, latency)
	server := startQueues(latency)
	defer server.stop()
	t, err := openTransport(ctx, kind, server, nil)
	if err != nil {
		return published, consumed, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	pause := time.Duration(e.size(8, 4)) * time.Second
	if published, err = publishFor(ctx, t, pause); err != nil {
		return published, consumed, err
	}
	consumed, err = consumeFor(ctx, t, published.Units, pause)
	return published, consumed, err
}

func openTransport(ctx context.Context, kind string, server *queues, inFlight map[string]int) (transport, error) {
	cfg, err := standInConfig(ctx, server.url, overAtMost(connections))
	if err != nil {
		return transport{}, err
	}
	if kind == "ours" {
		client, err := server.client(ctx, connections)
		if err != nil {
			return transport{}, err
		}
		b := sqs.New(client, sqs.Options{Prefix: "bench", Pollers: connections, Requests: connections, PollWait: time.Second, MaxInFlight: inFlight})
		return transport{b.Publish, b.Subscribe, b.Close, "bench-"}, nil
	}
	// The resolver looks up the URL of a queue once, as Fanfare's transport does.
	resolver := wsqs.NewGetQueueUrlByNameUrlResolver(wsqs.GetQueueUrlByNameUrlResolverConfig{})
	publisher, err := wsqs.NewPublisher(wsqs.PublisherConfig{
		AWSConfig: cfg, QueueUrlResolver: resolver, DoNotCreateQueueIfNotExists: true,
	}, watermill.NopLogger{})
	if err != nil {
		return transport{}, err
	}
	subscriber, err := wsqs.NewSubscriber(wsqs.SubscriberConfig{
		AWSConfig: cfg, QueueUrlResolver: resolver, DoNotCreateQueueIfNotExists: true, ConsumeWorkers: connections,
	}, watermill.NopLogger{})
	if err != nil {
		return transport{}, errors.Join(err, publisher.Close())
	}
	return transport{publisher.Publish, subscriber.Subscribe, func() error {
		return errors.Join(subscriber.Close(), publisher.Close())
	}, ""}, nil
}

// publishFor publishes messages one after another from each of many callers.
func publishFor(ctx context.Context, t transport, d time.Duration) (Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ids := id.NewGenerator(time.Now)
	var sent atomic.Int64
	var failed error
	var once sync.Once
	var callers sync.WaitGroup
	collect()
	before := ownUsage()
	end := time.Now().Add(d)
	for range publishers {
		callers.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				msg, err := sample(ctx, ids)
				if err == nil {
					err = t.publish(queue.TopicPosts, msg)
				}
				if err != nil {
					once.Do(func() { failed = err; cancel() })
					return
				}
				sent.Add(1)
			}
		})
	}
	callers.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return ownUsage().since(before, sent.Load()), failed
}

// sample returns a message of the usual size.
func sample(ctx context.Context, ids *id.Generator) (*message.Message, error) {
	post, err := ids.New()
	if err != nil {
		return nil, err
	}
	return queue.Message(ctx, &messages.PostCreated{
		Header: messages.Header{EventID: post, Time: time.Now()}, PostID: post, AuthorID: author, Content: messages.Content{Text: "hello, everybody"},
	})
}

// consumeFor receives and acks up to n messages, for the time d at most.
func consumeFor(ctx context.Context, t transport, n int64, d time.Duration) (Cost, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	collect()
	before := ownUsage()
	in, err := t.subscribe(ctx, queue.TopicPosts)
	if err != nil {
		return Cost{}, err
	}
	var got int64
	for got < n {
		msg, open := <-in
		if !open {
			break
		}
		msg.Ack()
		got++
	}
	cost := ownUsage().since(before, got)
	cancel()
	for msg := range in { // the remaining messages must not stay held
		msg.Nack()
	}
	return cost, nil
}
