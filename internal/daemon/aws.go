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

// awsWorkers are the workers of one process on AWS, where each step waits for the
// network.
func awsWorkers() fanoutWorkers {
	return fanoutWorkers{posts: 32, backfills: 16, walks: 4, chunks: 16, notices: 16}
}

// awsWriters bounds the concurrent writes of one page.
const awsWriters = 8

// BatchesAtOnce bounds the concurrent batches of chunks in a process on AWS, and the
// concurrent batches of backfills, while ordinary posts are delivered. Each request takes a
// processor for some 0.1 ms, so each step of an ordinary post waits behind all running
// requests (I8, docs/decisions/0036-large-work-yields.md).
func BatchesAtOnce() int { return 6 * runtime.GOMAXPROCS(0) }

// PageSize is the number of followers that a daemon on AWS reads at once. If an author
// has no more followers, the worker that takes a post's message delivers the post itself,
// without chunks. Pages are large because each page of a chunk costs a read of the post.
const PageSize = 4096

// GCPercent is Go's GOGC in a daemon on AWS. Such a process keeps only a few megabytes,
// but each call leaves garbage: at Go's 100 the collector runs every few thousand
// deliveries and takes a fifth of the CPU time. GOMEMLIMIT, which the compose file sets,
// still bounds memory (I9).
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

// OpenTable returns the DynamoDB table of a configuration. It makes no call yet. The replies
// set clk, unless it is nil.
func OpenTable(ctx context.Context, cfg config.Config, clk *clock.Clock, options ...dynamo.Option) (*dynamo.Store, error) {
	aws, err := awsclient.Load(ctx)
	if err != nil && cfg.Engine == config.EngineEmbedded {
		err = fmt.Errorf("%w (fanfare up has a table of its own in its data directory, and needs none of DynamoDB)", err)
	}
	if err != nil {
		return nil, err
	}
	aws = awsclient.Observed(aws, clk.Observe)
	// The fan-out sets its own concurrency by its writers.
	return dynamo.New(dynamodb.NewFromConfig(aws), cfg.Table, append(options, dynamo.WithParallel(1))...), nil
}

// OpenQueues returns the SQS queues of a configuration. It makes no call yet. The caller
// closes them.
func OpenQueues(ctx context.Context, cfg config.Config) (*sqs.Broker, error) {
	broker, err := OpenSQS(ctx, sqs.Options{Prefix: cfg.QueuePrefix}, nil)
	if err != nil && cfg.Engine == config.EngineEmbedded {
		err = fmt.Errorf("%w (fanfare up has queues of its own: see fanfare_queue_depth in the metrics of its admin address)", err)
	}
	return broker, err
}

// OpenSQS returns queues of SQS. It makes no call yet. The replies set clk, unless it is nil.
// The caller closes them.
func OpenSQS(ctx context.Context, opt sqs.Options, clk *clock.Clock) (*sqs.Broker, error) {
	aws, err := awsclient.Load(ctx)
	if err != nil {
		return nil, err
	}
	aws = awsclient.Observed(aws, clk.Observe)
	return sqs.New(awssqs.NewFromConfig(aws), opt), nil
}

// openEvents opens the queue of events for other programs, if the operator has named one. A
// start fails if SQS does not have the queue. Any other failure does not stop the process,
// which works without the queue.
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
	sender := events.New(broker.Send, name, messages.Event.Group, p.log.Named("events"))
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

// pingTable returns nil if the table answers and has this version's format. A table with other
// keys is a SchemaError.
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

// itemsOf returns the number of items in DynamoDB's description of a table. It is up to
// some hours old.
func itemsOf(store *dynamo.Store) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		d, err := store.Describe(ctx)
		return d.Items, err
	}
}

// refused returns an observer that counts the refusals of the table, and logs some of them.
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
			// An API without its queues serves reads.
			{Name: "queue", Ask: broker.Ping, Needed: p.opt.Roles.Fanout || p.opt.Roles.Likes},
			{Name: "AWS refuses calls to the table", Ask: func(context.Context) error { return store.Refused() }, Warn: true},
			{Name: "AWS refuses calls to the queues", Ask: func(context.Context) error { return broker.Refused() }, Warn: true},
		},
		writers: awsWriters, pageSize: PageSize, workers: awsWorkers(),
		devSecret: []byte(p.cfg.DevSecret),
	}, nil
}
