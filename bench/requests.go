package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// restBetween is the time in which the server merges files after writes.
const restBetween = 10 * time.Second

// homePages is T17: homes are read as fast as the server answers, right after a load of
// posts and again after a rest.
func homePages(ctx context.Context, e *env) (results []Result, err error) {
	const conns, writes = 32, 1000
	err = e.seeded(ctx, ring(), func(dir string, s *server, tokens []string) error {
		if err := e.fillHomes(ctx, s, tokens, homeUsers, &recent{}); err != nil {
			return err
		}
		if err := e.fillHomes(ctx, s, tokens, writes, &recent{}); err != nil {
			return err
		}
		period := time.Duration(e.size(10, 5)) * time.Second
		for _, when := range []string{"right after writes", "after a rest"} {
			if len(results) > 0 {
				e.say("rest for %v", restBetween)
				select {
				case <-time.After(restBetween):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			e.say("read homes %s", when)
			cost, times, err := e.load(ctx, s, conns, period, 1<<30, func(c *caller, i int) error {
				return c.want(http.StatusOK, nil, http.MethodGet, "/v1/home?limit=20", tokens[i*7919%homeUsers], nil)
			})
			if err != nil {
				return err
			}
			r := Result{
				ID: "T17", Name: "home pages over HTTP, " + when, Value: cost.rate(), Unit: "pages/s", Cost: &cost, Latency: latencyOf(times),
				Note: fmt.Sprintf("%d connections, pages of 20 of %d homes, each of %d authors and more posts than a page; the load runs on the same cores",
					conns, homeUsers, homeFollowees),
			}
			results = append(results, r.reach("≥ 4,000/s, ≤ 300 µs CPU each", r.Value >= 4000 && cost.cpuEach() <= 300))
		}
		base, err := e.redisPages(ctx, dir, conns, period)
		if base != nil {
			last := &results[len(results)-1]
			*last = last.beside(pagesOnRedis, base.rate())
			last.BaselineCost, last.Note = base, last.Note+"; "+pagesPromiseLess
		}
		return err
	})
	return results, err
}

// likesOverHTTP is T18: PUT /v1/posts/{id}/like, each of another user, until the count is exact.
func likesOverHTTP(ctx context.Context, e *env) ([]Result, error) {
	const conns, users = 64, 200_000
	var cost Cost
	var times *hdrhistogram.Histogram
	nobody := graph{users: users, name: user, follows: func(func(follow) bool) {}}
	var base *Cost
	period := time.Duration(e.size(15, 8)) * time.Second
	err := e.seeded(ctx, nobody, func(dir string, s *server, tokens []string) error {
		post, err := s.postAs(tokens[0])
		if err != nil {
			return err
		}
		path := "/v1/posts/" + post + "/like"
		cost, times, err = e.load(ctx, s, conns, period, users, func(c *caller, i int) error {
			return c.want(http.StatusAccepted, nil, http.MethodPut, path, tokens[i], nil)
		})
		if err != nil {
			return err
		}
		err = s.with(func(c *caller) error {
			var wrong error
			err := until(ctx, func() bool {
				var reply struct {
					Count int64 `json:"count"`
				}
				wrong = c.want(http.StatusOK, &reply, http.MethodGet, "/v1/posts/"+post+"/likes/count", tokens[0], nil)
				return wrong != nil || reply.Count == cost.Units
			})
			return errors.Join(wrong, err)
		})
		if err != nil {
			return err
		}
		base, err = e.redisLikes(ctx, dir, conns, period, nobody)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := Result{
		ID: "T18", Name: "likes over HTTP, one post", Value: cost.rate(), Unit: "likes/s", Cost: &cost, Latency: latencyOf(times),
		Note: "64 connections, distinct users, each with its first request; the cost is that of the server, which counts meanwhile",
	}
	r = r.reach("≥ 10,000/s, ≤ 100 µs CPU each", r.Value >= 10_000 && cost.cpuEach() <= 100)
	if base != nil {
		r = r.beside(likesOnRedis, base.rate())
		r.BaselineCost, r.Note = base, r.Note+"; "+likesPromiseLess
	}
	return []Result{r}, nil
}
