package daemon

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
)

// Signals returns a context that ends at SIGINT, SIGTERM or SIGHUP. So a closed terminal
// stops a process properly, unless nohup started the process. A second SIGINT or SIGTERM
// kills the process. A second SIGHUP has no effect, because a closed terminal may send two.
//
// Signals makes the process ignore SIGPIPE, so that the process continues when the reader
// of its log ends. A command whose output nobody reads fails by the error of its write.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	asked, kill := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	stopped, forget := asked, func() {}
	if !signal.Ignored(syscall.SIGHUP) {
		stopped, forget = signal.NotifyContext(asked, syscall.SIGHUP)
	}
	// A caller that sees the end of the context may send the second signal, so kill is called first.
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(stopped, func() { kill(); end() })
	return ended, func() { forget(); kill(); end() }
}

// drain returns when the roots have to stop. If a root has failed, drain returns at once. Otherwise drain
// waits until ctx ends, and then an API serves for the time of the drain, in which its balancers notice the
// stop. Workers stop without a drain, because they fetch their work themselves.
func (p *process) drain(ctx context.Context) {
	select {
	case <-p.roots.ctx.Done():
	case <-ctx.Done():
	}
	p.health.Drain()
	if rest := p.cfg.Drain; rest > 0 && p.opt.Roles.API && p.roots.ctx.Err() == nil {
		p.log.Info("draining: /servez is 503, and requests are answered", zap.Duration("drain", rest))
		_ = backoff.Wait(p.roots.ctx, rest) // the failure of a root ends the wait early
	}
	p.roots.cancel()
}

// cleanups undoes the steps of a start in reverse order, after a failed start and at a stop.
type cleanups struct{ stack []cleanup }

type cleanup struct {
	name string
	undo func(context.Context) error
	// own means that the undo has limits of its own.
	own bool
}

// run undoes the step, before a deadline if the step has no limits of its own.
func (c cleanup) run(ctx context.Context, deadline time.Time) error {
	if c.own {
		return c.undo(ctx)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return c.undo(ctx)
}

// add registers the undo of a step. Call add right after the step.
func (c *cleanups) add(name string, undo func(context.Context) error) {
	c.stack = append(c.stack, cleanup{name: name, undo: undo})
}

// addOwn registers the undo of a step that has limits of its own, because it takes longer than all other steps.
func (c *cleanups) addOwn(name string, undo func(context.Context) error) {
	c.stack = append(c.stack, cleanup{name: name, undo: undo, own: true})
}

// addCloser registers a closer that takes no context. If the closer has not returned at the
// deadline, the error names the closer, which then ends with the process. This loses
// nothing, because every answered call is durable (I5).
func (c *cleanups) addCloser(name string, closer func() error) {
	c.add(name, func(ctx context.Context) error {
		closed := make(chan error, 1)
		go func() { closed <- closer() }() // the select waits until the closer returns or the deadline passes
		select {
		case err := <-closed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("not closed in time: %w", ctx.Err())
		}
	})
}

// run undoes all steps. The steps before an own step, and the steps after it, have the time limit together. The error
// names the steps whose undo failed.
func (c *cleanups) run(ctx context.Context, limit time.Duration) error {
	var errs []error
	deadline := time.Now().Add(limit)
	for i := len(c.stack) - 1; i >= 0; i-- {
		step := c.stack[i]
		if err := step.run(ctx, deadline); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", step.name, err))
		}
		if step.own {
			deadline = time.Now().Add(limit)
		}
	}
	c.stack = nil
	return errors.Join(errs...)
}

// roots are the named goroutines that start all other goroutines. If a root ends before the
// stop, all roots stop.
type roots struct {
	ctx    context.Context //nolint:containedctx // the end of ctx stops the roots
	cancel context.CancelFunc
	log    *zap.Logger
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// newRoots returns roots that stop when ctx ends.
func newRoots(ctx context.Context, log *zap.Logger) *roots {
	ctx, cancel := context.WithCancel(ctx)
	return &roots{ctx: ctx, cancel: cancel, log: log}
}

// start starts a root. The function run must not return before its context ends.
func (r *roots) start(name string, run func(context.Context) error) {
	r.wg.Go(func() {
		defer r.cancel()
		err := r.guard(name, run)
		if err == nil && r.ctx.Err() == nil {
			err = errors.New("it ended before the stop")
		}
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
		}
	})
}

// guard calls run, and turns a panic into an error, so that the process stops in order.
func (r *roots) guard(name string, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("root panicked", zap.String("root", name), zap.Any("panic", p), zap.Stack("stack"))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run(r.ctx)
}

// wait returns when all roots have ended. The error names the failed roots.
func (r *roots) wait() error {
	r.wg.Wait()
	r.cancel()
	return errors.Join(r.errs...)
}
