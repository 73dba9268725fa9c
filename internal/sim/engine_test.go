package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// checkDiskFaults fails a run of seeds on the embedded engine if a kind of fault of the disk never
// occurred.
func checkDiskFaults(t *testing.T, fired Counters) {
	t.Helper()
	for _, kind := range DiskFaults() {
		assert.Positivef(t, fired[kind], "the fault %q never fired in %d seeds", kind, *seeds)
	}
}

// TestSeedsOnTheEmbeddedEngine runs the seeds on the real stores: no answered write is lost,
// whatever the disk does.
func TestSeedsOnTheEmbeddedEngine(t *testing.T) {
	last := uint64(30)
	if testing.Short() {
		last = 2
	}
	for seed := uint64(1); seed <= last; seed++ {
		res := Run(t, seed, Options{Embedded: true})
		for _, v := range res.Violations {
			t.Errorf("%s: %s; replay with -embedded", res, v)
		}
	}
}
