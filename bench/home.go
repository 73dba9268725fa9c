package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// These numbers define the load of T10.
const (
	homeUsers     = 2000
	homeFollowees = 100
	readsASecond  = 200
	postsASecond  = 100
	likesASecond  = 200
)

// homeRead is benchmark T10. It reads homes at a rate while users post, posts are delivered, and users like posts.
// The time of a read counts from the moment when the read was due, so a read that waits for a slow read
// is slow, too.
func homeRead(ctx context.Context, e *env) ([]Result, error) {
	var idle, loaded *Latency
	var cost Cost
	var base *Latency
	var baseCost Cost
	err := e.seeded(ctx, ring(), func(dir string, s *server, tokens []string) (err error) {
		var posts recent
		if err := e.fillHomes(ctx, s, tokens, homeUsers, &posts); err != nil {
			return err
		}
		if idle, _, err = e.readHomes(ctx, s, tokens, &posts, false); err != nil {
			return err
		}
		if loaded, cost, err = e.readHomes(ctx, s, tokens, &posts, true); err != nil {
			return err
		}
		base, baseCost, err = e.redisReads(ctx, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d homes a second, pages of 20, beside %d posts a second to %d followers each and %d likes a second; from when a read was due",
		readsASecond, postsASecond, homeFollowees, likesASecond)
	results := make([]Result, 0, 4)
	for _, q := range []struct {
		name        string
		value, base float64
	}{{"p50", loaded.P50, idle.P50}, {"p99", loaded.P99, idle.P99}} {
		r := Result{ID: "T10", Name: "home read under write load, " + q.name, Value: q.value, Unit: "ms", Cost: &cost, Latency: loaded, Note: note}
		results = append(results, r.below("the same reads without writes", q.base).reported())
	}
	// Both results have the same cost, latencies and note, so only the first result has these values.
	results[1].Cost, results[1].Latency, results[1].Note = nil, nil, ""
	if base != nil {
		p50 := Result{ID: "T10", Name: "home read under write load, p50", Value: loaded.P50, Unit: "ms", Cost: &cost, BaselineCost: &baseCost}
		p50.Note = "the same load, whose posts and likes go to Redis, too; " + pagesPromiseLess
		p99 := Result{ID: "T10", Name: "home read under write load, p99", Value: loaded.P99, Unit: "ms"}
		const most = "≤ 1.2 × baseline"
		results = append(results, p50.below(pagesOnRedis, base.P50).reach(most, loaded.P50 <= 1.2*base.P50),
			p99.below(pagesOnRedis, base.P99).reach(most, loaded.P99 <= 1.2*base.P99))
	}
	return results, nil
}

// ring returns a graph in which each user has as many followees as followers.
func ring() graph {
	return graph{users: homeUsers, name: user, follows: func(yield func(follow) bool) {
		for i := range homeUsers {
			for k := range homeFollowees {
				if !yield(follow{user(i), user((i + 1 + k*7) % homeUsers)}) {
					return
				}
			}
		}
	}}
}

// fillHomes makes n users post once, and waits until all followers have the posts.
func (e *env) fillHomes(ctx context.Context, s *server, tokens []string, n int, posts *recent) error {
	e.say("%d posts to %d followers each", n, homeFollowees)
	before, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	if err := e.postOnce(ctx, s, tokens[:n], posts); err != nil {
		return err
	}
	var failed error
	err = until(ctx, func() bool {
		var m map[string]float64
		m, failed = s.metrics(ctx)
		return failed != nil || m["fanfare_deliveries_total"]-before["fanfare_deliveries_total"] >= float64(n*homeFollowees)
	})
	return errors.Join(err, failed)
}

// postOnce makes each user post once.
func (e *env) postOnce(ctx context.Context, s loaded, tokens []string, posts *recent) error {
	_, _, err := e.load(ctx, s, 16, time.Minute, len(tokens), func(c *caller, i int) error {
		post, err := c.post(tokens[i], "filling the homes")
		posts.add(post)
		return err
	})
	return err
}

// recent holds the ids of posts to like.
type recent struct {
	mu  sync.Mutex
	ids []string
}

func (r *recent) add(post string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, post)
}

func (r *recent) random() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[rand.IntN(len(r.ids))]
}

func (e *env) readHomes(ctx context.Context, s loaded, tokens []string, posts *recent, writes bool) (*Latency, Cost, error) {
	period := time.Duration(e.size(20, 10)) * time.Second
	e.say("read homes for %s, writes %t", period, writes)
	before, err := s.usage(ctx)
	if err != nil {
		return nil, Cost{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var read atomic.Int64
	type stream struct {
		rate  int
		times *hdrhistogram.Histogram
		call  func(c *caller) error
	}
	reads := stream{readsASecond, newHistogram(), func(c *caller) error {
		defer read.Add(1)
		return c.want(http.StatusOK, nil, http.MethodGet, "/v1/home?limit=20", tokens[rand.IntN(len(tokens))], nil)
	}}
	streams := []stream{reads}
	if writes {
		streams = append(streams,
			stream{postsASecond, newHistogram(), func(c *caller) error {
				post, err := c.post(tokens[rand.IntN(len(tokens))], "under load")
				posts.add(post)
				return err
			}},
			stream{likesASecond, newHistogram(), func(c *caller) error {
				return c.want(http.StatusAccepted, nil, http.MethodPut, "/v1/posts/"+posts.random()+"/like", tokens[rand.IntN(len(tokens))], nil)
			}})
	}
	errs := make([]error, len(streams))
	var running sync.WaitGroup
	for i, st := range streams {
		running.Go(func() {
			if errs[i] = openLoop(ctx, s.address(), st.rate, period, st.times, st.call); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, Cost{}, err
	}
	after, err := s.usage(ctx)
	return latencyOf(reads.times), after.since(before, read.Load()), err
}

// openLoop makes calls at a rate on up to 32 connections, even if earlier calls have no answer yet.
func openLoop(ctx context.Context, host string, rate int, period time.Duration, times *hdrhistogram.Histogram, call func(*caller) error) error {
	const conns = 32
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := make(chan time.Time, rate*int(period/time.Second))
	errs := make([]error, conns)
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range conns {
		running.Go(func() {
			c, err := dial(host)
			if err != nil {
				errs[i] = err
				cancel()
				return
			}
			defer func() { errs[i] = errors.Join(errs[i], c.close()) }()
			for at := range due {
				if ctx.Err() != nil {
					return
				}
				if err := call(c); err != nil {
					errs[i] = err
					cancel()
					return
				}
				took := time.Since(at)
				mu.Lock()
				record(times, took)
				mu.Unlock()
			}
		})
	}
	begin := time.Now()
	every := time.Second / time.Duration(rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for at := begin; at.Sub(begin) < period && ctx.Err() == nil; at = at.Add(every) {
		timer.Reset(time.Until(at))
		select {
		case <-timer.C:
			due <- at
		case <-ctx.Done():
		}
	}
	close(due)
	running.Wait()
	return errors.Join(errs...)
}
