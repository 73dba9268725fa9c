package capacity

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A new notification costs two write units, and a notification that moves costs three. If notifications are
// off, they cost nothing. The design's network of ten million users needs 100 to 150 million units a day.
func TestNotificationsCostTwoOrThreeWritesAWindow(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.Users, l.CommentsPerDay, l.FollowsPerDay, l.UnfollowsPerDay = 1e7, 0, 0, 0
	for _, r := range estimate(t, l).Rows {
		assert.NotContains(t, []string{"notifications", "notifications: pages", "streams: unread", "reactions"}, r.Name, "off by default")
	}
	off := estimate(t, l)
	l.Notifications, l.Streams = true, 0.01
	for fresh, want := range map[float64]float64{1: 1e8, 0: 1.5e8} {
		l.NewNotices = fresh
		e := estimate(t, l)
		assert.InDelta(t, want, row(t, e, "notifications").Writes, 1)
		assert.InDelta(t, 1.75e8, row(t, e, "notifications").Reads, 1, "three for a window, and half a unit for an actor")
		assert.InDelta(t, 1.5e8, row(t, e, "notifications").Requests, 1, "each action alone")
		assert.InDelta(t, 1e7*37.5, row(t, e, "notifications: pages").Reads, 1)
		assert.InDelta(t, 1e7, row(t, e, "notifications: pages").Writes, 1)
		assert.InDelta(t, 1e5*0.025*secondsADay, row(t, e, "streams: unread").Reads, 1)
		assert.Greater(t, line(t, e, "queues"), line(t, off, "queues"), "the notifier's queue idles, too")
	}
	l.NewNotices, l.NoticesAWindow = 0, 100
	assert.InDelta(t, 1.5e6, row(t, estimate(t, l), "notifications").Writes, 1)
	assert.InDelta(t, 1.5e7, row(t, estimate(t, l), "notifications").Requests, 1, "in tens")
}

// A reaction of any kind costs as much as a like.
func TestAReactionCostsWhatALikeCosts(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.ReactionsPerDay = l.LikesPerDay
	e := estimate(t, l)
	likes, reactions := row(t, e, "likes"), row(t, e, "reactions")
	likes.Name = reactions.Name
	assert.Equal(t, likes, reactions)
}
