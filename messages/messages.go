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

// Kind names the type of an event, on the wire and in logs. It is the name of the Go type.
type Kind string

// Event is a pointer to an event of this package. entries lists them.
type Event interface {
	// Head returns the part that all events share, to read and to fill.
	Head() *Header
}

// Header is the part that all events share.
type Header struct {
	// EventID is a ULID, new for each event. Its time is the event's age.
	EventID string `json:"event_id" id:"ulid"`
	// Time is the time at which the event was made, RFC 3339, UTC.
	Time time.Time `json:"time"`
	// RequestID is the id of the HTTP request that caused the event, for logs.
	RequestID string `json:"request_id,omitempty"`
}

// Head implements Event.
func (h *Header) Head() *Header { return h }
