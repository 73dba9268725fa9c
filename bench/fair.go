package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/bench/standin"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/ops/capacity"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
	"fanfare/internal/throttle"
	"fanfare/messages"
)

// These numbers define the load of T11.
const (
	fairPairs  = 200 // ordinary authors with one follower each
	fairRate   = 50  // ordinary posts a second
	fairRounds = 3   // for each pair of phases
	botRate    = 17  // 1,000 posts a minute
	botFans    = 1000
	crowdSize  = 20_000
	crowdPosts = 50
)

func ordinary(i int) string { return fmt.Sprintf("ordinary-%d", i) }
func reader(i int) string   { return fmt.Sprintf("reader-%d", i) }

// fairness is benchmark T11: the time until an ordinary post is in a home, while a load runs.
func fairness(ctx context.Context, e *env) ([]Result, error) {
	embedded, err := e.fairEmbedded(ctx)
	if err != nil {
		return embedded, err
	}
	onAWS, err := e.fairStandIn(ctx)
	return append(embedded, onAWS...), err
}

// pair holds the times of ordinary posts during a load, and the times of the same posts without the load.
type pair struct {
	name          string
	quiet, beside *hdrhistogram.Histogram
}

// phase makes ordinary posts, with the load or without, and waits until the load has ended.
type phase func(ctx context.Context, loaded bool, times *hdrhistogram.Histogram) error

// inTurns runs a phase alternately with its load and without. The order changes in each round, because a
// machine changes its speed within a minute. A p99 needs a thousand posts.
func (e *env) inTurns(ctx context.Context, name string, run phase) (pair, error) {
	p := pair{name, newHistogram(), newHistogram()}
	for round := range e.size(fairRounds, 1) {
		for turn := range 2 {
			loaded, times := (round+turn)%2 == 1, p.quiet
			if loaded {
				times = p.beside
			}
			if err := run(ctx, loaded, times); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// besides returns the rows of one engine.
func besides(engine, note string, pairs []pair) []Result {
	results := make([]Result, 0, len(pairs))
	for _, p := range pairs {
		quiet, beside := latencyOf(p.quiet), latencyOf(p.beside)
		r := Result{
			ID: "T11", Name: "post to visible, p99, " + engine + ", beside " + p.name, Value: beside.P99, Unit: "ms", Latency: beside,
			Note: fmt.Sprintf("%d posts beside it and %d without, by turns; p50 %.1f and %.1f ms. %s",
				p.beside.TotalCount(), p.quiet.TotalCount(), beside.P50, quiet.P50, note),
		}
		results = append(results, r.below("the same posts without it", quiet.P99).reach("≤ 1.3 × without", r.Value <= 1.3*quiet.P99))
		note = ""
	}
	return results
}

// beside runs load until run ends.
func beside(ctx context.Context, load, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var loading sync.WaitGroup
	var failed error
	loading.Go(func() {
		if failed = load(ctx); failed != nil && ctx.Err() != nil {
			failed = nil // the load was stopped by this function
		}
	})
	err := run(ctx)
	stop()
	loading.Wait()
	return errors.Join(err, failed)
}

func nothing(context.Context) error { return nil }

// fairGraph returns a graph of a celebrity, a bot, an author whom a crowd has just followed, and ordinary
// authors with a follower each.
func fairGraph(followers int) graph {
	g := star(followers)
	names := []string{"bot", "crowded"}
	for i := range fairPairs {
		names = append(names, ordinary(i), reader(i))
	}
	return graph{
		users: g.users + len(names),
		name: func(i int) string {
			if i < g.users {
				return g.name(i)
			}
			return names[i-g.users]
		},
		follows: func(yield func(follow) bool) {
			for i := range fairPairs {
				if !yield(follow{reader(i), ordinary(i)}) {
					return
				}
			}
			for i := range botFans {
				if !yield(follow{user(i), "bot"}) {
					return
				}
			}
			g.follows(yield)
		},
	}
}

func (e *env) fairEmbedded(ctx context.Context) (_ []Result, err error) {
	followers := e.size(1_000_000, 100_000)
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	e.say("embedded: load %d followers", followers)
	if err := seed(ctx, dir, fairGraph(followers)); err != nil {
		return nil, err
	}
	// on runs a phase on its own server.
	on := func(ctx context.Context, times *hdrhistogram.Histogram, load func(s *server) func(context.Context) error) (err error) {
		s, err := e.up(ctx, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		if err := beside(ctx, load(s), func(ctx context.Context) error { return e.ordinaryPosts(ctx, s, times) }); err != nil {
			return err
		}
		return s.drained(ctx)
	}
	loads := map[string]func(s *server) func(context.Context) error{
		"": func(*server) func(context.Context) error { return nothing },
		fanOutsName(followers): func(s *server) func(context.Context) error {
			return func(ctx context.Context) error { return s.fanOuts(ctx, followers) }
		},
		botName: func(s *server) func(context.Context) error {
			return func(ctx context.Context) error {
				token, err := s.token("bot")
				if err != nil {
					return err
				}
				return openLoop(ctx, s.http, botRate, e.fairPeriod(), newHistogram(), func(c *caller) error {
					_, err := c.post(token, "hello, hello")
					return err
				})
			}
		},
	}
	if err := e.crowdedPosts(ctx, dir); err != nil { // the backfills of the crowd copy these posts
		return nil, err
	}
	var pairs []pair
	for _, name := range []string{fanOutsName(followers), botName, crowdName} {
		e.say("embedded: beside %s", name)
		p, err := e.inTurns(ctx, name, func(ctx context.Context, loaded bool, times *hdrhistogram.Histogram) error {
			if loaded && name == crowdName {
				if err := crowdFollows(ctx, dir); err != nil {
					return err
				}
			}
			load := loads[""]
			if loaded && loads[name] != nil {
				load = loads[name]
			}
			return on(ctx, times, load)
		})
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	note := fmt.Sprintf("%d posts a second over HTTP by %d authors with a follower each, from when a post was due until the follower's home shows it; the bot has %d followers, a crowd of %s followed an author with %d posts before the start",
		fairRate, fairPairs, botFans, capacity.Number(crowdSize), crowdPosts)
	return besides("embedded", note, pairs), nil
}

const (
	botName   = "a bot of 1,000 posts a minute"
	crowdName = "20,000 backfills"
)

func fanOutsName(followers int) string { return "fan-outs to " + capacity.Number(float64(followers)) }

// crowdedPosts makes posts of an author whom a crowd follows later.
func (e *env) crowdedPosts(ctx context.Context, dir string) (err error) {
	s, err := e.up(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return s.withToken("crowded", func(c *caller, token string) error {
		for range crowdPosts {
			if _, err := c.post(token, "welcome"); err != nil {
				return err
			}
		}
		return nil
	})
}

// drained waits until the queues are empty, so that a load does not continue in the next phase.
func (s *server) drained(ctx context.Context) error {
	var failed error
	err := until(ctx, func() bool {
		var m map[string]float64
		m, failed = s.metrics(ctx)
		left := 0.0
		for name, n := range m {
			if strings.HasPrefix(name, "fanfare_queue_depth{") && !strings.Contains(name, `"dead"`) {
				left += n
			}
		}
		return failed != nil || left == 0
	})
	return errors.Join(err, failed)
}

// fanOuts makes posts of the large author one after another until ctx ends, and then waits for the last
// delivery.
func (s *server) fanOuts(ctx context.Context, followers int) error {
	return s.withToken(author, func(c *caller, token string) error {
		for ctx.Err() == nil {
			post, err := c.post(token, "hello, everybody")
			if err == nil {
				err = delivered(context.WithoutCancel(ctx), c, token, post, followers)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *env) fairPeriod() time.Duration { return time.Duration(e.size(8, 2)) * time.Second }

// withToken makes calls as a user on a new connection.
func (s *server) withToken(user string, call func(c *caller, token string) error) error {
	token, err := s.token(user)
	if err != nil {
		return err
	}
	return s.with(func(c *caller) error { return call(c, token) })
}

// ordinaryPosts makes posts at a rate, and measures the time until each post is in a home.
func (e *env) ordinaryPosts(ctx context.Context, s *server, times *hdrhistogram.Histogram) error {
	authors, readers := make([]string, fairPairs), make([]string, fairPairs)
	for i := range fairPairs {
		var err, failed error
		authors[i], err = s.token(ordinary(i))
		readers[i], failed = s.token(reader(i))
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	var next atomic.Int64
	return openLoop(ctx, s.http, fairRate, e.fairPeriod(), times, func(c *caller) error {
		i := int(next.Add(1)) % fairPairs
		post, err := c.post(authors[i], "an ordinary post")
		if err != nil {
			return err
		}
		for {
			var home homeReply
			if err := c.want(http.StatusOK, &home, http.MethodGet, "/v1/home?limit=1", readers[i], nil); err != nil {
				return err
			}
			if len(home.Items) > 0 && home.Items[0].Post.ID == post {
				return nil
			}
			select {
			case <-time.After(visibleEvery):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// visibleEvery is the pause between two reads of a home. T11 compares two delays. With a read every 2 ms,
// a difference of a tenth of a millisecond could count as 2 ms.
const visibleEvery = 500 * time.Microsecond

// regularly calls do at a rate, each call on a separate goroutine, and waits for all
// calls.
func (e *env) regularly(ctx context.Context, rate int, do func(i int)) {
	var calls sync.WaitGroup
	defer calls.Wait()
	begin := time.Now()
	for i := range rate * int(e.fairPeriod()/time.Second) {
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate)))):
		case <-ctx.Done():
			return
		}
		calls.Go(func() { do(i) })
	}
}

// fanOuts makes posts of the large author as server.fanOuts does, but without HTTP.
func (w *workers) fanOuts(ctx context.Context, followers int64) error {
	for ended := ctx; ended.Err() == nil; {
		ctx := context.WithoutCancel(ended)
		made, err := w.feed.CreatePost(ctx, author, feed.PostInput{Content: feed.Content{Text: "hello, everybody"}})
		if err == nil {
			err = complete(ctx, w.deliveries, made.ID, followers)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// crowd stores the mark of each follow of a crowd, and publishes the event, as the API does.
func crowd(ctx context.Context, store table.Store, publish func(...*message.Message) error) error {
	ids := id.NewGenerator(time.Now)
	l := loader{ctx: ctx, store: store}
	var events []*message.Message
	for i := range crowdSize {
		version, err := ids.New()
		if err != nil {
			return err
		}
		l.put(schema.Mark{User: user(i), Author: "crowded", Kind: schema.MarkBackfill, From: id.Min, Version: version}.Item())
		head := messages.Header{EventID: version, Time: time.Now().UTC()}
		m, err := queue.Message(ctx, &messages.Followed{Header: head, FollowerID: user(i), AuthorID: "crowded", From: id.Min, MarkVersion: version})
		if err != nil {
			return err
		}
		events = append(events, m)
	}
	l.flush()
	if l.err != nil {
		return l.err
	}
	return publish(events...)
}

// crowdFollows calls crowd with the data directory of a stopped server.
func crowdFollows(ctx context.Context, dir string) (err error) {
	data, err := datadir.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	store, err := tableembedded.Create(data.Path("table"), tableembedded.Options{SweepEvery: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	broker, err := queueembedded.Create(data.Path("queue"), queueembedded.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	return crowd(ctx, store, func(m ...*message.Message) error { return broker.Publish(queue.TopicBackfills, m...) })
}

// followersOfSmallAuthors returns the numbers of followers of all authors except the large author.
func followersOfSmallAuthors(ordinaryFans int) map[string]int {
	few := map[string]int{"bot": botFans, "crowded": 0}
	for i := range fairPairs {
		few[ordinary(i)] = ordinaryFans
	}
	return few
}

// visibleTimes collects the times from posts to their entries, in the histogram of the current turn.
type visibleTimes struct {
	mu   sync.Mutex
	into *hdrhistogram.Histogram
}

func (v *visibleTimes) record(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	record(v.into, d)
}

func (v *visibleTimes) count() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.into.TotalCount()
}

// turnTo makes v record the next times in a histogram, and returns the number of times in the histogram.
func (v *visibleTimes) turnTo(into *hdrhistogram.Histogram) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.into = into
	return into.TotalCount()
}

// fairStandIn measures the fan-out on the DynamoDB store and the SQS transport, with the workers of a
// daemon. SQS has its own thresholds of fairness. The stand-in stores no entries, so a post counts as
// visible when its follower's entry is written.
func (e *env) fairStandIn(ctx context.Context) (_ []Result, err error) {
	const fans = 7 // this number identifies the entries of an ordinary post
	followers := e.size(1_000_000, 100_000)
	few := followersOfSmallAuthors(fans)
	e.say("stand-in: %s a call", scaleLatency)
	tables, err := standin.Spawn(ctx, e.standIn(), standin.Options{Followers: followers, Few: few, Latency: scaleLatency})
	if err != nil {
		return nil, err
	}
	defer tables.Stop()
	queues := startQueues(scaleLatency)
	defer queues.stop()
	s, err := openScale(ctx, tables.URL, queues.url, map[string]int{queue.TopicPosts: 64, queue.TopicBackfills: 32, queue.TopicChunks: 32})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.broker.Close()) }()
	shown := &visibleTimes{into: newHistogram()}
	stop := consumeAll(ctx, &throttle.Shares{Yield: throttle.Yield{AtOnce: daemon.BatchesAtOnce()}}, s.store, s.broker, func(n int, sincePost time.Duration) {
		if n == fans {
			shown.record(sincePost)
		}
	})
	defer func() { err = errors.Join(err, stop()) }()
	api := newWorkers(s.store, s.broker, 0, 1, nil)
	for _, name := range append(slices.Collect(maps.Keys(few)), author) {
		if _, err := api.feed.PutProfile(ctx, name, feed.ProfileInput{Name: name}); err != nil {
			return nil, err
		}
	}
	var made atomic.Int64
	post := func(ctx context.Context, author string) error {
		_, err := api.feed.CreatePost(ctx, author, feed.PostInput{Content: feed.Content{Text: "hello"}})
		if err == nil && few[author] == fans {
			made.Add(1)
		}
		return err
	}
	at := func(ctx context.Context, rate int, author func(i int) string) {
		e.regularly(ctx, rate, func(i int) {
			_ = post(context.WithoutCancel(ctx), author(i)) // the row does not count a failed post
		})
	}
	loads := map[string]func(context.Context) error{
		fanOutsName(followers): func(ctx context.Context) error { return api.fanOuts(ctx, int64(followers)) },
		botName:                func(ctx context.Context) error { at(ctx, botRate, func(int) string { return "bot" }); return nil }, //nolint:unparam // a load may fail
	}
	for range crowdPosts {
		if err := post(ctx, "crowded"); err != nil {
			return nil, err
		}
	}
	var pairs []pair
	for _, name := range []string{fanOutsName(followers), botName, crowdName} {
		e.say("stand-in: beside %s", name)
		p, err := e.inTurns(ctx, name, func(ctx context.Context, loaded bool, into *hdrhistogram.Histogram) error {
			load := nothing
			if loaded && loads[name] != nil {
				load = loads[name]
			}
			if loaded && name == crowdName {
				if err := crowd(ctx, s.store, func(m ...*message.Message) error { return s.broker.Publish(queue.TopicBackfills, m...) }); err != nil {
					return err
				}
			}
			want := shown.turnTo(into)
			made.Store(0)
			if err := beside(ctx, load, func(ctx context.Context) error {
				at(ctx, fairRate, func(i int) string { return ordinary(i % fairPairs) })
				return until(ctx, func() bool { return shown.count() >= want+made.Load() })
			}); err != nil {
				return err
			}
			return until(ctx, func() bool { // a load must not continue in the next phase
				return queues.Len(scaleName+"-"+queue.TopicBackfills)+queues.Len(scaleName+"-"+queue.TopicPosts)+queues.Len(scaleName+"-"+queue.TopicChunks) == 0
			})
		})
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	note := fmt.Sprintf("the worker, the DynamoDB store and the SQS transport of the product in one process with the stand-in of SQS, which has the thresholds of fair queues, and %s for each call; %d posts a second, from the time of the post until its entries are written",
		scaleLatency, fairRate)
	return besides("stand-in", note, pairs), nil
}
