package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/awsclient"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/events"
	"fanfare/internal/obs"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
	"fanfare/messages"
)

// awsWorkers returns the numbers of workers of a process on AWS, where each step waits for the network.
func awsWorkers() fanoutWorkers {
	return fanoutWorkers{posts: 32, backfills: 16, walks: 4, chunks: 16, notices: 16}
}

// awsWriters is the maximum number of concurrent writes of one page.
const awsWriters = 8

// BatchesAtOnce is the maximum number of concurrent batches of chunks in a process on AWS,
// and of concurrent batches of backfills, while ordinary posts are delivered. Each request
// takes a processor for about 0.1 ms, and each step of an ordinary post waits behind all
// requests in progress (I8, docs/decisions/0036-large-work-yields.md).
func BatchesAtOnce() int { return 6 * runtime.GOMAXPROCS(0) }

// PageSize is the number of followers that a daemon on AWS reads at once. If an author has no
// more followers than this, the worker that receives a post's message delivers the post itself,
// without chunks. Pages are large because each page of a chunk costs a read of the post.
const PageSize = 4096

// GCPercent is Go's GOGC in a daemon on AWS. The daemon keeps only a few megabytes, but
// each call leaves garbage: with Go's default of 100, the collector runs every few thousand
// deliveries and takes a fifth of the CPU time. GOMEMLIMIT, which the compose file sets,
// still bounds the memory (I9).
const GCPercent = 400

// CollectLater sets the process's GOGC to GCPercent, unless its environment sets GOGC.
func CollectLater(environ []string) {
	for _, setting := range environ {
		if strings.HasPrefix(setting, "GOGC=") {
			return
		}
	}
	debug.SetGCPercent(GCPercent)
}

// OpenTable returns the DynamoDB table of a configuration, and makes no call yet. The
// replies of AWS set clk, unless clk is nil.
func OpenTable(ctx context.Context, cfg config.Config, clk *clock.Clock, options ...dynamo.Option) (*dynamo.Store, error) {
	aws, err := awsclient.Load(ctx)
	if err != nil && cfg.Engine == config.EngineEmbedded {
		err = fmt.Errorf("%w (fanfare up has a table of its own in its data directory, and needs none of DynamoDB)", err)
	}
	if err != nil {
		return nil, err
	}
	aws = awsclient.Observed(aws, clk.Observe)
	// The fan-out has its own bound of concurrency, its writers.
	return dynamo.New(dynamodb.NewFromConfig(aws), cfg.Table, append(options, dynamo.WithParallel(1))...), nil
}

// OpenQueues returns the SQS queues of a configuration, and makes no call yet. The caller closes the queues.
func OpenQueues(ctx context.Context, cfg config.Config) (*sqs.Broker, error) {
	broker, err := OpenSQS(ctx, sqs.Options{Prefix: cfg.QueuePrefix}, nil)
	if err != nil && cfg.Engine == config.EngineEmbedded {
		err = fmt.Errorf("%w (fanfare up has queues of its own: see fanfare_queue_depth in the metrics of its admin address)", err)
	}
	return broker, err
}

// OpenSQS returns a broker on SQS, and makes no call yet. The replies of AWS set clk, unless
// clk is nil. The caller closes the broker.
func OpenSQS(ctx context.Context, opt sqs.Options, clk *clock.Clock) (*sqs.Broker, error) {
	aws, err := awsclient.Load(ctx)
	if err != nil {
		return nil, err
	}
	aws = awsclient.Observed(aws, clk.Observe)
	return sqs.New(awssqs.NewFromConfig(aws), opt), nil
}

// openEvents opens the queue of events for other programs, if the operator has named a
// queue. If SQS does not have the queue, the start fails. Any other failure does not stop
// the process, because the process works without the queue.
func (p *process) openEvents(ctx context.Context, e *engine) error {
	name := p.cfg.EventsQueue
	if name == "" || !p.opt.Roles.Fanout && !p.opt.Roles.Likes {
		return nil
	}
	broker, err := OpenSQS(ctx, sqs.Options{Now: p.opt.Now, Log: p.work.Named("events")}, p.clock)
	if err != nil {
		return fmt.Errorf("FANFARE_EVENTS_QUEUE: %w", err)
	}
	p.cleanups.addCloser("events", broker.Close)
	sender := events.New(broker.Send, name, messages.GroupOf, p.log.Named("events"))
	e.events = sender.Send
	e.checks = append(e.checks,
		admin.Check{Name: "events queue", Ask: func(ctx context.Context) error {
			if err := broker.Find(ctx, name); err != nil {
				return fmt.Errorf("FANFARE_EVENTS_QUEUE is %s: %w", name, err)
			}
			return nil
		}},
		admin.Check{Name: "events are not sent", Ask: func(context.Context) error { return sender.Failing() }, Warn: true},
	)
	return nil
}

// pingTable returns nil if the table answers and has this version's format. For a table with
// other keys, pingTable returns a SchemaError.
func pingTable(ctx context.Context, store *dynamo.Store) error {
	err := store.Ping(ctx)
	if _, shaped := errors.AsType[*table.InvalidError](err); !shaped {
		return err
	}
	described, failed := store.Describe(ctx)
	if failed != nil || len(described.Differences) == 0 {
		return err
	}
	return &dynamo.SchemaError{Table: described.Name, Differences: described.Differences}
}

// itemsOf returns a function that returns the number of items in DynamoDB's description of
// a table. This number may be some hours old.
func itemsOf(store *dynamo.Store) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		d, err := store.Describe(ctx)
		return d.Items, err
	}
}

// refused returns a function that counts and logs the refusals of the table. The log has a
// sample of the refusals.
func (p *process) refused() func(table.Refusal) {
	log := obs.SampledEvery(p.log.Named("table"), zap.WarnLevel, obs.RefusalTime)
	p.cleanups.add("log of refusals", func(context.Context) error { return synced(log) })
	write := obs.RefusalLog(log)
	return func(r table.Refusal) {
		p.metrics.Refused(r)
		write(r)
	}
}

func (p *process) openAWS(ctx context.Context) (*engine, error) {
	store, err := OpenTable(ctx, p.cfg, p.clock, dynamo.WithRefusals(p.refused()))
	if err != nil {
		return nil, err
	}
	broker, err := OpenSQS(ctx, sqs.Options{
		Prefix: p.cfg.QueuePrefix, MaxInFlight: awsWorkers().maxInFlight(), Now: p.opt.Now, Doubt: p.clock.Doubt, Log: p.work.Named("sqs"),
	}, p.clock)
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("queue", broker.Close)
	p.shares.Yield.AtOnce = BatchesAtOnce()
	return &engine{
		store: store, broker: broker, items: itemsOf(store), checks: []admin.Check{
			{Name: "table", Ask: func(ctx context.Context) error { return pingTable(ctx, store) }, Needed: true},
			// An API without queues still serves reads.
			{Name: "queue", Ask: broker.Ping, Needed: p.opt.Roles.Fanout || p.opt.Roles.Likes},
			{Name: "AWS refuses calls to the table", Ask: func(context.Context) error { return store.Refused() }, Warn: true},
			{Name: "AWS refuses calls to the queues", Ask: func(context.Context) error { return broker.Refused() }, Warn: true},
		},
		writers: awsWriters, pageSize: PageSize, workers: awsWorkers(),
		devSecret: []byte(p.cfg.DevSecret),
	}, nil
}
