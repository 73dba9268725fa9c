package stormtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheInnerLoopDrawsAFifth(t *testing.T) {
	t.Setenv(WholeEnv, "")
	if testing.Short() {
		assert.False(t, Whole())
		assert.Equal(t, []int{0, 1, 1, 2, 10}, []int{Runs(0), Runs(1), Runs(5), Runs(6), Runs(50)})
	}
	t.Setenv(WholeEnv, "1")
	if testing.Short() && raceDetector {
		assert.Equal(t, 10, Runs(50), "the run without the detector draws all seeds")
		return
	}
	assert.True(t, Whole())
	assert.Equal(t, []int{0, 1, 50}, []int{Runs(0), Runs(1), Runs(50)})
}
