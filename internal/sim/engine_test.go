package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// checkDiskFaults fails a run of seeds on the embedded engine whose disk never failed in one of the ways.
func checkDiskFaults(t *testing.T, fired Counters) {
	t.Helper()
	for _, kind := range DiskFaults() {
		assert.Positivef(t, fired[kind], "the fault %q never fired in %d seeds", kind, *seeds)
	}
}

// The same seeds on the real stores: no answered write is lost, whatever happens to the disk.
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
