package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Kind says what a caller can do about an Error.
type Kind uint8

// The kinds of error.
const (
	// NotFound: there is no such thing, or not any more.
	NotFound Kind = iota + 1
	// Forbidden: it is somebody else's.
	Forbidden
	// Invalid: Fields are outside the domain.
	Invalid
	// Malformed: the cursor was changed or belongs to another list.
	Malformed
	// ProfileMissing: the user must make a profile before it writes.
	ProfileMissing
	// IndexOff: the list needs the index of likes by user, which is off.
	IndexOff
	// Unavailable: try again after RetryAfter. The outcome of a write may be
	// unknown; all of them may be repeated.
	Unavailable
)

func (k Kind) String() string {
	switch k {
	case NotFound:
		return "not found"
	case Forbidden:
		return "forbidden"
	case Invalid:
		return "invalid"
	case Malformed:
		return "malformed cursor"
	case ProfileMissing:
		return "profile missing"
	case IndexOff:
		return "index off"
	case Unavailable:
		return "unavailable"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is every failure that a caller decides on. Any other error of this package
// is a defect: of the code, or of what is stored.
type Error struct {
	Kind Kind
	// Detail says to a person what is wrong and what to do.
	Detail string
	// Fields names each bad field of an Invalid.
	Fields []FieldError
	// RetryAfter is how long to wait before another try of an Unavailable.
	RetryAfter time.Duration
	// Err is the cause, if there is one. It is for logs, not for users.
	Err error
}

// FieldError says what is wrong with one field, by its name in the API (docs/openapi.json).
type FieldError struct{ Field, Detail string }

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "feed: %s: %s", e.Kind, e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Field, f.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// retryAfter is short: what it waits for is a queue or a table that comes back, or
// a moment with fewer conflicts.
const retryAfter = time.Second

func notFound(format string, args ...any) error {
	return &Error{Kind: NotFound, Detail: fmt.Sprintf(format, args...)}
}

func forbidden(detail string) error { return &Error{Kind: Forbidden, Detail: detail} }

func profileMissing(user string) error {
	return &Error{Kind: ProfileMissing, Detail: fmt.Sprintf("user %s has no profile yet: make one first (PUT /v1/me)", user)}
}

// unavailable wraps a failed call to the table or the queue. A defect stays what it
// is: to repeat it is of no use. The port says that of all other errors the outcome
// is unknown, so they are worth another try.
func unavailable(what string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	_, isInvalid := errors.AsType[*table.InvalidError](err)
	_, isParse := errors.AsType[*schema.ParseError](err)
	_, isPanic := errors.AsType[*panics.Error](err)
	if isInvalid || isParse || isPanic {
		return fmt.Errorf("feed: %s: %w", what, err)
	}
	return &Error{Kind: Unavailable, Detail: "the " + what + " did not answer in time: try again", RetryAfter: retryAfter, Err: err}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
