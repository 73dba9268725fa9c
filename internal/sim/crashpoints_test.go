package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/schema"
)

// TestACallIsNamedByItsPartition checks the names of crash points against the product's keys.
func TestACallIsNamedByItsPartition(t *testing.T) {
	for pk, want := range map[string]string{
		schema.UserPK("a"):                   "user",
		schema.FollowersPK("a"):              "follower",
		schema.FollowingPK("a-home"):         "following",
		schema.PostsPK("a"):                  "post",
		schema.TimelinePK("a"):               "timeline",
		schema.MarksPK("a"):                  "home",
		schema.UserCommentsPK("a"):           "comment",
		schema.UserLikesPK("a"):              "like",
		schema.CommentsPK(postID):            "comment",
		schema.LikesPK(postID, 0, 1):         "likelist",
		schema.LikesPK(postID, 1, 2):         "likelist",
		schema.LikeCountKey(postID).PK:       "likecount",
		schema.DeliveryPK(postID):            "delivery",
		schema.PostByIDKey(postID).PK:        "post by id",
		schema.IdempotencyKey("a", "key").PK: "idempotency",
		schema.LikeEndKey("inc").PK:          "like end",
	} {
		assert.Equal(t, "get "+want, class("get", pk), pk)
	}
	assert.Subset(t, crashPoints(), rarePoints())
}

// TestSeedsAimAtEachCrashPoint counts the points that the seeds of two runs aim at. There are about
// 130 points, each before and after the effect, so 6,000 aims make about 18 aims at each.
func TestSeedsAimAtEachCrashPoint(t *testing.T) {
	aimed := map[target]int{}
	for seed := uint64(1); seed <= 2000; seed++ {
		w := newWorld(seed, plain())
		w.aim()
		for _, at := range w.targets {
			at.skip = 0
			aimed[at]++
		}
	}
	for _, point := range crashPoints() {
		for _, after := range []bool{false, true} {
			assert.GreaterOrEqual(t, aimed[target{point, 0, after}], 18, point)
		}
	}
	for _, point := range rarePoints() {
		for _, after := range []bool{false, true} {
			assert.GreaterOrEqual(t, aimed[target{point, 0, after}], 70, point)
		}
	}
}
