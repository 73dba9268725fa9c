package pair

import (
	"time"

	"golang.org/x/sys/unix"
)

// withClock returns the timing with a clock.
func (t Timing) withClock() Timing {
	if t.Now != nil {
		return t
	}
	start := time.Now()
	t.Now = func() time.Duration {
		var at unix.Timespec
		if err := unix.ClockGettime(runningClock, &at); err != nil {
			return time.Since(start) // a system without the clock never has it
		}
		return time.Duration(at.Nano())
	}
	return t
}
