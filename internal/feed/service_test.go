package feed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"fanfare/internal/table/tabletest"
)

func TestTheZeroValueOfASettingIsItsDefault(t *testing.T) {
	for _, zero := range []int{0, -1} {
		c := Config{
			Store: tabletest.NewMemory(), Now: time.Now,
			HeadBytes: zero, RecentPosts: zero, RemoveFrom: zero, FollowersPerLikeShard: int64(zero),
		}.withDefaults()
		assert.Equal(t, 16<<20, c.HeadBytes)
		assert.Equal(t, 100, c.RecentPosts)
		assert.Equal(t, 100, c.RemoveFrom)
		assert.Equal(t, int64(100_000), c.FollowersPerLikeShard)
		assert.Empty(t, c.RequestID(t.Context()))
		c.HeadsHeld(1)
		c.Posted()
		c.Log.Info("goes nowhere")
		random := map[float64]bool{}
		for range 100 {
			r := c.Jitter()
			assert.True(t, r >= 0 && r < 1, "%g", r)
			random[r] = true
		}
		assert.Greater(t, len(random), 90)
	}
}

func TestASettingThatIsGivenStays(t *testing.T) {
	held, posted, log := 0, 0, zap.NewExample()
	c := Config{
		Store: tabletest.NewMemory(), Now: time.Now,
		HeadBytes: 1, RecentPosts: 1, RemoveFrom: 1, FollowersPerLikeShard: 1,
		HeadsHeld: func(bytes int) { held = bytes }, Posted: func() { posted++ }, Log: log,
		Jitter: func() float64 { return 0.25 }, RequestID: func(context.Context) string { return "r1" },
	}.withDefaults()
	assert.Equal(t, []int64{1, 1, 1, 1}, []int64{int64(c.HeadBytes), int64(c.RecentPosts), int64(c.RemoveFrom), c.FollowersPerLikeShard})
	c.HeadsHeld(7)
	c.Posted()
	assert.Equal(t, 7, held)
	assert.Equal(t, 1, posted)
	assert.Same(t, log, c.Log)
	assert.InDelta(t, 0.25, c.Jitter(), 0)
	assert.Equal(t, "r1", c.RequestID(t.Context()))
}
