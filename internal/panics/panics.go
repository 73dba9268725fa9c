// Package panics makes errors of panics. A panic that nobody recovers ends the
// process, and who answers for a request or a message recovers only what happens on
// its own goroutine. So what it runs on others goes through Catch, and fails there
// like anything else that fails.
//
// It decides nothing: the error goes the way of all errors, to who answers the
// request or the message. A goroutine whose state would not be right after a panic
// must not use it.
package panics

import (
	"fmt"
	"runtime/debug"
)

// Error is a panic that was caught. It is a defect of the code.
type Error struct {
	Value any
	// Stack is that of the goroutine that panicked. It is for logs.
	Stack string
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch runs f and returns its error, or an *Error if it panics.
func Catch(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Value: p, Stack: string(debug.Stack())}
		}
	}()
	return f()
}
