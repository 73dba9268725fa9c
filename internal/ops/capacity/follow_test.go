package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// A reader follows an author with a number of posts of 280 characters, and unfollows the author.
func TestTheEstimateHasTheUnitsOfAFollowAndItsBackfill(t *testing.T) {
	t.Parallel()
	for _, posts := range []int{0, 1, 30, 100, 150} {
		t.Run(fmt.Sprint(posts), func(t *testing.T) { holdFollow(t, posts) })
	}
}

func holdFollow(t *testing.T, posts int) {
	t.Helper()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	store, units := metered(tabletest.NewMemory())
	out, ids := &outbox{}, id.NewGenerator(clock)
	f := feed.New(feed.Config{Access: access.New(access.Config{Store: store, Publisher: out, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(month), ActiveDays: 14})})
	worker := fanout.New(fanout.Config{
		Store: store, Posts: f, Publisher: out, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(month), Writers: 1, PageSize: daemon.PageSize, ActiveDays: 14,
	})
	reader, author, first := strings.Repeat("r", 36), strings.Repeat("a", 36), strings.Repeat("f", 36)
	for _, user := range []string{reader, author, first} {
		_, err := f.PutProfile(t.Context(), user, feed.ProfileInput{Name: strings.Repeat("n", 20), ImageURL: "https://example.org/" + strings.Repeat("i", 40)})
		require.NoError(t, err)
	}
	for range posts {
		_, err := f.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: strings.Repeat("x", 280)}})
		require.NoError(t, err)
		now = now.Add(time.Second)
	}
	require.NoError(t, f.Follow(t.Context(), reader, first)) // the first follow of a reader costs more
	units.take()
	out.queued = nil
	require.NoError(t, f.Follow(t.Context(), reader, author))
	api := units.take()
	require.Len(t, out.queued, 1, "messages of a follow")
	event, err := messages.Decode(out.queued[0].Payload)
	require.NoError(t, err)
	require.NoError(t, worker.HandleBackfills(t.Context(), event))
	backfill := units.take()

	e := one(t, func(l *Load) { l.FollowsPerDay, l.PostsPerDay, l.TimelineDays = 1, float64(posts)/30, 30 })
	follow := row(t, e, "follows")
	assert.InDelta(t, api.Write+backfill.Write, follow.Writes, 1e-9, "writes")
	assert.InDelta(t, api.Read+backfill.Read, follow.Reads, 1e-9, "reads")
	assert.InDelta(t, 1, follow.Messages, 0)

	out.queued = nil
	require.NoError(t, f.Unfollow(t.Context(), reader, author))
	e = one(t, func(l *Load) { l.UnfollowsPerDay = 1 })
	assert.InDelta(t, float64(len(out.queued)), row(t, e, "unfollows").Messages, 0, "messages of an unfollow")
}

func TestTheEstimateHasTheMessageOfADeletion(t *testing.T) {
	t.Parallel()
	out, ids := &outbox{}, id.NewGenerator(time.Now)
	store, units := metered(tabletest.NewMemory())
	f := feed.New(feed.Config{Access: access.New(access.Config{Store: store, Publisher: out, IDs: ids, Now: time.Now, Lifetimes: lifetime.Fixed(month)})})
	_, err := f.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	post, err := f.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
	require.NoError(t, err)
	units.take()
	out.queued, out.sends = nil, 0
	require.NoError(t, f.DeletePost(t.Context(), "ann", post.ID))
	deletion := units.take()
	e := one(t, func(l *Load) { l.PostsPerDay, l.DeletedShare = 1, 1 })
	deletes := row(t, e, "deletes")
	assert.InDelta(t, deletion.Write, deletes.Writes, 0)
	assert.InDelta(t, deletion.Read, deletes.Reads, 0)
	assert.InDelta(t, float64(out.sends+2*len(out.queued)), deletes.Requests, 0)
	assert.InDelta(t, float64(len(out.queued)), deletes.Messages, 0)
}
