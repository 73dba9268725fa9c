package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/feed/access"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"

	"fanfare/bench/standin"
	"fanfare/internal/daemon"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/capacity"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/table/dynamo"
)

const scaleLatency = 5 * time.Millisecond

// scaleName is the queue prefix of the scaling benchmark.
const scaleName = "scale"

// WorkerConfig holds the flags of a worker process of the scaling benchmark.
type WorkerConfig struct {
	// Table and Queue are the URLs of the stand-ins.
	Table, Queue string
	// Chunks is the number of concurrent chunks, and Writers is the number of concurrent requests for
	// each chunk.
	Chunks, Writers int
	// Environ is the environment. A GOGC in it replaces the default of the daemons.
	Environ []string
}

// Work runs a worker process of the scaling benchmark until ctx ends: the fan-out worker on the DynamoDB
// store and the SQS transport. It sets the GOGC of the process as a daemon does.
func Work(ctx context.Context, cfg WorkerConfig, ready func() error) (err error) {
	daemon.CollectLater(cfg.Environ)
	s, err := openScale(ctx, cfg.Table, cfg.Queue, scaleInFlight())
	if err != nil {
		return err
	}
	w := newWorkers(s.store, s.broker, 1, cfg.Writers, nil)
	stop := w.run(ctx, cfg.Chunks)
	err = ready()
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, stop(), s.broker.Close())
}

// scaleParts are the product's backends on the stand-ins.
type scaleParts struct {
	store  *dynamo.Store
	broker *sqs.Broker
}

// scaleInFlight returns low limits, so that a process receives few messages in advance and leaves
// messages to other processes.
func scaleInFlight() map[string]int {
	return map[string]int{queue.TopicChunks: 8, queue.TopicPosts: 2}
}

func openScale(ctx context.Context, tableURL, queueURL string, inFlight map[string]int) (scaleParts, error) {
	tableConfig, err := standInConfig(ctx, tableURL)
	if err != nil {
		return scaleParts{}, err
	}
	queueConfig, err := standInConfig(ctx, queueURL)
	if err != nil {
		return scaleParts{}, err
	}
	return scaleParts{
		dynamo.New(dynamodb.NewFromConfig(tableConfig), standin.Table, dynamo.WithParallel(1)),
		sqs.New(awssqs.NewFromConfig(queueConfig), sqs.Options{
			Prefix: scaleName, PollWait: time.Second, MaxInFlight: inFlight,
		}),
	}, nil
}

// scaling is benchmark T13. More processes help against the latency of a network. So each process may make only few
// concurrent requests. The network then limits a process, and not the two cores of the machine, which all
// processes share.
func scaling(ctx context.Context, e *env) ([]Result, error) {
	const chunks, writers = 4, 2
	followers := e.size(1_000_000, 200_000)
	one, oneCost, err := e.fanoutBy(ctx, 1, followers, chunks, writers)
	if err != nil {
		return nil, err
	}
	four, fourCost, err := e.fanoutBy(ctx, 4, followers, chunks, writers)
	if err != nil {
		return nil, err
	}
	r := Result{
		ID: "T13", Name: fmt.Sprintf("fan-out of %s, 4 worker processes", capacity.Number(float64(followers))), Value: four.Seconds(), Unit: "s",
		Cost: &fourCost, BaselineCost: &oneCost,
		Note: fmt.Sprintf("%s held back each reply of both stand-ins; the worker, the DynamoDB store and the SQS transport of the product, pages of %s followers and GOGC as the daemons have it, %d chunks x %d requests a process; the CPU time is that of the workers",
			scaleLatency, capacity.Number(daemon.PageSize), chunks, writers),
	}
	r = r.below("1 process", one.Seconds())
	return []Result{r.reach("≥ 3.2 × faster", *r.Ratio >= 3.2)}, nil
}

// fanoutBy delivers one post with n worker processes. took is the time from the publish until the
// delivery is complete.
func (e *env) fanoutBy(ctx context.Context, n, followers, chunks, writers int) (took time.Duration, cost Cost, err error) {
	e.say("%d worker processes", n)
	tables, err := standin.Spawn(ctx, e.standIn(), standin.Options{Followers: followers, Latency: scaleLatency})
	if err != nil {
		return 0, cost, err
	}
	defer tables.Stop()
	queues := startQueues(scaleLatency)
	defer queues.stop()
	s, err := openScale(ctx, tables.URL, queues.url, scaleInFlight())
	if err != nil {
		return 0, cost, err
	}
	defer func() { err = errors.Join(err, s.broker.Close()) }()
	var workers []process
	defer func() {
		for _, p := range workers {
			err = errors.Join(err, p.stop())
		}
	}()
	for range n {
		p, err := start(nil, e.Self, "worker", "--table", tables.URL, "--queue", queues.url,
			"--chunks", fmt.Sprint(chunks), "--writers", fmt.Sprint(writers))
		if err != nil {
			return 0, cost, err
		}
		workers = append(workers, p)
		if _, err := p.out.ReadString('\n'); err != nil {
			return 0, cost, fmt.Errorf("a worker did not start: %w", err)
		}
	}
	ids := id.NewGenerator(time.Now)
	way := access.New(access.Config{Store: s.store, Publisher: s.broker, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL), Log: zap.NewNop()})
	f := feed.New(feed.Config{Access: way})
	if _, err := f.PutProfile(ctx, author, feed.ProfileInput{Name: author}); err != nil {
		return 0, cost, err
	}
	before, err := cpuOfAll(workers)
	if err != nil {
		return 0, cost, err
	}
	begin := time.Now()
	post, err := f.CreatePost(ctx, author, feed.PostInput{Content: feed.Content{Text: "hello, everybody"}})
	if err != nil {
		return 0, cost, err
	}
	if err := complete(ctx, delivery.New(way), post.ID, int64(followers)); err != nil {
		return 0, cost, err
	}
	took = time.Since(begin)
	after, err := cpuOfAll(workers)
	return took, Cost{WallSeconds: took.Seconds(), CPUSeconds: (after - before).Seconds(), Units: int64(followers)}, err
}

func cpuOfAll(ps []process) (sum time.Duration, err error) {
	for _, p := range ps {
		cpu, err := cpuOf(p.pid())
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

// complete waits until the delivery of a post is complete.
func complete(ctx context.Context, deliveries *delivery.Deliveries, post string, followers int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("not delivered after two minutes"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		d, err := deliveries.Delivery(ctx, author, post)
		if err != nil {
			return ctxErr(ctx, err)
		}
		if d.State != delivery.Complete {
			continue
		}
		if *d.Delivered != followers+1 {
			return fmt.Errorf("%d deliveries, want %d", *d.Delivered, followers+1)
		}
		return nil
	}
}
