package daemon

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/zap"
)

// Signals returns a context that ends at SIGINT or SIGTERM. A second signal then
// kills the process as if nobody had listened.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// cleanups undoes what was set up, last first. A start that failed takes the same
// way out as a stop.
type cleanups struct{ stack []cleanup }

type cleanup struct {
	name string
	undo func(context.Context) error
}

// add registers how to undo something, right after it was done.
func (c *cleanups) add(name string, undo func(context.Context) error) {
	c.stack = append(c.stack, cleanup{name, undo})
}

// addCloser is add for what closes without a deadline: one that has not closed at the
// deadline is given up and named, and ends with the process. Nothing is lost by that,
// since all that was answered is durable (I5).
func (c *cleanups) addCloser(name string, closer func() error) {
	c.add(name, func(ctx context.Context) error {
		closed := make(chan error, 1)
		go func() { closed <- closer() }() // waited for until the deadline
		select {
		case err := <-closed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("not closed in time: %w", ctx.Err())
		}
	})
}

// run undoes everything. ctx carries the deadline of all together; it returns what
// failed, by name.
func (c *cleanups) run(ctx context.Context) error {
	var errs []error
	for i := len(c.stack) - 1; i >= 0; i-- {
		if err := c.stack[i].undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.stack[i].name, err))
		}
	}
	c.stack = nil
	return errors.Join(errs...)
}

// roots are the goroutines that everything else in the process hangs on, each with a
// name. The first that ends before the stop ends all.
type roots struct {
	ctx    context.Context //nolint:containedctx // it is the life of the roots
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

// start runs a root. run returns when its context ends, and not before.
func (r *roots) start(name string, run func(context.Context) error) {
	r.wg.Go(func() {
		defer r.cancel()
		err := r.guard(name, run)
		if err == nil && r.ctx.Err() == nil {
			err = errors.New("it ended by itself")
		}
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
		}
	})
}

// guard turns a panic into an error, so that the process stops in order.
func (r *roots) guard(name string, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("root panicked", zap.String("root", name), zap.Any("panic", p), zap.Stack("stack"))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run(r.ctx)
}

// wait returns when all roots have ended, with what failed.
func (r *roots) wait() error {
	r.wg.Wait()
	r.cancel()
	return errors.Join(r.errs...)
}
