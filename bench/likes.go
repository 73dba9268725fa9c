package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// These numbers define the load of T9.
const (
	likeRate = 10_000
	// offeredRate is a little more than likeRate, because a sender never exceeds its rate
	// and is often below it.
	offeredRate = likeRate * 102 / 100
	likeWindow  = time.Second
	// likesHeld is the number of unanswered likes that `fanfare up` allows.
	likesHeld = 20_000
)

// hotPost is benchmark T9: likes arrive at a rate, and all of them must be counted soon after.
func hotPost(ctx context.Context, e *env) (_ []Result, err error) {
	seconds := e.size(30, 10)
	n := offeredRate * seconds
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var run hotPostRun
	if run.lag, run.cost, err = e.likesAtRate(ctx, dir+"/likes", n); err != nil {
		return nil, err
	}
	if run.backlog, err = e.likesFromBacklog(ctx, dir+"/backlog"); err != nil {
		return nil, err
	}
	if run.naive, err = e.naiveLikes(ctx, dir+"/naive"); err != nil {
		return nil, err
	}
	if run.ours, err = e.likesThroughSQS(ctx, "ours"); err != nil {
		return nil, err
	}
	if run.stock, err = e.likesThroughSQS(ctx, "stock"); err != nil {
		return nil, err
	}
	return run.results(n, seconds), nil
}

// hotPostRun holds the measurements of T9.
type hotPostRun struct {
	// lag is the time from the last like to the exact count.
	lag                               time.Duration
	cost, backlog, naive, ours, stock Cost
}

func (run *hotPostRun) results(n, seconds int) []Result {
	reached := run.cost.rate()
	r := Result{
		ID: "T9", Name: fmt.Sprintf("hot post, %d likes of distinct users", n), Value: reached, Unit: "likes/s", Cost: &run.cost,
		Note: fmt.Sprintf("offered to the embedded queue at %d/s for %d s; the count was exact", offeredRate, seconds),
	}
	r = r.beside("an ADD for each: a DynamoDB partition's limit", 1000)
	full := Result{
		ID: "T9", Name: "likes of one post from a full queue", Value: run.backlog.rate(), Unit: "likes/s", Cost: &run.backlog, BaselineCost: &run.naive,
		Note: "the baseline has no queue, is not exact after a crash, and costs 2 WCU a like",
	}
	full = full.beside("a put and an ADD for each like, 256 at once", run.naive.rate())
	lagging := Result{
		ID: "T9", Name: "lag of the count after the last like", Value: run.lag.Seconds() / likeWindow.Seconds(), Unit: "windows",
		Note: fmt.Sprintf("windows of %s", likeWindow),
	}
	through := Result{
		ID: "T9", Name: "likes of one post through SQS", Value: run.ours.rate(), Unit: "likes/s",
		Note: "the same aggregator on both transports, against the stand-in without latency; a stock worker holds one message for a whole window",
	}
	through = through.beside(fmt.Sprintf("stock watermill-aws, %d subscribers", connections), run.stock.rate())
	return []Result{
		r.reach("≥ 10,000/s, exact", reached >= likeRate),
		lagging.reach("≤ 2 windows", lagging.Value <= 2),
		full.reported(),
		through.reported(),
	}
}

// likesThroughSQS counts the likes in an SQS queue for several windows.
func (e *env) likesThroughSQS(ctx context.Context, kind string) (_ Cost, err error) {
	const waiting, windows = 100_000, 5
	e.say("likes through SQS, %s transport", kind)
	dir, remove, err := e.tempDir()
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	server := startQueues(0)
	defer server.stop()
	t, err := openTransport(ctx, kind, server, map[string]int{queue.TopicLikes: likesHeld})
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	h, err := openLikes(dir, 1)
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for i := range waiting {
		msg, err := h.message(ctx, i)
		if err != nil {
			return Cost{}, err
		}
		if err := server.Load(t.prefix+queue.TopicLikes, msg); err != nil {
			return Cost{}, err
		}
	}
	collect()
	before := ownUsage()
	stop := h.aggregate(ctx, likeagg.Config{Broker: likesOnly{Broker: h.broker, t: t}, Window: likeWindow, MaxMessages: likesHeld})
	timer := time.NewTimer(windows * likeWindow)
	defer timer.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for timeUp := false; !timeUp && h.applied.Load() < waiting; {
		select {
		case <-tick.C:
		case <-timer.C:
			timeUp = true
		case <-ctx.Done():
			return Cost{}, errors.Join(ctx.Err(), stop())
		}
	}
	cost := ownUsage().since(before, h.applied.Load())
	return cost, stop()
}

// likesOnly combines a transport with the dead letters of another queue, which has no dead letters.
type likesOnly struct {
	queue.Broker
	t transport
}

// Subscribe implements message.Subscriber.
func (l likesOnly) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return l.t.subscribe(ctx, topic)
}

// likesAtRate offers n likes at offeredRate. lag is the time from the last like until the count was
// complete.
func (e *env) likesAtRate(ctx context.Context, dir string, n int) (lag time.Duration, cost Cost, err error) {
	e.say("offer %d likes at %d a second", n, offeredRate)
	h, err := openLikes(dir, likesHeld)
	if err != nil {
		return 0, cost, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	stop := h.aggregate(ctx, likeagg.Config{Window: likeWindow, MaxMessages: likesHeld})
	defer func() { err = errors.Join(err, stop()) }()

	// The sender offers 102 likes every 10 ms, and catches up when it is late.
	const part = offeredRate / 100
	collect()
	before := ownUsage()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for sent := 0; sent < n; {
		due := min(n, int(time.Since(begin).Seconds()*offeredRate))
		for ; sent+part <= due || (due == n && sent < n); sent += part {
			if err := h.publishBatch(ctx, sent, min(sent+part, n)); err != nil {
				return 0, cost, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, cost, ctx.Err()
		}
	}
	cost = ownUsage().since(before, int64(n))
	last := time.Now()
	if err := until(ctx, func() bool { return h.applied.Load() >= int64(n) }); err != nil {
		return 0, cost, err
	}
	lag = max(0, time.Unix(0, h.lastEnd.Load()).Sub(last))
	count, err := h.count(ctx)
	if err == nil && count != int64(n) {
		err = fmt.Errorf("the count is %d, want %d", count, n)
	}
	return lag, cost, err
}

// likesFromBacklog measures the rate at which waiting likes are counted.
func (e *env) likesFromBacklog(ctx context.Context, dir string) (_ Cost, err error) {
	const waiting = 100_000
	e.say("likes from a full queue")
	h, err := openLikes(dir, likesHeld)
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.publish(ctx, 0, waiting); err != nil {
		return Cost{}, err
	}
	collect()
	before := ownUsage()
	stop := h.aggregate(ctx, likeagg.Config{Window: likeWindow, MaxMessages: likesHeld})
	err = until(ctx, func() bool { return h.applied.Load() >= waiting })
	cost := ownUsage().since(before, h.applied.Load())
	return cost, errors.Join(err, stop())
}

// naiveLikes is the simple solution: a put and an ADD to the count for each like.
func (e *env) naiveLikes(ctx context.Context, dir string) (_ Cost, err error) {
	e.say("a put and an ADD for each like")
	h, err := openLikes(dir, 1)
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	var next, done atomic.Int64
	end := time.Now().Add(3 * time.Second)
	return e.parallel(ctx, 256, func() error {
		for time.Now().Before(end) {
			like := schema.Like{Post: h.post, User: user(int(next.Add(1))), Kind: schema.KindLike, Version: h.post, Flush: schema.Flush{Inc: "x", Seq: 1}}
			if _, err := h.store.Put(ctx, table.PutInput{Item: like.Item(), If: table.Absent{}}); err != nil {
				return err
			}
			_, err := h.store.Update(ctx, table.UpdateInput{
				Key: schema.LikeCountKey(h.post), Add: []table.Attr{{Name: schema.AttrLikes, Value: table.N(1)}},
			})
			if err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	}, done.Load)
}

// parallel runs work on n goroutines and returns the cost. done returns the number of units of work.
func (e *env) parallel(ctx context.Context, n int, work func() error, done func() int64) (Cost, error) {
	errs := make([]error, n)
	var running sync.WaitGroup
	collect()
	before := ownUsage()
	for i := range n {
		running.Go(func() { errs[i] = work() })
	}
	running.Wait()
	cost := ownUsage().since(before, done())
	return cost, errors.Join(errors.Join(errs...), ctx.Err())
}
