package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/capacity"
)

// likeRow returns the row of likes in an estimate, for the likes of one day with m likes in a window.
func likeRow(t *testing.T, likes, m float64) capacity.Row {
	t.Helper()
	prices, err := capacity.ListPrices()
	require.NoError(t, err)
	l := capacity.DefaultLoad()
	l.Users, l.LikesPerDay, l.LikesAWindow, l.LikesByUser = 1, likes, m, false
	for _, r := range capacity.New(l, capacity.DefaultDeployment(), prices).Rows {
		if r.Name == "likes" {
			return r
		}
	}
	t.Fatal("the estimate has no row of likes")
	return capacity.Row{}
}

// The estimate has the units that an aggregator uses. The reads of the API are an access pattern, and the
// tests of package capacity compare these reads.
func TestTheEstimateHasTheUnitsOfLikes(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	for _, perWindow := range []int{1, 10} {
		e := &env{dir: t.TempDir(), id: "test"}
		run, err := e.countLikes(t.Context(), 10*perWindow, perWindow)
		require.NoError(t, err)
		likes := float64(run.likes)
		r := likeRow(t, likes, likes/float64(run.windows))
		api := likeRow(t, likes, math.MaxFloat64).Reads // without windows, only the API reads
		if !near(r.Writes, run.units.Write) || !near(r.Reads-api, run.units.Read) {
			t.Errorf("%d likes: the estimate has %v WCU and %v RCU beside the API's; %d windows cost %+v",
				run.likes, r.Writes, r.Reads-api, run.windows, run.units)
		}
	}
}
