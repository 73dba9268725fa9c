//go:build !linux

package pair

import "golang.org/x/sys/unix"

// runningClock is a clock that also runs while the machine sleeps.
const runningClock = unix.CLOCK_MONOTONIC
