package httpapi_test

import (
	"os"
	"runtime"
	"testing"
)

// TestMain keeps the tests on one thread: timers of a bubble share one context of the race
// detector (runtime/time.go, unlockAndRun), and two of them run at once by two threads end the
// process.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
