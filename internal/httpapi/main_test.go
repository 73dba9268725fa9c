package httpapi_test

import (
	"os"
	"runtime"
	"testing"
)

// TestMain keeps the tests on one thread. All timers of a bubble share one context of the race detector
// (runtime/time.go, unlockAndRun), and the process ends if two threads run two of these timers at once.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
