package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cockroachdb/pebble/v2"

	"fanfare/internal/schema"
)

// postAPI is benchmark T12. Each author has one follower, so that the fan-out uses a share of the cores, too.
func postAPI(ctx context.Context, e *env) ([]Result, error) {
	const conns, users = 128, 2000
	pairs := graph{users: users, name: user, follows: func(yield func(follow) bool) {
		for i := range users {
			if !yield(follow{user((i + 1) % users), user(i)}) {
				return
			}
		}
	}}
	period := time.Duration(e.size(20, 8)) * time.Second
	var cost, bare Cost
	var base *Cost
	var times, baseTimes *hdrhistogram.Histogram
	err := e.seeded(ctx, pairs, func(dir string, s *server, tokens []string) (err error) {
		e.say("post for %s on %d connections", period, conns)
		cost, times, err = e.load(ctx, s, conns, period, 1<<30, func(c *caller, i int) error {
			_, err := c.post(tokens[i%users], "hello, follower")
			return err
		})
		if err != nil {
			return err
		}
		e.say("the same items on a bare Pebble")
		if bare, err = e.barePosts(ctx, dir+"/pebble", conns, period/2); err != nil {
			return err
		}
		base, baseTimes, err = e.postgresPosts(ctx, dir, conns, period, pairs)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := Result{
		ID: "T12", Name: "posts over HTTP, durable", Value: cost.rate(), Unit: "posts/s",
		Cost: &cost, BaselineCost: &bare, Latency: latencyOf(times),
		Note: "128 connections, 2,000 authors, each with one follower; the load runs on the same cores, the cost is the server's and holds the fan-out",
	}
	r = r.beside("bare Pebble, six synced keys a post, as many writers", bare.rate())
	results := []Result{r.reported()}
	if base != nil {
		r.BaselineCost, r.Latency = base, nil
		r.Note = fmt.Sprintf("%s; its p50 is %.1f and its p99 %.1f ms", postsPromiseLess, latencyOf(baseTimes).P50, latencyOf(baseTimes).P99)
		results = append(results, r.beside(postsInSQL, base.rate()).reach("≥ 1.5 × baseline", r.Value >= 1.5*base.rate()))
	}
	return results, nil
}

// barePosts commits the keys of posts, as many keys as a post has in Fanfare, and syncs each post
// separately. It has one writer for each connection, because Pebble joins the syncs of concurrent
// writers.
func (e *env) barePosts(ctx context.Context, dir string, writers int, d time.Duration) (_ Cost, err error) {
	b, err := openBare(dir, 1)
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()
	var done atomic.Int64
	end := time.Now().Add(d)
	return e.parallel(ctx, writers, func() error {
		for time.Now().Before(end) {
			post, err := b.ids.New()
			if err != nil {
				return err
			}
			batch := b.db.NewBatch()
			// The keys stand for the event, the post, the post by id, the count, and two entries.
			for i, pk := range []string{"q", schema.PostsPK(author), "p#" + post, schema.UserPK(author), schema.TimelinePK(author), schema.TimelinePK(user(1))} {
				if err := batch.Set([]byte(pk+"\x00"+schema.PostSK(post)), make([]byte, []int{200, 60, 20, 10, 10, 10}[i]), nil); err != nil {
					return err
				}
			}
			if err := batch.Commit(pebble.Sync); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	}, done.Load)
}
