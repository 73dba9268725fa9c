// Package dynamobench measures the cost of a delivery on the DynamoDB path. It compares the real fan-out
// worker on the real store with a plain loop on the AWS SDK, which queries pages of followers and writes
// the entries by BatchWriteItem. Both run in this process with the daemons' GOGC, one after another,
// against a stand-in in a separate process (package standin).
//
// The package measures the CPU time, user and system, of the whole process, so the caller must do nothing
// else during a measurement.
package dynamobench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"fanfare/bench/standin"
	"fanfare/internal/awsclient"
	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
	"fanfare/messages"
)

const (
	tableName = standin.Table
	ttl       = 30 * 24 * time.Hour
)

// Options set the size of a measurement.
type Options struct {
	// Endpoint is the URL of a stand-in whose authors have Followers followers.
	Endpoint  string
	Followers int
	// Posts is the number of posts that the worker delivers in a run, one after another.
	Posts int
	// Rounds is the number of runs with each setting. Default 1.
	Rounds int
	// Settings are the numbers of concurrent requests to try with the plain loop; the
	// best result counts. Default 8, 32 and 128.
	Settings []int
	// Workers are the settings to try with the worker; the best result counts. Without the latency of a
	// network, concurrency only costs. By default Chunks and Writers are 2 and 1, 4 and 2, and 16 and 8.
	// A process on AWS has 16 and 8.
	Workers []Setting
	// Progress, if not nil, receives a line for each run.
	Progress func(string)
}

// Setting is the concurrency of a worker: Chunks is the number of messages in progress, and Writers is
// the number of parallel writes of one page.
type Setting struct{ Chunks, Writers int }

// Run is the result of one measurement.
type Run struct {
	Name       string
	Deliveries int64
	Wall, CPU  time.Duration
	// Allocs and AllocBytes count the allocations of the whole process.
	Allocs, AllocBytes uint64
}

// PerCPUSecond is the number of deliveries in a second of CPU time.
func (r Run) PerCPUSecond() float64 { return float64(r.Deliveries) / r.CPU.Seconds() }

func (r Run) String() string {
	return fmt.Sprintf("%s: %d deliveries, %.0f a CPU-second, %.0f a second, %.1f allocations and %.0f bytes a delivery",
		r.Name, r.Deliveries, r.PerCPUSecond(), float64(r.Deliveries)/r.Wall.Seconds(),
		float64(r.Allocs)/float64(r.Deliveries), float64(r.AllocBytes)/float64(r.Deliveries))
}

// Result holds the best run of the worker and of the plain loop.
type Result struct{ Ours, Plain Run }

func (o Options) withDefaults() Options {
	o.Posts, o.Rounds = cmp.Or(o.Posts, 1), cmp.Or(o.Rounds, 1)
	if len(o.Workers) == 0 {
		o.Workers = []Setting{{2, 1}, {4, 2}, {16, 8}}
	}
	if len(o.Settings) == 0 {
		o.Settings = []int{8, 32, 128}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// Measure measures the worker and the loop alternately, because the speed of a shared machine changes.
func Measure(ctx context.Context, o Options) (Result, error) {
	o = o.withDefaults()
	defer debug.SetGCPercent(debug.SetGCPercent(daemon.GCPercent))
	var res Result
	for range o.Rounds {
		for _, setting := range o.Settings {
			run, err := Plain(ctx, o, setting)
			if err != nil {
				return res, fmt.Errorf("plain loop with %d concurrent requests: %w", setting, err)
			}
			res.Plain = better(res.Plain, run)
		}
		for _, setting := range o.Workers {
			run, err := Ours(ctx, o, setting)
			if err != nil {
				return res, fmt.Errorf("fan-out worker, %+v: %w", setting, err)
			}
			res.Ours = better(res.Ours, run)
		}
	}
	return res, nil
}

func better(a, b Run) Run {
	if a.Deliveries > 0 && a.PerCPUSecond() >= b.PerCPUSecond() {
		return a
	}
	return b
}

// load returns the options of an AWS configuration for the stand-in.
func load(endpoint string) []func(*config.LoadOptions) error {
	return []func(*config.LoadOptions) error{
		config.WithBaseEndpoint(endpoint), config.WithRegion("us-east-1"),
		config.WithSharedConfigFiles([]string{}), config.WithSharedCredentialsFiles([]string{}),
		config.WithCredentialsProvider(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, nil
		})),
	}
}

// Ours measures the fan-out worker, from the event of a post to its last chunk.
func Ours(ctx context.Context, o Options, setting Setting) (Run, error) {
	o = o.withDefaults()
	cfg, err := awsclient.Load(ctx, load(o.Endpoint)...)
	if err != nil {
		return Run{}, err
	}
	store := dynamo.New(dynamodb.NewFromConfig(cfg), tableName, dynamo.WithParallel(1)) // as the daemons do
	var delivered atomic.Int64
	d := &dispatcher{limit: setting.Chunks}
	ids := id.NewGenerator(time.Now)
	d.worker = fanout.New(fanout.Config{
		Store: store, Posts: stored{}, Publisher: d, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(ttl), Writers: setting.Writers, PageSize: daemon.PageSize,
		Observe: func(n int, _ time.Duration) { delivered.Add(int64(n)) },
	})
	deliver := func() error {
		post, err := ids.New()
		if err != nil {
			return err
		}
		if _, err := store.Put(ctx, table.PutInput{Item: schema.PostRef{ID: post, Author: standin.Author}.Item()}); err != nil {
			return err
		}
		return d.deliver(ctx, &messages.PostCreated{
			Header: messages.Header{EventID: post, Time: time.Now()}, PostID: post, AuthorID: standin.Author, Content: messages.Content{Text: "hello"},
		})
	}
	if err := deliver(); err != nil { // warms up connections, memory and the request models of the SDK
		return Run{}, err
	}
	if n := int(delivered.Load()); n != o.Followers {
		return Run{}, fmt.Errorf("%d entries were written for %d followers", n, o.Followers)
	}
	run, err := measure(fmt.Sprintf("fan-out worker, %d chunks and %d writers at once", setting.Chunks, setting.Writers), func() (int64, error) {
		delivered.Store(0)
		for range o.Posts {
			if err := deliver(); err != nil {
				return 0, err
			}
		}
		return delivered.Load(), nil
	})
	if err == nil {
		o.Progress(run.String())
	}
	return run, err
}

// stored is a feed that has stored every post.
type stored struct{}

func (stored) EnsurePost(_ context.Context, e *messages.PostCreated) (schema.Post, error) {
	return schema.Post{ID: e.PostID, Author: e.AuthorID}, nil
}

// dispatcher is a queue in memory. It passes messages to the worker, up to limit messages at once.
type dispatcher struct {
	worker *fanout.Worker
	limit  int

	mu      sync.Mutex
	backlog []messages.Event
}

// Publish implements message.Publisher.
func (d *dispatcher) Publish(_ string, msgs ...*message.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, msg := range msgs {
		e, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		d.backlog = append(d.backlog, e)
	}
	return nil
}

// Close implements message.Publisher.
func (d *dispatcher) Close() error { return nil }

// deliver handles the event of a post and all messages that follow from it.
func (d *dispatcher) deliver(ctx context.Context, e *messages.PostCreated) error {
	if err := d.worker.HandlePosts(ctx, e); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(d.limit)
	for {
		d.mu.Lock()
		events := d.backlog
		d.backlog = nil
		d.mu.Unlock()
		if len(events) == 0 {
			return group.Wait()
		}
		for _, e := range events {
			if messages.KindOf(e) == "FanoutPlan" { // the chunks of the plan come in the next round
				if err := d.worker.HandleChunks(ctx, e); err != nil {
					return errors.Join(err, group.Wait())
				}
				continue
			}
			group.Go(func() error { return d.worker.HandleChunks(ctx, e) })
		}
	}
}

// Plain measures the loop that a team would write without Fanfare. The loop uses the SDK's stock client
// and paginator, and concurrent requests of 25 entries.
func Plain(ctx context.Context, o Options, requests int) (Run, error) {
	o = o.withDefaults()
	cfg, err := config.LoadDefaultConfig(ctx, load(o.Endpoint)...)
	if err != nil {
		return Run{}, err
	}
	client := dynamodb.NewFromConfig(cfg)
	post, err := id.NewGenerator(time.Now).New()
	if err != nil {
		return Run{}, err
	}
	loop := func(limit int64) (int64, error) { return plainLoop(ctx, client, post, requests, limit) }
	if _, err := loop(10_000); err != nil { // warms up the connections
		return Run{}, err
	}
	run, err := measure(fmt.Sprintf("plain SDK loop, %d requests at once", requests), func() (int64, error) {
		return loop(int64(o.Followers))
	})
	if err == nil {
		o.Progress(run.String())
	}
	return run, err
}

func plainLoop(ctx context.Context, client *dynamodb.Client, post string, requests int, limit int64) (int64, error) {
	var written atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	sk := &types.AttributeValueMemberS{Value: schema.EntrySK(post, standin.Author)}
	expires := &types.AttributeValueMemberN{Value: fmt.Sprint(time.Now().Add(ttl).Unix())}
	pages := dynamodb.NewQueryPaginator(client, &dynamodb.QueryInput{
		TableName: aws.String(tableName), KeyConditionExpression: aws.String("PK = :pk"), ConsistentRead: aws.Bool(true),
		ProjectionExpression: aws.String("PK, SK"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": &types.AttributeValueMemberS{Value: schema.FollowersPK(standin.Author)},
		},
	})
	var read int64
	for pages.HasMorePages() && read < limit {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, errors.Join(err, group.Wait())
		}
		for rows := range slices.Chunk(page.Items, table.MaxBatchWrite) {
			if read >= limit {
				break
			}
			read += int64(len(rows))
			group.Go(func() error {
				writes := make([]types.WriteRequest, 0, len(rows))
				for _, row := range rows {
					edge, ok := row[table.AttrSK].(*types.AttributeValueMemberS)
					if !ok {
						return errors.New("a follower without a key")
					}
					user, _ := schema.UserOfSK(edge.Value)
					writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
						table.AttrPK: &types.AttributeValueMemberS{Value: schema.TimelinePK(user)}, table.AttrSK: sk, table.AttrTTL: expires,
					}}})
				}
				written.Add(int64(len(writes)))
				return putAll(ctx, client, writes)
			})
		}
	}
	err := group.Wait()
	return written.Load(), err
}

// putAll sends writes until the table has accepted all of them.
func putAll(ctx context.Context, client *dynamodb.Client, writes []types.WriteRequest) error {
	for len(writes) > 0 {
		out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{tableName: writes},
		})
		if err != nil {
			return err
		}
		writes = out.UnprocessedItems[tableName]
	}
	return nil
}

// measure returns the cost of work to this process.
func measure(name string, work func() (int64, error)) (Run, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := cpuTime()
	if err != nil {
		return Run{}, err
	}
	began := time.Now()
	n, err := work()
	if err != nil {
		return Run{}, err
	}
	run := Run{Name: name, Deliveries: n, Wall: time.Since(began)}
	used, err := cpuTime()
	if err != nil {
		return Run{}, err
	}
	runtime.ReadMemStats(&after)
	run.CPU = used - cpu
	run.Allocs, run.AllocBytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return run, nil
}

// cpuTime returns the user and system time of this process so far.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
