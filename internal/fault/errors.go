// Package fault has the failures of the domain on which a caller decides. Each has a kind, by
// the caller's next step, and a sentence for users.
//
// It must never choose an HTTP status, and never make a defect Unavailable, because no
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

// Kind is the class of an Error, by the caller's next step.
type Kind uint8

// The kinds of error.
const (
	// NotFound: the thing does not exist, or was deleted.
	NotFound Kind = iota + 1
	// Forbidden: the thing belongs to another user.
	Forbidden
	// Invalid: Fields are outside the domain.
	Invalid
	// Malformed: the cursor was changed or belongs to another list.
	Malformed
	// ProfileMissing: the user must make a profile before the first write.
	ProfileMissing
	// FollowingLimit: the user follows as many users as allowed.
	FollowingLimit
	// MuteLimit: the user mutes as many users as allowed.
	MuteLimit
	// BookmarkLimit: the user has as many bookmarks as allowed.
	BookmarkLimit
	// MarkerLimit: the user has as many read markers as allowed.
	MarkerLimit
	// Blocked: there is a block between the two users.
	Blocked
	// IndexOff: the list needs the index of likes by user, which is switched off.
	IndexOff
	// NotificationsOff: the call is about notifications, which are switched off.
	NotificationsOff
	// TooSoon: the call is allowed only once in a while and was made recently, or the user's calls of this
	// hour have caused all allowed units. It may be repeated after RetryAfter.
	TooSoon
	// Unavailable: retry after RetryAfter. The outcome of a write may be unknown, but
	// every write may be repeated.
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
	case FollowingLimit:
		return "following limit"
	case MuteLimit:
		return "mute limit"
	case BookmarkLimit:
		return "bookmark limit"
	case MarkerLimit:
		return "marker limit"
	case Blocked:
		return "blocked"
	case IndexOff:
		return "index off"
	case NotificationsOff:
		return "notifications off"
	case TooSoon:
		return "too soon"
	case Unavailable:
		return "unavailable"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is a failure that a caller can act on. Any other error of this package is a
// defect of the code or of the stored data.
type Error struct {
	Kind Kind
	// Detail is a sentence for users: the fault, and its remedy.
	Detail string
	// Fields names each faulty field of an Invalid.
	Fields []FieldError
	// RetryAfter is the wait before a retry of an Unavailable or a TooSoon.
	RetryAfter time.Duration
	// Err is the cause, if there is one. It is for logs, not for users.
	Err error
}

// FieldError is the fault of one field. Field is its name in the API (docs/openapi.json).
type FieldError struct{ Field, Detail string }

func (e *Error) Error() string {
	if _, named := errors.AsType[interface {
		error
		Unavailable()
	}](e.Err); named && e.Kind == Unavailable {
		return "feed: " + e.Err.Error() // it names the failure of the table or the queue, and the detail only repeats it
	}
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

// RetryAfter is short because a queue or a table recovers, or conflicts end, within
// moments.
const RetryAfter = time.Second

// NotFoundf returns a NotFound.
func NotFoundf(format string, args ...any) error {
	return &Error{Kind: NotFound, Detail: fmt.Sprintf(format, args...)}
}

// NotYours returns a Forbidden.
func NotYours(detail string) error { return &Error{Kind: Forbidden, Detail: detail} }

// NoProfile returns a ProfileMissing.
func NoProfile(user string) error {
	return &Error{Kind: ProfileMissing, Detail: fmt.Sprintf("user %s has no profile yet: make one first (PUT /v1/me)", user)}
}

// Wrap wraps a failed call to the table or the queue. It does not make a defect
// Unavailable, since no retry mends a defect. By the contract of the ports, any other
// error leaves the outcome unknown, so a retry makes sense.
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

// BlockedBy is the refusal of a follow, a comment or a like between two users.
func BlockedBy(other string) error {
	return &Error{Kind: Blocked, Detail: fmt.Sprintf("there is a block between you and user %s", other)}
}
