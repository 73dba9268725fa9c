package admin

import (
	"context"
	"net/http"
)

// Words describe a command.
type Words struct {
	// Use has the words of the command and its arguments. An argument in brackets may be left out.
	Use, Short, Long string
	// Embedded means that the operation exists only on the embedded engine.
	Embedded bool
	// AtAddress means that the command asks a process at its admin address on AWS, too.
	AtAddress bool
}

// Command is the command of an operation, with the flags of its params, --admin, --json and, if it asks, --yes.
type Command[In, Out any] struct {
	Words

	// Ask, if not nil, returns the question before the operation. The operation's name is the answer that confirms it.
	Ask func(context.Context, Process, In) (string, error)
	// Then, if not nil, follows the operation.
	Then func(context.Context, Process, Out) error
	// Rows or Text returns the result for people: a table or a sentence.
	Rows func(Out) [][]string
	Text func(Out) string
}

// Answer is the result of a command: JSON for programs, and for people a table of Rows or, without Rows, Text.
type Answer struct {
	JSON any
	Rows [][]string
	Text string
}

// Operation is an Op of any types.
type Operation interface {
	handle(mux *http.ServeMux, d Domain)
	// Call returns a new call by the command line.
	Call() Call
}

// Call is a call of an operation by its command. Params holds the input.
type Call struct {
	Words

	Params []Param
	Check  func() error
	// Ask returns the question before the operation, and the answer that confirms it. It is nil if the command does not ask.
	Ask func(context.Context, Process) (question, want string, err error)
	Do  func(context.Context, Process) (Answer, error)
}

// Call implements Operation.
func (o Op[In, Out]) Call() Call {
	in, c := new(In), o.Command
	call := Call{
		Words: c.Words, Params: o.params(in),
		Check: func() error { return o.check(*in) },
		Do: func(ctx context.Context, at Process) (Answer, error) {
			out, err := o.Do(ctx, at, *in)
			if err == nil && c.Then != nil {
				err = c.Then(ctx, at, out)
			}
			if err != nil {
				return Answer{}, err
			}
			return c.answer(out), nil
		},
	}
	if c.Ask != nil {
		call.Ask = func(ctx context.Context, at Process) (question, want string, err error) {
			question, err = c.Ask(ctx, at, *in)
			return question + "Type " + o.Name + ": ", o.Name, err
		}
	}
	return call
}

// answer returns the answer of a command. Programs get a table as a list of items.
func (c Command[In, Out]) answer(out Out) Answer {
	if c.Rows == nil {
		return Answer{JSON: out, Text: c.Text(out)}
	}
	return Answer{JSON: Items[Out]{out}, Rows: c.Rows(out)}
}

// Items is a list as JSON for programs.
type Items[List any] struct {
	Items List `json:"items"`
}
