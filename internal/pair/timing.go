package pair

import "time"

// Timing is the time that a pair waits. Each machine compares only times of its own clock.
type Timing struct {
	// Heartbeat is the time between two heartbeats of the primary.
	Heartbeat time.Duration
	// Patience is the time that a write waits for the standby before its caller gets an error.
	Patience time.Duration
	// Lease is the duration of a promise: for this time the standby does not serve.
	Lease time.Duration
	// Now is the clock, which also runs while the machine sleeps; the time since the boot if nil.
	Now func() time.Duration
}

// aloneLeases is the number of leases for which the register's promise holds, so that a slow store stops nobody (P12).
const aloneLeases = 5

// aloneLease is the duration of the register's promise to a primary that is not paired.
func (t Timing) aloneLease() time.Duration { return aloneLeases * t.Lease }

// outlastAlone returns a duration that has passed on this machine only if aloneLease has passed on the other machine.
func (t Timing) outlastAlone() time.Duration { return aloneLeases * t.outlast() }

// outlast returns a duration that has passed on this machine only if Lease has passed on the other machine.
func (t Timing) outlast() time.Duration { return t.Lease + t.Lease/20 }

// with returns the timing with a lease that is at least as long as a lease in milliseconds, which an earlier promise may have had.
func (t Timing) with(lease int64) Timing {
	t.Lease = max(t.Lease, milliseconds(lease))
	return t
}

// milliseconds returns a number of milliseconds as a duration.
func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
