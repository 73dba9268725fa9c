// Package fault has the failures of the domain to which a caller can react. Each failure has a kind,
// which decides the caller's next step, and a sentence for users.
//
// Package fault must never choose an HTTP status, and never make a defect Unavailable, because no
// retry mends a defect.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Kind is the class of an Error. The kind decides the caller's next step.
type Kind uint8

// These constants are the kinds of errors.
const (
	// NotFound means that the requested record does not exist, or was deleted.
	NotFound Kind = iota + 1
	// Forbidden means that the record belongs to another user.
	Forbidden
	// Invalid means that the values in Fields are outside the limits of the domain.
	Invalid
	// Malformed means that the cursor was changed or belongs to another list.
	Malformed
	// ProfileMissing means that the user must make a profile before the first write.
	ProfileMissing
	// Limit means that the user has as many things of the sort Of as allowed.
	Limit
	// Blocked means that a block exists between the two users.
	Blocked
	// IsRepost means that the call is for posts with content of their own, and the named post is a repost.
	IsRepost
	// IndexOff means that the list needs the index of likes by user, which is switched off.
	IndexOff
	// NotificationsOff means that the call is about notifications, which are switched off.
	NotificationsOff
	// EventsOff means that the call is about the log of events, which is switched off or which this engine does not have.
	EventsOff
	// EventsGone means that the reader of the log of events has missed events, because they were removed.
	EventsGone
	// TooSoon means that the call was made too recently, or that the user's calls of this hour have caused
	// all allowed units. The call may be repeated after RetryAfter.
	TooSoon
	// Unavailable means that the caller should retry after RetryAfter. The outcome of a write may be
	// unknown, but every write may be repeated.
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
	case Limit:
		return "limit"
	case Blocked:
		return "blocked"
	case IsRepost:
		return "is a repost"
	case IndexOff:
		return "index off"
	case NotificationsOff:
		return "notifications off"
	case EventsOff:
		return "events off"
	case EventsGone:
		return "events gone"
	case TooSoon:
		return "too soon"
	case Unavailable:
		return "unavailable"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is a failure to which a caller can react. Any other error of the domain is a defect of the
// code or of the stored data.
type Error struct {
	Kind Kind
	// Of is the sort of things of a Limit error, such as "bookmark".
	Of string
	// Detail is a sentence for users: the fault, and its remedy.
	Detail string
	// Fields names each faulty field of an Invalid error.
	Fields []FieldError
	// RetryAfter is the wait before a retry of an Unavailable or TooSoon error.
	RetryAfter time.Duration
	// Err is the cause of the error, or nil. Err is for logs, not for users.
	Err error
}

// FieldError is the fault of one field. Field is the name of the field in the API (docs/openapi.json).
type FieldError struct{ Field, Detail string }

func (e *Error) Error() string {
	if _, named := errors.AsType[interface {
		error
		Unavailable()
	}](e.Err); named && e.Kind == Unavailable {
		return "feed: " + e.Err.Error() // Err names the failure of the table or the queue, and Detail would only repeat it
	}
	var b strings.Builder
	b.WriteString("feed: ")
	if e.Of != "" {
		b.WriteString(e.Of + " ")
	}
	fmt.Fprintf(&b, "%s: %s", e.Kind, e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Field, f.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// RetryAfter is short because a queue or a table recovers within moments, and conflicts end within
// moments.
const RetryAfter = time.Second

// NotFoundf returns a NotFound error.
func NotFoundf(format string, args ...any) error {
	return &Error{Kind: NotFound, Detail: fmt.Sprintf(format, args...)}
}

// NotYours returns a Forbidden error.
func NotYours(detail string) error { return &Error{Kind: Forbidden, Detail: detail} }

// NoProfile returns a ProfileMissing error.
func NoProfile(user string) error {
	return &Error{Kind: ProfileMissing, Detail: fmt.Sprintf("user %s has no profile yet: make one first (PUT /v1/me)", user)}
}

// Wrap wraps a failed call to the table or the queue. Wrap does not make a defect Unavailable, because
// no retry mends a defect. By the contract of the ports, any other error leaves the outcome unknown,
// so the caller should retry.
func Wrap(what string, err error) error {
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
	detail := "the " + what + " did not answer in time: try again"
	if away, ok := errors.AsType[*table.UnavailableError](err); ok && away.Reason == table.ShortMaxOnDemand {
		detail = "the capacity that this network allows itself is used up"
	}
	return &Error{Kind: Unavailable, Detail: detail, RetryAfter: RetryAfter, Err: err}
}

// BlockedBy returns the refusal of a follow, a comment or a like between two users.
func BlockedBy(other string) error {
	return &Error{Kind: Blocked, Detail: fmt.Sprintf("there is a block between you and user %s", other)}
}
