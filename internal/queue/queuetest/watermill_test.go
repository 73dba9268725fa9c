package queuetest_test

import (
	"testing"

	"fanfare/internal/queue/queuetest"
)

func TestWatermillSkipsAreTheCommittedOnes(t *testing.T) {
	t.Parallel()
	queuetest.CheckWatermillSkips(t, "testdata/watermill-skipped.txt")
}
