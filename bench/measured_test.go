package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/capacity"
)

// likeFlow is the like flow of an estimate: likes of one day, m of them in a window.
func likeFlow(likes, m float64) capacity.Flow {
	l := capacity.DefaultLoad()
	l.Users, l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay, l.LikesAWindow, l.LikesByUser = 1, 0, 0, likes, m, false
	flows := capacity.New(l, capacity.DefaultPrices()).Push.Flows
	return flows[len(flows)-1]
}

// The estimate has the units that an aggregator uses. The reads of the API are an
// access pattern, which the tests of capacity compare.
func TestTheEstimateHasTheUnitsOfLikes(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	for _, perWindow := range []int{1, 10} {
		e := &env{dir: t.TempDir(), id: "test"}
		run, err := e.countLikes(t.Context(), 10*perWindow, perWindow)
		require.NoError(t, err)
		likes := float64(run.likes)
		f := likeFlow(likes, likes/float64(run.windows))
		api := likeFlow(likes, math.MaxFloat64).RCU // no window is left that reads
		if f.Name != "likes" || !near(f.WCU, run.units.Write) || !near(f.RCU-api, run.units.Read) {
			t.Errorf("%d likes: the estimate of %s has %v WCU and %v RCU beside the API's; %d windows cost %+v",
				run.likes, f.Name, f.WCU, f.RCU-api, run.windows, run.units)
		}
	}
}
