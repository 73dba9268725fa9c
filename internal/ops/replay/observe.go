package replay

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/internal/backoff"
)

// observer reads the answers, the queues and the units of a service.
type observer struct {
	Service
	sessions *sessions
	metrics  *metrics
	progress *progress
}

func newObserver(ctx context.Context, s Service) (*observer, error) {
	sessions, err := newSessions(s)
	if err != nil {
		return nil, err
	}
	o := &observer{Service: s, sessions: sessions, metrics: newMetrics(s.Admin), progress: newProgress(s.Log)}
	if o.Settle <= 0 {
		o.Settle = 30 * time.Second
	}
	for _, addr := range s.Admin {
		if err := Probe(ctx, addr); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

// reach returns an error if the target issues no tokens. Without this check, a wrong target
// would be reported only after many minutes, because calls and requests for tokens are retried.
func (o *observer) reach(ctx context.Context) error {
	first := &token{anyone: o.sessions.anyone, user: "replay"}
	if _, err := first.get(ctx); err != nil {
		return fmt.Errorf("the target %s gave no token (see --target): %w", o.Target, err)
	}
	return nil
}

func (o *observer) close() {
	o.sessions.close()
	o.metrics.close()
}

// each calls do with the numbers from 0 to n-1 in this order. The concurrency is bounded.
func (o *observer) each(ctx context.Context, label string, n int, do func(ctx context.Context, i int) error) error {
	phase := o.progress.start(label, n)
	defer phase.finish()
	g, inGroup := errgroup.WithContext(ctx)
	g.SetLimit(max(1, o.Concurrency))
	for i := range n {
		if inGroup.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := do(inGroup, i); err != nil {
				return err
			}
			phase.add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

const (
	depthInterval = 100 * time.Millisecond
	// quietReads is the number of consecutive empty readings after which the queues count
	// as quiet. If a handler publishes a message for another handler, the next reading
	// shows this message at the latest.
	quietReads = 3
	// stalled is the maximum time without progress of the queues.
	stalled = 2 * time.Minute
)

// awaitQuiet waits until the numbers of the admin addresses show empty queues. If the numbers do
// not fall for the time stalled, awaitQuiet returns, and the later reads find the missing posts.
func (o *observer) awaitQuiet(ctx context.Context) {
	if len(o.Admin) == 0 {
		return
	}
	phase := o.progress.start("waiting for the queues", 0)
	defer phase.finish()
	least, since, empty := -1.0, time.Now(), 0
	for {
		depth, ok := o.metrics.read(ctx).depth()
		if empty++; !ok || depth > 0 {
			empty = 0
		}
		if empty == quietReads {
			return
		}
		if ok && (least < 0 || depth < least) {
			least, since = depth, time.Now()
		}
		if time.Since(since) > stalled {
			o.progress.say(fmt.Sprintf("the queues are not draining (%.0f messages): reading back now", max(0, least)))
			return
		}
		if backoff.Wait(ctx, depthInterval) != nil {
			return
		}
	}
}

// warnOfDeadLetters reports the number of new dead letters between two readings.
func (o *observer) warnOfDeadLetters(before, after reading) {
	if n := after.dead() - before.dead(); n > 0 {
		o.progress.say(fmt.Sprintf("%.0f messages were dead-lettered during the run: see `fanfare dlq ls`", n))
	}
}
