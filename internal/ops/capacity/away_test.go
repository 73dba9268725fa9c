package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/daemon"
	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// A reader with 50 followees, who have one post each, is refreshed, goes away and returns.
func TestTheEstimateHasTheUnitsOfARefreshAndAReturn(t *testing.T) {
	t.Parallel()
	const followees, days = 50, 14
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	store, units := metered(tabletest.NewMemory())
	out, ids := &outbox{}, id.NewGenerator(clock)
	way := access.New(access.Config{Store: store, Publisher: out, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(month), ActiveDays: days})
	f := feed.New(feed.Config{Access: way})
	homes := home.New(home.Config{Access: way, Items: f, Mutes: f})
	worker := fanout.New(fanout.Config{
		Store: store, Posts: f, Publisher: out, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(month), Writers: 8, PageSize: daemon.PageSize, ActiveDays: days,
	})
	handle := func(e messages.Event) table.Units {
		units.take()
		require.NoError(t, worker.HandleBackfills(t.Context(), e))
		return units.take()
	}
	reader := strings.Repeat("r", 36)
	var authors []string
	for i := range followees {
		authors = append(authors, fmt.Sprintf("%036d", i))
	}
	for _, user := range append(authors, reader) {
		_, err := f.PutProfile(t.Context(), user, feed.ProfileInput{Name: "N"})
		require.NoError(t, err)
	}
	for _, author := range authors {
		require.NoError(t, f.Follow(t.Context(), reader, author))
	}
	now = now.Add((days - refreshAhead) * 24 * time.Hour)
	refresh := handle(&messages.Seen{UserID: reader})
	now = now.Add((days + 1) * 24 * time.Hour)
	for _, author := range authors {
		_, err := f.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "missed"}})
		require.NoError(t, err)
	}
	_, err := homes.Home(t.Context(), reader, home.Query{}, page.Request{}) // one write: the presence becomes returning
	require.NoError(t, err)
	returned := handle(&messages.Returned{UserID: reader, V: 1})
	returned.Write++

	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay, l.TimelineDays, l.ActiveDays = 1, followees, 1/30., 30, days
	l.AwayShare, l.ReturnsPerDay = 1e-12, 0
	got := awayRow(l)
	assert.InDelta(t, refresh.Write, got.Writes*refreshAhead, 1e-6, "writes of a refresh")
	assert.InDelta(t, refresh.Read, got.Reads*refreshAhead, 1e-6, "reads of a refresh")
	l.AwayShare, l.ReturnsPerDay = 1, 1
	got = awayRow(l)
	assert.InDelta(t, returned.Write, got.Writes, 1e-6, "writes of a return")
	assert.InDelta(t, returned.Read, got.Reads, 1e-6, "reads of a return")
}

func TestTheEstimateHasTheEntriesOfAReturn(t *testing.T) {
	t.Parallel()
	for _, followees := range []int{1, 100, 101, 500} {
		assert.InDelta(t, float64(fanout.ReturnPosts(followees)), returnEntries(float64(followees)), 0)
	}
}

func TestAwayAndPulledSharesTakeTheirPartOfTheDeliveries(t *testing.T) {
	t.Parallel()
	l := small()
	before := estimate(t, l)
	l.AwayShare, l.PulledShare, l.ReturnsPerDay = 0.4, 0.25, 0.1
	after := estimate(t, l)
	fanOut, homes, away := row(t, after, "fan-out"), row(t, after, "homes"), row(t, after, "away")
	// 1,000 users have 100 followers and 100 followees each, and make 2 posts a day.
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"fan-out writes", fanOut.Writes, 1500*(100+2) - 1500*100*0.4},
		{"fan-out reads", fanOut.Reads, 1500 * (2 + 3)},
		{"homes reads", homes.Reads, 10_000 * (42 + 5)}, // a quarter of 200 posts, from 5 authors with 10 posts each
		{"away writes", away.Writes, 600/7.*102 + 40*(100+3+50)},
		{"away reads", away.Reads, 600/7.*(1+4) + 40*(1+8+100)},
		{"away messages", away.Messages, 600/7. + 40},
		{"away requests", away.Requests, 3 * (600/7. + 40)},
		{"stored", fanOut.Stored, (1500*396*61 + 1500*100*0.6*30*226 + 1000*100*435) / 1e9},
		{"messages", after.Total.Messages - before.Total.Messages, 600/7. + 40},
	} {
		assert.Truef(t, near(tt.got, tt.want), "%s = %v, want %v", tt.what, tt.got, tt.want)
	}
}
