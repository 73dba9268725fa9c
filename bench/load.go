package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// loaded is a server under load.
type loaded interface {
	address() string
	// usage is the usage of all processes of the server.
	usage(ctx context.Context) (usage, error)
}

func (s *server) address() string { return s.http }

// load makes calls on many connections, one call after another on each, until the time d or n calls are
// reached. The cost is the cost of the server.
func (e *env) load(ctx context.Context, s loaded, conns int, d time.Duration, n int, call func(c *caller, i int) error) (Cost, *hdrhistogram.Histogram, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return Cost{}, nil, err
	}
	var next, done atomic.Int64
	times := make([]*hdrhistogram.Histogram, conns)
	errs := make([]error, conns)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begin := time.Now()
	var running sync.WaitGroup
	for i := range conns {
		times[i] = newHistogram()
		running.Go(func() {
			c, err := dial(s.address())
			if err != nil {
				errs[i] = err
				cancel()
				return
			}
			defer func() { errs[i] = errors.Join(errs[i], c.close()) }()
			for ctx.Err() == nil {
				at := int(next.Add(1)) - 1
				if at >= n {
					return
				}
				began := time.Now()
				if err := call(c, at); err != nil {
					errs[i] = err
					cancel()
					return
				}
				record(times[i], time.Since(began))
				done.Add(1)
			}
		})
	}
	running.Wait()
	wall := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return Cost{}, nil, err
	}
	for _, h := range times[1:] {
		times[0].Merge(h)
	}
	// ctx may have ended with the measurement.
	after, err := s.usage(context.WithoutCancel(ctx))
	cost := after.since(before, done.Load())
	cost.WallSeconds = wall.Seconds()
	return cost, times[0], err
}

// tokensOf returns the tokens of the first n users.
func (s *server) tokensOf(n int) ([]string, error) {
	tokens := make([]string, n)
	var err error
	for i := range tokens {
		if tokens[i], err = s.token(user(i)); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// postAs makes a post on a new connection.
func (s *server) postAs(token string) (post string, err error) {
	c, err := dial(s.http)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.post(token, "hello, everybody")
}
