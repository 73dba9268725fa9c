package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/ops/capacity"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// The load of the benchmark of an overloaded table.
const (
	overloadID    = "overload"
	overloadUnits = 500
	// A post costs 11 units and one for each follower: five times the units of the table.
	overloadFans  = 14
	shortAuthors  = 50
	overloadPosts = 5 * overloadUnits / (11 + overloadFans)
)

// overload offers a table of 500 write units a second five times that, and compares
// everything that was accepted once the queues are empty. The table is in memory and refuses
// writes as DynamoDB does.
func overload(ctx context.Context, e *env) (_ []Result, err error) {
	memory := tabletest.NewMemory()
	limited := tabletest.NewLimited(memory, overloadUnits)
	queues := startQueues(0)
	defer queues.stop()
	client, err := queues.client(ctx, 32)
	if err != nil {
		return nil, err
	}
	broker := sqs.New(client, sqs.Options{Prefix: overloadID, PollWait: time.Second, MaxInFlight: map[string]int{queue.TopicPosts: 64, queue.TopicBackfills: 32, queue.TopicChunks: 32}})
	defer func() { err = errors.Join(err, broker.Close()) }()
	if err := seedTable(ctx, memory, overloadGraph()); err != nil {
		return nil, err
	}
	pace := table.Pace{AtOnce: daemon.BatchesAtOnce()}
	stop := consumeAll(ctx, &pace, limited, broker, nil)
	defer func() { err = errors.Join(err, stop()) }()
	api := newWorkers(pace.Store(limited, table.UrgencyAPI), broker, 1, 1, nil).feed
	period := time.Duration(e.size(20, 5)) * time.Second
	e.say("%d posts a second for %s", overloadPosts, period)
	var mu sync.Mutex
	var refused atomic.Int64
	var accepted []string
	times := newHistogram()
	var calls sync.WaitGroup
	begin := time.Now()
	for i := range overloadPosts * int(period/time.Second) {
		due := begin.Add(time.Duration(i) * time.Second / overloadPosts)
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			calls.Wait()
			return nil, ctx.Err()
		}
		calls.Go(func() {
			post, err := api.CreatePost(ctx, user(i%shortAuthors), feed.PostInput{Text: "under load"})
			if err != nil {
				refused.Add(1)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			record(times, time.Since(due))
			accepted = append(accepted, schema.EntrySK(post.ID, user(i%shortAuthors)))
		})
	}
	calls.Wait()
	e.say("wait until the queues are empty")
	offered := time.Now()
	for !queues.Idle() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	drained := time.Since(offered)
	wrong, err := wrongEntries(ctx, memory, accepted)
	if err != nil {
		return nil, err
	}
	l := latencyOf(times)
	note := fmt.Sprintf("%d posts a second to %d followers each, %s units a second, for %s; the table refused %d writes, %d posts were answered 503, and the queues were empty %s later",
		overloadPosts, overloadFans, capacity.Number(5*overloadUnits), period, limited.Refusals(), refused.Load(), drained.Round(time.Second))
	exact := Result{ID: overloadID, Name: "entries lost or too many, table of 500 WCU/s offered 2,500", Value: float64(wrong), Unit: "entries", Note: note}
	return []Result{
		Result{ID: overloadID, Name: "accepted posts, p99, table of 500 WCU/s offered 2,500", Value: l.P99, Unit: "ms", Latency: l}.reported(),
		exact.reach("0", wrong == 0),
	}, nil
}

// consumeAll runs the consumers of the fan-out as a daemon on AWS does, until stop.
func consumeAll(ctx context.Context, pace *table.Pace, store table.Store, broker queue.Broker, observe func(int, time.Duration)) (stop func() error) {
	working, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	for _, c := range []struct {
		topic   string
		handle  func(*fanout.Worker) queue.Handler
		workers int
		urgency table.Urgency
	}{
		{queue.TopicPosts, func(w *fanout.Worker) queue.Handler { return w.HandlePosts }, 32, table.UrgencyPosts},
		{queue.TopicChunks, func(w *fanout.Worker) queue.Handler { return w.HandleChunks }, 16, table.UrgencyChunks},
		{queue.TopicBackfills, func(w *fanout.Worker) queue.Handler { return w.HandleBackfills }, 16, table.UrgencyBackfills},
	} {
		w := newWorkers(pace.Store(store, c.urgency), broker, 0, 8, observe)
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

// overloadGraph has an author for each of the users who post, and the same followers.
func overloadGraph() graph {
	return graph{users: shortAuthors + overloadFans, name: user, follows: func(yield func(follow) bool) {
		for i := range shortAuthors {
			for k := range overloadFans {
				if !yield(follow{user(shortAuthors + k), user(i)}) {
					return
				}
			}
		}
	}}
}

// wrongEntries counts the entries that the homes of the followers lack, or have too many.
func wrongEntries(ctx context.Context, store table.Store, accepted []string) (wrong int, err error) {
	for k := range overloadFans {
		shown := map[string]bool{}
		for page, err := range store.Query(ctx, table.Query{PK: schema.TimelinePK(user(shortAuthors + k))}) {
			if err != nil {
				return 0, err
			}
			for _, it := range page.Items {
				shown[it.Key.SK] = true
			}
		}
		for _, post := range accepted {
			if !shown[post] {
				wrong++
			}
			delete(shown, post)
		}
		wrong += len(shown) // posts that were refused, unless their outcome was unknown
	}
	return wrong, nil
}
