package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"fanfare/internal/ops/capacity"
)

// fewFollowers is the smaller one of the two numbers of followers that T2 compares.
const (
	fewFollowers = 10_000
	mebibyte     = 1 << 20
)

// memory is benchmark T2. The size of caches is a setting and must not decide the result. So each server holds the
// same table, has read the list of the million followers before, and delivers a million entries. One
// server delivers a hundred posts to 10,000 followers, and the other server delivers one post to a
// million followers. Only the number of followers differs.
func memory(ctx context.Context, e *env) ([]Result, error) {
	followers := e.size(1_000_000, 200_000)
	few, _, err := e.peakOf(ctx, followers, middling, fewFollowers, followers/fewFollowers)
	if err != nil {
		return nil, err
	}
	many, cost, err := e.peakOf(ctx, followers, author, followers, 1)
	if err != nil {
		return nil, err
	}
	limited, limitedCost, err := e.peakOf(ctx, followers, author, followers, 1, "GOMEMLIMIT=256MiB")
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("peak memory, %s followers", capacity.Number(float64(followers)))
	r := Result{
		ID: "T2", Name: name, Value: many / mebibyte, Unit: "MiB", Cost: &cost,
		Note: "VmHWM of `fanfare up` processes that hold the same table and have read the same followers; both deliver as many entries, the baseline in posts to 10,000 followers, so that the same caches fill",
	}
	growth := r
	growth.Cost, growth.Note = nil, ""
	growth = growth.below("10,000 followers", few/mebibyte)
	growth = growth.reach("≤ 1.2 × baseline", many <= 1.2*few)
	small := Result{
		ID: "T2", Name: name + ", GOMEMLIMIT=256MiB", Value: limited / mebibyte, Unit: "MiB", Cost: &limitedCost,
		Note: "the limit is for what the Go runtime manages; Pebble's caches are beside it",
	}
	return []Result{r.reach("≤ 400 MiB", many <= 400*mebibyte), growth, small.reach("completes", true)}, nil
}

// middling is an author who has the first followers of the celebrity.
const middling = "middling"

func memoryGraph(followers int) graph {
	g := star(followers)
	return graph{
		users: 2,
		name:  func(i int) string { return []string{author, middling}[i] },
		follows: func(yield func(follow) bool) {
			n := 0
			for f := range g.follows {
				if !yield(f) || (n < fewFollowers && !yield(follow{f.follower, middling})) {
					return
				}
				n++
			}
		},
	}
}

// peakOf delivers posts of an author to followers, out of all followers of the graph, and
// returns the peak memory of the process in bytes.
func (e *env) peakOf(ctx context.Context, all int, name string, followers, posts int, env ...string) (peak float64, cost Cost, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return 0, cost, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	e.say("load %d followers", all)
	if err := seed(ctx, dir, memoryGraph(all)); err != nil {
		return 0, cost, err
	}
	s, err := e.up(ctx, dir, env...)
	if err != nil {
		return 0, cost, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, err := dial(s.http)
	if err != nil {
		return 0, cost, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	token, err := s.token(name)
	if err != nil {
		return 0, cost, err
	}
	e.say("read the followers")
	if err := readFollowers(ctx, c, token, all); err != nil {
		return 0, cost, err
	}
	e.say("deliver %d posts to %d followers %v", posts, followers, env)
	for range posts {
		_, one, err := deliver(ctx, s, c, token, followers)
		if err != nil {
			return 0, cost, fmt.Errorf("%d followers: %w", followers, err)
		}
		cost = cost.plus(one)
	}
	bytes, err := peakMemory(s.pid())
	return float64(bytes), cost, err
}

// readFollowers reads the list of the celebrity's followers, page by page.
func readFollowers(ctx context.Context, c *caller, token string, want int) error {
	cursor, got := "", 0
	for {
		var page struct {
			Items  []struct{} `json:"items"`
			Cursor string     `json:"next_cursor"`
		}
		err := c.want(http.StatusOK, &page, http.MethodGet, "/v1/users/"+author+"/followers?limit=100"+cursor, token, nil)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		got += len(page.Items)
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Cursor)
	}
	if got != want {
		return fmt.Errorf("%s has %d followers in its list, want %d", author, got, want)
	}
	return nil
}
