package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// restBetween is the time that the server has after writes to merge its files.
const restBetween = 10 * time.Second

// homePages is benchmark T17: it reads homes at the highest rate of the server, first right after a load of posts,
// and again after a rest.
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
			results = append(results, r.reported())
		}
		base, err := e.redisPages(ctx, dir, conns, period)
		if base != nil {
			last := &results[len(results)-1]
			*last = last.beside(pagesOnRedis, base.rate()).reach("≥ 1.3 × baseline", last.Value >= 1.3*base.rate())
			last.BaselineCost, last.Note = base, last.Note+"; "+pagesPromiseLess
		}
		return err
	})
	return results, err
}

// likesOverHTTP is benchmark T18: it sends PUT /v1/posts/{id}/like, and waits until the counts are exact. In the
// first run each like comes from a user without an earlier request. In the second run the users have sent
// earlier requests.
func likesOverHTTP(ctx context.Context, e *env) ([]Result, error) {
	const conns, users, regulars, posts = 64, 200_000, 5000, 50
	nobody := graph{users: users, name: user, follows: func(func(follow) bool) {}}
	period := time.Duration(e.size(15, 8)) * time.Second
	var first, again Result
	var base *Cost
	err := e.seeded(ctx, nobody, func(dir string, s *server, tokens []string) (err error) {
		if first, err = e.likes(ctx, s, conns, period, users, tokens[:1], func(i int) string { return tokens[i] }); err != nil {
			return err
		}
		regular := func(i int) string { return tokens[i%regulars] }
		// The report leaves out this run, which makes the server know the regular users.
		if _, err := e.likes(ctx, s, conns, period, regulars, tokens[:1], regular); err != nil {
			return err
		}
		if again, err = e.likes(ctx, s, conns, period, posts*regulars, tokens[:posts], regular); err != nil {
			return err
		}
		base, err = e.redisLikes(ctx, dir, conns, period, nobody)
		return err
	})
	if err != nil {
		return nil, err
	}
	first.Name, again.Name = "likes over HTTP, one post, first requests", "likes over HTTP, users that are known"
	again.Note = fmt.Sprintf("%d connections, %d users one after the other, each with a new like each time, one post after the other", conns, regulars)
	first.Note = fmt.Sprintf("%d connections, distinct users, each with its first request; the cost is that of the server, which counts meanwhile", conns)
	if base != nil {
		first = first.beside(likesOnRedis, base.rate()).reach("≥ 0.35 × baseline", first.Value >= 0.35*base.rate())
		first.BaselineCost, first.Note = base, first.Note+"; "+likesPromiseLess
	}
	return []Result{first, again}, nil
}

// likes sends likes of posts, for the time d or up to n likes: n/len(authors) likes of each post. The
// token of like i is token(i). Each author makes one of the posts.
func (e *env) likes(ctx context.Context, s *server, conns int, d time.Duration, n int, authors []string, token func(i int) string) (Result, error) {
	ids := make([]string, len(authors))
	for i, author := range authors {
		var err error
		if ids[i], err = s.postAs(author); err != nil {
			return Result{}, err
		}
	}
	each := n / len(ids)
	cost, times, err := e.load(ctx, s, conns, d, n, func(c *caller, i int) error {
		return c.want(http.StatusAccepted, nil, http.MethodPut, "/v1/posts/"+ids[i/each]+"/like", token(i), nil)
	})
	if err != nil {
		return Result{}, err
	}
	err = s.with(func(c *caller) error {
		var wrong error
		err := until(ctx, func() bool {
			var sum int64
			for _, id := range ids {
				var reply struct {
					Count int64 `json:"count"`
				}
				wrong = errors.Join(wrong, c.want(http.StatusOK, &reply, http.MethodGet, "/v1/posts/"+id+"/likes/count", authors[0], nil))
				sum += reply.Count
			}
			return wrong != nil || sum == cost.Units
		})
		return errors.Join(wrong, err)
	})
	r := Result{ID: "T18", Value: cost.rate(), Unit: "likes/s", Cost: &cost, Latency: latencyOf(times)}
	return r.reported(), err
}
