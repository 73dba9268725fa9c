package capacity

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The estimate warns above the edge of each limit, but not at the edge.
func TestEachLimitIsWarnedOfAtItsEdge(t *testing.T) {
	t.Parallel()
	const day = secondsADay
	calm := func() (Load, Deployment) {
		l, d := DefaultLoad(), DefaultDeployment()
		l.Users, l.Followers, l.Peak = day, 0, 1
		l.PostsPerDay, l.ReadsPerDay, l.LikesPerDay, l.FollowsPerDay, l.UnfollowsPerDay, l.CommentsPerDay, l.DeletedShare = 0, 0, 0, 0, 0, 0, 0
		l.RequestsPerCPU, l.LikesPerCPU, l.DeliveriesPerCPU, l.KeyedShare = 1e9, 1e9, 1e9, 0
		return l, d
	}
	for name, tt := range map[string]struct {
		limit string
		edge  float64 // the maximum value without a warning
		set   func(l *Load, d *Deployment, value float64)
	}{
		"posts a second": {"posts by time", 5600, func(l *Load, _ *Deployment, v float64) { l.PostsPerDay = v }},
		"posts at the peak": {"posts by time", 5600, func(l *Load, _ *Deployment, v float64) {
			l.PostsPerDay, l.Peak = v/3, 3
		}},
		"api processes and a post": {"one post", 15, func(l *Load, _ *Deployment, v float64) { l.ReadsPerDay, l.RequestsPerCPU, l.Utilisation = v, 1, 1 }},
		"api processes and a user": {"likes by a user", 50, func(l *Load, _ *Deployment, v float64) { l.ReadsPerDay, l.RequestsPerCPU, l.Utilisation = v, 1, 1 }},
		"an author's followers":    {"an author's followers", 50_000, func(l *Load, _ *Deployment, v float64) { l.LargestAuthor = v }},
		"an author who is pushed below a limit": {"an author's followers", 50_000, func(l *Load, _ *Deployment, v float64) {
			l.LargestAuthor, l.PushLimit = v, 80_000
		}},
		"follows of an author": {"follows of an author", 500, func(l *Load, _ *Deployment, v float64) { l.HotFollows = v }},
		"likes of a post":      {"likes of a post", 1000, func(l *Load, _ *Deployment, v float64) { l.HotLikes = v }},
		"likes a window":       {"likes of a post", 1000, func(l *Load, _ *Deployment, v float64) { l.LikesAWindow = v }},
		"comments of a post":   {"comments of a post", 100, func(l *Load, _ *Deployment, v float64) { l.HotComments = v }},
		"likes in flight":      {"messages in flight", 40_000, func(l *Load, _ *Deployment, v float64) { l.LikesPerDay = v }},
		"failing likes":        {"messages in flight", 60_000 / 301.5, func(l *Load, _ *Deployment, v float64) { l.LikesPerDay, l.FailingShare = v, 1 }},
		"quota of writes":      {"table quota", 40_000 / 9., func(l *Load, _ *Deployment, v float64) { l.PostsPerDay, l.PulledShare = v, 1 }},
		"quota of reads":       {"table quota", 40_000 / 32.5, func(l *Load, _ *Deployment, v float64) { l.ReadsPerDay = v }},
		"quota, half used":     {"table quota", 20_000 / 32.5, func(l *Load, d *Deployment, v float64) { l.ReadsPerDay, d.Billing, d.ReadUse = v, Provisioned, 0.5 }},
		"a new table":          {"a new table", 4000 / 9., func(l *Load, _ *Deployment, v float64) { l.PostsPerDay, l.PulledShare = v, 1 }},
		"a ceiling of writes":  {"the table's ceiling", 800 / 9., func(l *Load, d *Deployment, v float64) { l.PostsPerDay, l.PulledShare, d.MaxWrite = v, 1, 1000 }},
		"a ceiling of reads":   {"the table's ceiling", 800 / 32.5, func(l *Load, d *Deployment, v float64) { l.ReadsPerDay, d.MaxRead = v, 1000 }},
		"tails of 16 tasks": {"tails of live homes", (0.7*3000/16 - 0.25) / 0.0111328125, func(l *Load, _ *Deployment, v float64) {
			l.Streams, l.PostsPerDay, l.PulledShare = 0.5, v, 1
		}},
		"live homes of 2 tasks": {"live homes of a process", 2 * 0.7 * 4096. / day, func(l *Load, _ *Deployment, v float64) { l.Streams = v }},
	} {
		t.Run(name, func(t *testing.T) {
			warned := func(value float64) bool {
				l, d := calm()
				tt.set(&l, &d, value)
				return slices.ContainsFunc(New(l, d, listed(t)).Warnings, func(w Warning) bool { return w.Limit == tt.limit })
			}
			below, above := tt.edge*(1-1e-9), tt.edge*(1+1e-6)
			if tt.edge == math.Trunc(tt.edge) && tt.edge > 0 {
				below = tt.edge
			}
			if tt.limit == "posts by time" || tt.limit == "messages in flight" { // these limits sum up fractions
				below = tt.edge * (1 - 1e-9)
			}
			assert.Falsef(t, warned(below), "at %v", below)
			assert.Truef(t, warned(above), "above %v", tt.edge)
		})
	}
}

func TestAPulledAuthorReachesNoLimitOfItsFollowers(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.LargestAuthor, l.PushLimit = 900_000, 50_000
	for _, w := range estimate(t, l).Warnings {
		assert.NotEqual(t, "an author's followers", w.Limit)
	}
}

func TestATableWithProvisionedCapacityIsNoNewOne(t *testing.T) {
	t.Parallel()
	l, d := DefaultLoad(), DefaultDeployment()
	l.Users, l.Followers, d.Billing = 1e7, 200, Provisioned
	for _, w := range New(l, d, listed(t)).Warnings {
		assert.NotEqual(t, "a new table", w.Limit)
	}
}

// If 100 million users post 14.4 times a day, they need six times the capacity of the index of posts by time.
func TestTheIndexOfPostsByTimeIsNamed(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay = 1e8, 200, 14.4
	assert.Contains(t, estimate(t, l).String(), "limit, posts by time: 50,000 posts/s at the peak; the index of posts by time takes 8,000")
}
