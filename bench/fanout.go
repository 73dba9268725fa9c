package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"fanfare/internal/id"
	"fanfare/internal/schema"
)

const author = "celebrity"

// fanoutEmbedded is benchmark T1. Posts and puts alternate, so that other work of the machine slows both.
func fanoutEmbedded(ctx context.Context, e *env) (_ []Result, err error) {
	followers, rounds := 100_000, e.size(15, 5)
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	e.say("load %d followers", followers)
	if err := seed(ctx, dir+"/fanfare", star(followers)); err != nil {
		return nil, err
	}
	s, err := e.up(ctx, dir+"/fanfare")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	bare, err := openBare(dir+"/pebble", followers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.db.Close()) }()
	redis, err := e.startRedis(ctx, dir, followers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, redis.stop()) }()

	c, err := dial(s.http)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	token, err := s.token(author)
	if err != nil {
		return nil, err
	}
	run := fanoutRun{followers: followers, times: newHistogram()}
	var posts []string
	for round := range rounds {
		e.say("round %d of %d", round+1, rounds)
		post, cost, err := deliver(ctx, s, c, token, followers)
		if err != nil {
			return nil, err
		}
		posts = append(posts, post)
		run.delivered = run.delivered.plus(cost)
		record(run.times, time.Duration(cost.WallSeconds*float64(time.Second)))
		if cost, err = bare.puts(post); err != nil {
			return nil, err
		}
		run.put = run.put.plus(cost)
		if cost, err = redis.adds(post); err != nil {
			return nil, err
		}
		run.added = run.added.plus(cost)
	}
	e.say("read 1,000 homes")
	if err := checkHomes(ctx, s, c, posts, followers, 1000); err != nil {
		return nil, err
	}
	return run.results(rounds, redis != nil), nil
}

// fanoutRun holds the costs of the deliveries of T1 and of its baselines.
type fanoutRun struct {
	followers int
	// delivered is the cost of Fanfare, put is the cost of Pebble alone, and added is the cost of Redis.
	delivered, put, added Cost
	times                 *hdrhistogram.Histogram
}

func (run *fanoutRun) results(rounds int, withRedis bool) []Result {
	note := fmt.Sprintf("%d posts to %d followers each, over HTTP to a `fanfare up`, from the request until the delivery is 'complete'; then 1,000 random homes read over HTTP were right", rounds, run.followers)
	res := Result{
		ID: "T1", Name: "fan-out, embedded, durable", Value: run.delivered.rate(), Unit: "deliveries/s",
		Cost: &run.delivered, Latency: latencyOf(run.times), Note: note,
	}
	absolute := res.reported()
	vsBare := res.beside("bare Pebble, synced batches of 1,000, puts/s", run.put.rate())
	vsBare.BaselineCost = &run.put
	vsBare = vsBare.reach("≥ 0.5 × baseline", *vsBare.Ratio >= 0.5)
	vsBare.Note, vsBare.Latency = "", nil
	results := []Result{absolute, vsBare}
	if !withRedis {
		results[0].Note += "; Redis was not compared: redis-server is not installed"
		return results
	}
	vsRedis := res.beside("Redis ZADD in pipelines of 1,000, fsync every second, adds/s", run.added.rate())
	vsRedis = vsRedis.reach("≥ 1 × baseline", *vsRedis.Ratio >= 1)
	vsRedis.Cost, vsRedis.Latency, vsRedis.Note = nil, nil, "Redis may lose the last second in a crash; Fanfare loses no answered write"
	return append(results, vsRedis)
}

type deliveryReply struct {
	State     string `json:"state"`
	Delivered int64  `json:"delivered"`
}

// pollEvery is the pause between two polls.
const pollEvery = 2 * time.Millisecond

// deliver makes a post and waits until all followers have the post.
func deliver(ctx context.Context, s *server, c *caller, token string, followers int) (post string, cost Cost, err error) {
	before, err := s.usage(ctx)
	if err != nil {
		return "", cost, err
	}
	begin := time.Now()
	if post, err = c.post(token, "hello, everybody"); err != nil {
		return "", cost, err
	}
	if err := delivered(ctx, c, token, post, followers); err != nil {
		return "", cost, err
	}
	wall := time.Since(begin)
	after, err := s.usage(ctx)
	cost = after.since(before, int64(followers))
	cost.WallSeconds = wall.Seconds()
	return post, cost, err
}

// delivered waits until the delivery of a post to all followers is complete.
func delivered(ctx context.Context, c *caller, token, post string, followers int) error {
	// The delivery record of a large delivery has many items to read, so the polls are less frequent.
	tick := time.NewTicker(pollEvery + time.Duration(followers/100_000)*pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var d deliveryReply
		if err := c.want(http.StatusOK, &d, http.MethodGet, "/v1/posts/"+post+"/delivery", token, nil); err != nil {
			return err
		}
		if d.State == "complete" {
			if d.Delivered != int64(followers)+1 {
				return fmt.Errorf("post %s: %d deliveries, want %d", post, d.Delivered, followers+1)
			}
			return nil
		}
	}
}

type homeReply struct {
	Items []struct {
		Post postReply `json:"post"`
	} `json:"items"`
}

// checkHomes reads the homes of n random followers. Each home must have exactly the posts, newest first.
func checkHomes(ctx context.Context, s *server, c *caller, posts []string, followers, n int) error {
	want := slices.Clone(posts)
	slices.Reverse(want)
	random := rand.New(rand.NewPCG(1, 1))
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := user(random.IntN(followers))
		token, err := s.token(name)
		if err != nil {
			return err
		}
		var home homeReply
		if err := c.want(http.StatusOK, &home, http.MethodGet, "/v1/home?limit=100", token, nil); err != nil {
			return err
		}
		var got []string
		for _, item := range home.Items {
			got = append(got, item.Post.ID)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the home of %s has %v, want %v", name, got, want)
		}
	}
	return nil
}

// bare is Pebble without Fanfare. It has the options of the embedded table, and keys and values of the
// same size.
type bare struct {
	db        *pebble.DB
	followers int
	ids       *id.Generator
}

func openBare(dir string, followers int) (*bare, error) {
	o := &pebble.Options{
		Logger: quiet{}, CacheSize: 128 << 20, MemTableSize: 32 << 20, MemTableStopWritesThreshold: 4,
		FormatMajorVersion: pebble.FormatNewest, L0CompactionThreshold: 8, L0StopWritesThreshold: 1000,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open a bare Pebble: %w", err)
	}
	return &bare{db, followers, id.NewGenerator(time.Now)}, nil
}

// puts writes the entries of one post in synced batches of 1,000.
func (b *bare) puts(post string) (Cost, error) {
	const size = 1000
	sk, value := schema.EntrySK(post, author), make([]byte, 10)
	users := make([]string, b.followers)
	for i := range users {
		users[i] = user(i)
	}
	key := make([]byte, 0, 128)
	collect()
	before := ownUsage()
	for from := 0; from < b.followers; from += size {
		batch := b.db.NewBatch()
		for _, u := range users[from:min(from+size, b.followers)] {
			key = append(schema.AppendTimelinePK(append(key[:0], "i00"...), u), sk...)
			if err := batch.Set(key, value, nil); err != nil {
				return Cost{}, err
			}
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			return Cost{}, err
		}
	}
	return ownUsage().since(before, int64(b.followers)), nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
