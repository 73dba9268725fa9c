package main

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// turnsEach is the number of measurements of each value and of its baseline, by turns.
const turnsEach = 3

// postCost is the cost of the posts on one of two servers that are measured by turns.
type postCost struct {
	// cost includes the work of the server in the second and a half after a load.
	cost  Cost
	times *Latency
	// rate is the number of posts a second.
	rate float64
}

// circle is a graph in which each user follows the next user.
func circle(users int) graph {
	return graph{users: users, name: user, follows: func(yield func(follow) bool) {
		for i := range users {
			if !yield(follow{user((i + 1) % users), user(i)}) {
				return
			}
		}
	}}
}

// postsByTurns makes posts on two servers by turns.
func (e *env) postsByTurns(ctx context.Context, servers [2]*server, tokens [2][]string, conns int) (costs [2]postCost, err error) {
	histograms := [2]*hdrhistogram.Histogram{newHistogram(), newHistogram()}
	var loads [2]Cost
	period := time.Duration(e.size(5, 2)) * time.Second
	for round := range 2 * e.size(turnsEach, 1) {
		for turn := range 2 {
			i := (round + turn) % 2
			before, err := servers[i].usage(ctx)
			if err != nil {
				return costs, err
			}
			cost, times, err := e.load(ctx, servers[i], conns, period, 1<<30, func(c *caller, n int) error {
				_, err := c.post(tokens[i][n%len(tokens[i])], "hello, follower")
				return err
			})
			if err == nil {
				err = e.pause(ctx, 1500*time.Millisecond) // for the last segment, and for the standby
			}
			if err != nil {
				return costs, err
			}
			after, err := servers[i].usage(ctx)
			if err != nil {
				return costs, err
			}
			histograms[i].Merge(times)
			loads[i] = loads[i].plus(cost)
			costs[i].cost = costs[i].cost.plus(after.since(before, cost.Units))
		}
	}
	for i, load := range loads {
		costs[i].times, costs[i].rate = latencyOf(histograms[i]), load.rate()
	}
	return costs, nil
}

func (e *env) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
