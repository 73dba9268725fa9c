// Package panics turns a panic into an error. recover works only on its own goroutine, and a panic
// without a recover ends the process. So code that starts goroutines for one request or message runs
// each goroutine through Catch: then a panic fails only that request or message.
//
// Package panics must never decide how to handle the error, which is returned like all errors. A
// goroutine whose state would be wrong after a panic must not use package panics.
package panics

import (
	"context"
	"fmt"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"fanfare/internal/invariants"
)

// Error is a panic that was caught. An Error is always a defect of the code.
type Error struct {
	Value any
	// Stack is the stack of the goroutine that panicked, for logs.
	Stack string
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch runs f and returns its error. If f panics, Catch returns an *Error.
func Catch(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if v, ok := p.(*invariants.Violation); ok {
				panic(v) // a failed assertion ends the test or the simulation
			}
			err = &Error{Value: p, Stack: string(debug.Stack())}
		}
	}()
	return f()
}

// All runs works concurrently and returns the first error, which ends the context of all works. All
// turns a panic into an error, because the caller's recover does not catch panics of other goroutines.
func All(ctx context.Context, works ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, work := range works {
		g.Go(func() error { return Catch(func() error { return work(ctx) }) })
	}
	return g.Wait()
}
