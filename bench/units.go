package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/likeagg"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/messages"
)

// The counts in this file are exact: they do not depend on the machine. The tests of
// fanout, likeagg and sim check the same limits.

// timelineTTL is the default of the product.
const timelineTTL = 720 * time.Hour

// deliveryUnits is benchmark T4: the write units of the API and of the fan-out for one post. It reads the units
// from the metrics of a server.
func deliveryUnits(ctx context.Context, e *env) (_ []Result, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var results []Result
	for _, tt := range []struct {
		followers int
		limit     float64
	}{{100, 1.2}, {10_000, 1.01}, {100_000, 1.01}} {
		units, err := e.unitsOfPost(ctx, fmt.Sprintf("%s/%d", dir, tt.followers), tt.followers)
		if err != nil {
			return results, err
		}
		r := Result{
			ID: "T4", Name: fmt.Sprintf("write units a delivery, %d followers", tt.followers),
			Value: units / float64(tt.followers+1), Unit: "WCU",
			Note: "a post of 500 bytes over HTTP: its own transaction, the entries and the delivery record; the author's home counts as a delivery",
		}
		r = r.below("one write a delivery", 1)
		results = append(results, r.reach(fmt.Sprintf("≤ %v", tt.limit), r.Value <= tt.limit))
	}
	return results, nil
}

func (e *env) unitsOfPost(ctx context.Context, dir string, followers int) (units float64, err error) {
	if err := seed(ctx, dir, star(followers)); err != nil {
		return 0, err
	}
	s, err := e.up(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, err := dial(s.http)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	token, err := s.token(author)
	if err != nil {
		return 0, err
	}
	post, err := c.post(token, strings.Repeat("x", 500))
	if err != nil {
		return 0, err
	}
	if err := delivered(ctx, c, token, post, followers); err != nil {
		return 0, err
	}
	metrics, err := s.metrics(ctx)
	if err != nil {
		return 0, err
	}
	for name, n := range metrics {
		if strings.HasPrefix(name, "fanfare_table_capacity_units_total{") && strings.Contains(name, `kind="write"`) {
			units += n
		}
	}
	return units, nil
}

// queueRequests is benchmark T5: the requests that a fan-out sends to SQS, counted by the stand-in. Receives
// without messages do not count, because an idle worker sends such requests, too.
func queueRequests(ctx context.Context, e *env) (_ []Result, err error) {
	const followers = 100_000
	store, remove, err := e.tempTable()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := seedTable(ctx, store, star(followers)); err != nil {
		return nil, err
	}
	server := startQueues(0)
	defer server.stop()
	client, err := server.client(ctx, 32)
	if err != nil {
		return nil, err
	}
	broker := sqs.New(client, sqs.Options{Prefix: "t5", PollWait: time.Second})
	defer func() { err = errors.Join(err, broker.Close()) }()

	var count atomic.Int64
	w := newWorkers(store, broker, 16, 1, func(n int, _ time.Duration) { count.Add(int64(n)) })
	stop := w.run(ctx, 4)
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := w.feed.CreatePost(ctx, author, feed.PostInput{Content: feed.Content{Text: "hello"}}); err != nil {
		return nil, err
	}
	if err := until(ctx, func() bool {
		return count.Load() >= followers && server.Idle()
	}); err != nil {
		return nil, err
	}
	requests := server.counts()
	r := Result{
		ID: "T5", Name: "queue requests per 1,000 deliveries", Value: float64(requests.total()) * 1000 / (followers + 1), Unit: "requests",
		Note: fmt.Sprintf("one post, %d followers, the SQS transport against the stand-in: %s", followers, requests),
	}
	r = r.below("a message to each follower, batched by ten: sent, received, deleted", 300)
	return []Result{r.reach("≤ 3", r.Value <= 3)}, nil
}

// workers is the fan-out of one process, configured as in a daemon on AWS, on any table and queue.
type workers struct {
	feed       *feed.Service
	deliveries *delivery.Deliveries
	fanout     *fanout.Worker
	broker     queue.Broker
	posts      int
}

func newWorkers(store table.Store, broker queue.Broker, posts, writers int, observe func(int, time.Duration)) *workers {
	ids := id.NewGenerator(time.Now)
	way := access.New(access.Config{
		Store: store, Publisher: broker, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL), Log: zap.NewNop(),
	})
	f := feed.New(feed.Config{Access: way})
	return &workers{f, delivery.New(way), fanout.New(fanout.Config{
		Store: store, Posts: f, Publisher: broker, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(timelineTTL),
		Writers: writers, PageSize: daemon.PageSize, Observe: observe,
	}), broker, posts}
}

// run consumes until the caller calls stop, which waits for the end.
func (w *workers) run(ctx context.Context, chunks int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make(chan error, 3)
	for _, c := range []struct {
		topic   string
		handle  queue.Handler
		workers int
	}{{queue.TopicPosts, w.fanout.HandlePosts, w.posts}, {queue.TopicBackfills, w.fanout.HandleBackfills, max(1, w.posts/2)}, {queue.TopicChunks, w.fanout.HandleChunks, chunks}} {
		consumer := &queue.Consumer{
			Topic: c.topic, Broker: w.broker, Handle: c.handle, Workers: c.workers, Grace: 5 * time.Second, Now: time.Now, Log: zap.NewNop(),
		}
		running.Go(func() { errs <- consumer.Run(ctx) })
	}
	return func() error {
		cancel()
		running.Wait()
		return errors.Join(<-errs, <-errs, <-errs)
	}
}

// until waits for a condition, for two minutes at most.
func until(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("not done after two minutes"))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// likeRun is the result of a count of the likes of one post.
type likeRun struct {
	likes, windows, flushes int64
	units                   table.Units
	countWrites             int64
}

// countLikes puts n likes of one post, by distinct users, on an embedded queue. An aggregator with
// windows of m messages counts the likes.
func (e *env) countLikes(ctx context.Context, n, m int) (_ likeRun, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return likeRun{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	h, err := openLikes(dir, 2*m)
	if err != nil {
		return likeRun{}, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	stop := h.aggregate(ctx, likeagg.Config{Window: time.Minute, MaxMessages: 2 * m})
	defer func() { err = errors.Join(err, stop()) }()
	// Windows run one after another, so each window is full.
	for at := 0; at < n; at += m {
		if err := h.publishBatch(ctx, at, at+m); err != nil {
			return likeRun{}, err
		}
		if err := until(ctx, func() bool { return h.applied.Load() >= int64(at+m) }); err != nil {
			return likeRun{}, err
		}
	}
	count, err := h.count(ctx)
	if err == nil && count != int64(n) {
		err = fmt.Errorf("the count is %d, want %d", count, n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return likeRun{int64(n), h.windows.Load(), h.flushes.Load(), h.units, h.countWrites.Load()}, err
}

// likes is a hot post on the embedded engine.
type likes struct {
	store  *embedded.Store
	broker *queueembedded.Broker
	ids    *id.Generator
	post   string

	applied, windows, flushes, countWrites atomic.Int64
	lastEnd                                atomic.Int64

	mu    sync.Mutex
	units table.Units
}

func openLikes(dir string, inFlight int) (_ *likes, err error) {
	h := &likes{ids: id.NewGenerator(time.Now)}
	if h.store, err = embedded.Create(dir+"/table", embedded.Options{SweepEvery: -1}); err != nil {
		return nil, err
	}
	h.broker, err = queueembedded.Create(dir+"/queue", queueembedded.Options{MaxInFlight: map[string]int{queue.TopicLikes: inFlight}})
	if err == nil {
		h.post, err = h.ids.New()
	}
	if err == nil {
		_, err = h.store.Put(context.Background(), table.PutInput{Item: schema.PostRef{ID: h.post, Author: author}.Item()})
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *likes) close() error {
	var err error
	if h.broker != nil {
		err = h.broker.Close()
	}
	return errors.Join(err, h.store.Close())
}

// publish puts the likes of the users with the numbers from..to-1 on the queue.
func (h *likes) publish(ctx context.Context, from, to int) error {
	const batch = 1000
	for at := from; at < to; at += batch {
		if err := h.publishBatch(ctx, at, min(at+batch, to)); err != nil {
			return err
		}
	}
	return nil
}

func (h *likes) publishBatch(ctx context.Context, from, to int) error {
	msgs := make([]*message.Message, 0, to-from)
	for i := from; i < to; i++ {
		msg, err := h.message(ctx, i)
		if err != nil {
			return err
		}
		msgs = append(msgs, msg)
	}
	return h.broker.Publish(queue.TopicLikes, msgs...)
}

// message returns a like by user i.
func (h *likes) message(ctx context.Context, i int) (*message.Message, error) {
	version, err := h.ids.New()
	if err != nil {
		return nil, err
	}
	return queue.Message(ctx, &messages.Liked{Like: messages.Like{
		Header: messages.Header{EventID: version, Time: time.Now()}, PostID: h.post, UserID: user(i), AuthorID: author,
	}})
}

// aggregate counts likes until the caller calls stop, which waits for the end.
func (h *likes) aggregate(ctx context.Context, cfg likeagg.Config) (stop func() error) {
	cfg.Store = table.Measure(h.store, func(op table.Op, units table.Units, _ error) {
		h.mu.Lock()
		h.units = h.units.Plus(units)
		h.mu.Unlock()
		if op == table.OpUpdate { // a new like is a put, so each update is an update of the count
			h.countWrites.Add(1)
		}
	})
	cfg.Grace = 10 * time.Second
	if cfg.Broker == nil {
		cfg.Broker = h.broker
	}
	cfg.Observe = func(o likeagg.Outcome) {
		h.windows.Add(1)
		if o.Flushed {
			h.flushes.Add(1)
		}
		h.lastEnd.Store(time.Now().UnixNano())
		h.applied.Add(int64(o.Applied))
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- likeagg.New(cfg).Run(ctx) })
	return func() error {
		cancel()
		running.Wait()
		return <-ended
	}
}

func (h *likes) count(ctx context.Context) (int64, error) {
	res, err := h.store.Get(ctx, table.GetInput{Key: schema.LikeCountKey(h.post), Consistent: true})
	if err != nil {
		return 0, err
	}
	return schema.ParseLikeCount(res.Item).Likes(), nil
}

// likeUnits is benchmark T7: the units of likes.
func likeUnits(ctx context.Context, e *env) ([]Result, error) {
	var results []Result
	for _, m := range []int{10, 100, 1000} {
		run, err := e.countLikes(ctx, 10*m, m)
		if err != nil {
			return results, err
		}
		limit := 1 + 1/float64(m) + 0.01
		r := Result{
			ID: "T7", Name: fmt.Sprintf("write units a like, %d a window", m), Value: run.units.Write / float64(run.likes), Unit: "WCU",
			Note: fmt.Sprintf("%d likes in %d windows; a put and an ADD for each like cost 2 WCU", run.likes, run.windows),
		}
		// A transaction holds 99 puts and one ADD, and each costs twice the units.
		per := float64(min(m, 99))
		r = r.below("transactions of the like puts and one ADD", 2+2/per)
		results = append(results, r.reach(fmt.Sprintf("≤ %.3f", limit), r.Value <= limit))
	}
	return results, nil
}

// countWrites is benchmark T8: the writes of a count.
func countWrites(ctx context.Context, e *env) ([]Result, error) {
	const m = 1000
	run, err := e.countLikes(ctx, 10*m, m)
	if err != nil {
		return nil, err
	}
	r := Result{
		ID: "T8", Name: "writes to a count a window", Value: float64(run.countWrites) / float64(run.windows), Unit: "writes",
		Note: fmt.Sprintf("%d likes, %d windows, %d writes of the count", run.likes, run.windows, run.countWrites),
	}
	r = r.below("a write for each like", float64(run.likes)/float64(run.windows))
	return []Result{r.reach("≤ 1", r.Value <= 1)}, nil
}
