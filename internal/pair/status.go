package pair

import (
	"strconv"
	"time"

	"fanfare/internal/stream"
)

// Status is the state of a machine of a pair. Operators get it as JSON.
type Status struct {
	Role string `json:"role"`
	Mode string `json:"mode"`
	Term uint64 `json:"term"`
	// Peer is the address of the other machine, empty if only the process knows it. Connected reports whether there is a
	// session with the other machine.
	Peer      string `json:"peer"`
	Connected bool   `json:"connected"`
	// Reason is why there is no session, or why the stores of the standby cannot take the stream at the moment; empty if unknown.
	Reason string `json:"reason,omitempty"`
	// Joining reports whether answers of a primary already wait for a standby with which it is not paired yet.
	Joining bool `json:"joining"`
	// Lag is about the number of bytes that the standby has not confirmed, or not applied.
	Lag int64 `json:"lag_bytes"`
	// Ack is the time between the last answered heartbeat and its answer.
	Ack Millis `json:"ack_ms"`
	// Promise is the rest of the present promise.
	Promise Millis `json:"promise_ms"`
	// Seeded and SeedSize are the progress of a seed in bytes; 0 without a seed.
	Seeded   int64 `json:"seeded_bytes"`
	SeedSize int64 `json:"seed_bytes"`
	// AloneFor is the time for which the primary has been alone by now, and AloneTotal the whole time in which this
	// process was alone.
	AloneFor   Millis        `json:"alone_ms"`
	AloneTotal time.Duration `json:"-"`
	// Register is the newest entry of the register that this machine knows, nil before the first answer.
	Register *Registered `json:"register,omitempty"`
	// At is the place up to which the standby's disk has the stream.
	At stream.Position `json:"-"`
}

// Registered is an entry of the register, as operators get it.
type Registered struct {
	Term uint64 `json:"term"`
	// Primary and Standby are the disks of the machines. Standby is empty if Mode is alone.
	Primary string `json:"primary"`
	Standby string `json:"standby,omitempty"`
	Mode    string `json:"mode"`
	// Since is the time of the last change by the clock of its writer. Age is the time since the register last answered.
	Since time.Time `json:"since"`
	Age   Millis    `json:"age_ms"`
}

// registered returns the entry for operators.
func (e Entry) registered(age time.Duration) *Registered {
	return &Registered{Term: e.Term, Primary: e.Primary, Standby: e.Standby, Mode: e.Mode, Since: time.UnixMilli(e.Since).UTC(), Age: Millis{age}}
}

// Millis is a duration that is a whole number of milliseconds in JSON.
type Millis struct{ time.Duration }

// MarshalJSON implements json.Marshaler.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, m.Milliseconds(), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Millis) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	m.Duration = time.Duration(n) * time.Millisecond
	return err
}
