// Package messages defines the events that Fanfare's processes and other producers
// exchange through queues: their types, their JSON, their versions.
//
// An event is one flat JSON object: type, version, event_id, time, and the
// fields of its type. The wire rules:
//
//   - Unknown fields are ignored, so that a newer producer may add fields. Otherwise the
//     JSON is strict (package strictjson): a name matches letter by letter, and occurs
//     once.
//   - An unknown type, an unknown version or a bad payload is a *PermanentError:
//     redelivery cannot help, so the consumer dead-letters it with the reason (I6).
//   - Consumers learn a new version before any producer sends it.
//   - Fields that only Fanfare's own API can fill are optional, because other
//     producers may publish PostCreated, Liked and Unliked themselves.
//   - The payload is valid UTF-8, and SQS accepts it whatever its text is: control
//     characters, U+FFFE and U+FFFF are escaped.
//
// The golden files in testdata pin the wire format. The JSON Schema files in schema
// are generated from these types. The package must never know a queue or a table.
package messages

import "time"

// Version is the schema version that this package writes, and the newest version that it
// reads.
const Version = 1

// Kind names the type of an event, on the wire and in logs.
type Kind string

// The kinds of event.
const (
	KindPostCreated    Kind = "PostCreated"
	KindLiked          Kind = "Liked"
	KindUnliked        Kind = "Unliked"
	KindReacted        Kind = "Reacted"
	KindFollowed       Kind = "Followed"
	KindUnfollowed     Kind = "Unfollowed"
	KindPostDeleted    Kind = "PostDeleted"
	KindMarkWalk       Kind = "MarkWalk"
	KindSeen           Kind = "Seen"
	KindReturned       Kind = "Returned"
	KindUserForgotten  Kind = "UserForgotten"
	KindProfileChanged Kind = "ProfileChanged"
	KindFanoutPlan     Kind = "FanoutPlan"
	KindFanoutChunk    Kind = "FanoutChunk"
	// KindPostDelivered is sent only to other programs, KindLikeCounted also to the
	// notices: see PostDelivered.
	KindPostDelivered Kind = "PostDelivered"
	KindLikeCounted   Kind = "LikeCounted"
	// KindPostTakenDown is sent only to other programs.
	KindPostTakenDown Kind = "PostTakenDown"
)

// Event is one of this package's pointer types.
type Event interface {
	Kind() Kind
	// Head returns the part that all events share, to read and to fill.
	Head() *Header
	// Group is the key of fairness: a message waits for the messages of its own group,
	// and not for messages of other groups.
	Group() string
	// check returns the errors of the fields of this type.
	check() error
}

// Header is the part that all events share.
type Header struct {
	// EventID is a ULID, new for each event. Its time is the event's age.
	EventID string `json:"event_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// Time is the time at which the event was made, RFC 3339, UTC.
	Time time.Time `json:"time"`
	// RequestID is the id of the HTTP request that caused the event, for logs.
	RequestID string `json:"request_id,omitempty"`
}

// Head implements Event.
func (h *Header) Head() *Header { return h }
