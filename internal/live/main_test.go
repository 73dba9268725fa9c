package live_test

import (
	"os"
	"runtime"
	"testing"
)

// TestMain keeps the tests on one thread. The timers of a bubble share one context of the race
// detector (runtime/time.go, unlockAndRun). If two threads run two such timers at once, the process
// ends.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
