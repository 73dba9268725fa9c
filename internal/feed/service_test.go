package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheZeroValueOfASettingIsItsDefault(t *testing.T) {
	for _, zero := range []int{0, -1} {
		c := Config{RecentPosts: zero, FollowersPerLikeShard: int64(zero)}.withDefaults()
		assert.Equal(t, 100, c.RecentPosts)
		assert.Equal(t, int64(100_000), c.FollowersPerLikeShard)
		c.Posted()
	}
}

func TestASettingThatIsGivenStays(t *testing.T) {
	posted := 0
	c := Config{RecentPosts: 1, FollowersPerLikeShard: 1, Posted: func() { posted++ }}.withDefaults()
	assert.Equal(t, []int64{1, 1}, []int64{int64(c.RecentPosts), c.FollowersPerLikeShard})
	c.Posted()
	assert.Equal(t, 1, posted)
}
