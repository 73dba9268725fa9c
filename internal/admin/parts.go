package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ended is the last line of an answer in parts: the result or the error.
type ended[Out any] struct {
	Done  *Out   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// inParts makes o answer with a line of JSON for each part, and the last line. Without the last line the answer is not
// whole. of returns the function of an input that gets the parts, at any time before the operation ends.
func inParts[In, Part, Out any](o Op[In, Out], of func(*In) *func(Part) error) Op[In, Out] {
	o.stream = func(line func(any) error, in In, do func(In) (Out, error)) error {
		var mu sync.Mutex
		began := false
		*of(&in) = func(p Part) error {
			mu.Lock()
			defer mu.Unlock()
			began = true
			return line(p)
		}
		// The operation ends before the last line, because after that line the client may begin the next operation.
		done, err := do(in)
		last := ended[Out]{Done: &done}
		if err != nil {
			if _, refused := errors.AsType[*RefusalError](err); refused && !began {
				return err
			}
			last = ended[Out]{Error: err.Error()}
		}
		_ = line(last) // a failed write means that the client is gone
		return nil
	}
	o.receive = func(body io.Reader, in In) (out Out, err error) {
		for lines := json.NewDecoder(body); ; {
			var text json.RawMessage
			if err := lines.Decode(&text); err != nil {
				return out, fmt.Errorf("the answer ended before its last line: %w", err)
			}
			var last ended[Out]
			var part Part
			if err := errors.Join(json.Unmarshal(text, &last), json.Unmarshal(text, &part)); err != nil {
				return out, err
			}
			switch {
			case last.Done != nil:
				return *last.Done, nil
			case last.Error != "":
				return out, errors.New(last.Error)
			}
			if err := (*of(&in))(part); err != nil {
				return out, err
			}
		}
	}
	return o
}
