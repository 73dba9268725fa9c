package messages

import "fmt"

// Reason is the kind of a dead letter. A dead letter's reason is a sentence for people that
// contains the kind. docs/OPERATIONS.md has the cause and the cure of each kind.
type Reason string

// The reasons of messages that no consumer can ever process, as in a PermanentError.
const (
	ReasonUnreadable  Reason = "it cannot be read"
	ReasonUnknown     Reason = "its type or version is unknown"
	ReasonTooOld      Reason = "it is too old"
	ReasonFarAhead    Reason = "it is too far ahead"
	ReasonWrongTopic  Reason = "it does not belong on this topic"
	ReasonRefused     Reason = "its values are refused"
	ReasonNoPost      Reason = "there is no post"
	ReasonOtherAuthor Reason = "the post is of another author"
	ReasonNoChunk     Reason = "there is no chunk"
)

// The reasons of messages whose work failed too often.
const (
	ReasonAttempts Reason = "too many attempts"
	ReasonUnsent   Reason = "the work is done, but its event was not sent"
	ReasonReceived Reason = "received too often"
	ReasonCrashed  Reason = "the process died too often"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		ReasonUnreadable, ReasonUnknown, ReasonTooOld, ReasonFarAhead, ReasonWrongTopic, ReasonRefused,
		ReasonNoPost, ReasonOtherAuthor, ReasonNoChunk, ReasonAttempts, ReasonUnsent, ReasonReceived, ReasonCrashed,
	}
}

// Because returns the sentence of a dead letter with this reason.
func (r Reason) Because(format string, args ...any) string {
	return string(r) + ": " + fmt.Sprintf(format, args...)
}

// PermanentError refuses an event if no redelivery can help. The consumer sends the event
// to the dead-letter queue.
type PermanentError struct {
	Reason Reason
	// Detail names the refused values.
	Detail string
}

// Permanent returns a *PermanentError.
func Permanent(r Reason, format string, args ...any) error {
	return &PermanentError{r, fmt.Sprintf(format, args...)}
}

func (e *PermanentError) Error() string {
	return "message can never be processed: " + e.Reason.Because("%s", e.Detail)
}
