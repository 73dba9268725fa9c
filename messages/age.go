package messages

import (
	"fmt"
	"time"

	"fanfare/internal/id"
)

// MaxAge is the largest age, by the time of its id, at which a consumer applies an event
// and a redrive sends it again. The guards against a second application only have to live
// longer than MaxAge; docs/LIKES.md names the guards of likes.
const MaxAge = 30 * 24 * time.Hour

// MaxAhead bounds how far the id of an event, or of its post, may be ahead of a
// consumer's clock. An event from further ahead waits.
const MaxAhead = 5 * time.Minute

// MaxWait bounds how long an event from further ahead waits until it is due. It is below
// the 14 days for which SQS keeps a message.
const MaxWait = 24 * time.Hour

// EarlyError postpones an event whose id is further ahead of the consumer's clock than
// MaxAhead. Either clock may be wrong, and time mends both, so the message is
// redelivered.
type EarlyError struct {
	Reason string
	// Wait is the time until the event is due by the consumer's clock.
	Wait time.Duration
}

func (e *EarlyError) Error() string { return "message came too early: " + e.Reason }

// CheckAge refuses an event by the time of its id. An event that is further ahead than
// MaxAhead is an *EarlyError. An event that is older than MaxAge, or would have to wait for
// longer than MaxWait, is a *PermanentError.
func CheckAge(e Event, now time.Time) error {
	return CheckIDAge("event_id", e.Head().EventID, now)
}

// CheckIDAge is CheckAge for any id that an event carries.
func CheckIDAge(field, ulid string, now time.Time) error {
	at, err := id.Time(ulid)
	wait := at.Sub(now) - MaxAhead
	switch {
	case err != nil:
		return Permanent(ReasonUnreadable, "%s: %v", field, err)
	case now.Sub(at) > MaxAge:
		return Permanent(ReasonTooOld, "%s is of %s: older than %s, it can no longer be applied", field, at.Format(time.RFC3339), MaxAge)
	case wait > MaxWait:
		return Permanent(ReasonFarAhead, "%s is of %s: more than %s ahead of the clock", field, at.Format(time.RFC3339), MaxAhead+MaxWait)
	case wait > 0:
		return &EarlyError{fmt.Sprintf("%s is of %s: more than %s ahead of the clock", field, at.Format(time.RFC3339), MaxAhead), wait}
	}
	return nil
}
