package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/capacity"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
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
	overloadPosts = 5 * overloadUnits / (11 + overloadFans)
)

// overload offers a table of 500 write units a second five times that, and compares
// everything that was accepted once the queues are empty. The table is in memory and refuses
// writes as DynamoDB does.
func overload(ctx context.Context, e *env) (_ []Result, err error) {
	const authors = 50
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
	fans := graph{users: authors + overloadFans, name: user, follows: func(yield func(follow) bool) {
		for i := range authors {
			for k := range overloadFans {
				if !yield(follow{user(authors + k), user(i)}) {
					return
				}
			}
		}
	}}
	if err := seedTable(ctx, memory, fans); err != nil {
		return nil, err
	}
	var pace table.Pace
	working, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make(chan error, 3)
	defer func() {
		cancel()
		running.Wait()
		err = errors.Join(err, <-errs, <-errs, <-errs)
	}()
	for _, c := range []struct {
		topic   string
		handle  func(*fanout.Worker) queue.Handler
		urgency table.Urgency
	}{
		{queue.TopicPosts, func(w *fanout.Worker) queue.Handler { return w.HandlePosts }, table.UrgencyPosts},
		{queue.TopicChunks, func(w *fanout.Worker) queue.Handler { return w.HandleChunks }, table.UrgencyChunks},
		{queue.TopicBackfills, func(w *fanout.Worker) queue.Handler { return w.HandleBackfills }, table.UrgencyBackfills},
	} {
		w := newWorkers(pace.Store(limited, c.urgency), broker, 32, 8, nil)
		consumer := &queue.Consumer{
			Topic: c.topic, Broker: broker, Handle: c.handle(w.fanout), Workers: 32, Grace: 5 * time.Second, Now: time.Now, Log: zap.NewNop(),
		}
		running.Go(func() { errs <- consumer.Run(working) })
	}

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
			post, err := api.CreatePost(ctx, user(i%authors), feed.PostInput{Text: "under load"})
			if err != nil {
				refused.Add(1)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			record(times, time.Since(due))
			accepted = append(accepted, schema.EntrySK(post.ID, user(i%authors)))
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
	wrong := 0
	for k := range overloadFans {
		shown := map[string]bool{}
		for page, err := range memory.Query(ctx, table.Query{PK: schema.TimelinePK(user(authors + k))}) {
			if err != nil {
				return nil, err
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
	l := latencyOf(times)
	note := fmt.Sprintf("%d posts a second to %d followers each, %s units a second, for %s; the table refused %d writes, %d posts were answered 503, and the queues were empty %s later",
		overloadPosts, overloadFans, capacity.Number(5*overloadUnits), period, limited.Refusals(), refused.Load(), drained.Round(time.Second))
	exact := Result{ID: overloadID, Name: "entries lost or too many, table of 500 WCU/s offered 2,500", Value: float64(wrong), Unit: "entries", Note: note}
	return []Result{
		Result{ID: overloadID, Name: "accepted posts, p99, table of 500 WCU/s offered 2,500", Value: l.P99, Unit: "ms", Latency: l}.reported(),
		exact.reach("0", wrong == 0),
	}, nil
}
