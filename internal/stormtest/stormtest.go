// Package stormtest bounds the tests that repeat one check: over seeds, and over planted bugs. A run of the inner loop,
// which is go test -short, draws a fifth of the seeds, and only checks that each planted bug still fits the product. A
// whole run does everything. go test without -short is whole. With -short, the environment variable WholeEnv makes a
// run whole unless it has the race detector: make test-all sets the variable, and runs the storms with and without the
// detector.
//
// The product must never import the package.
package stormtest

import (
	"os"
	"testing"
)

// WholeEnv is the environment variable that makes a run with -short and without the race detector whole, whatever its value.
const WholeEnv = "TEST_WHOLE"

// share is the part of the seeds that the inner loop draws.
const share = 5

// Whole reports whether this run does everything.
func Whole() bool { return !testing.Short() || !raceDetector && os.Getenv(WholeEnv) != "" }

// Runs returns how many of n seeds this run draws, at least one.
func Runs(n int) int {
	if Whole() {
		return n
	}
	return (n + share - 1) / share
}
