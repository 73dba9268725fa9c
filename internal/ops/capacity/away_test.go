package capacity

import (
	"fmt"
	"strings"
	"sync"
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

// A reader of 50 authors, with a post each, is refreshed, goes away and returns.
func TestTheEstimateHasTheUnitsOfARefreshAndAReturn(t *testing.T) {
	const followees, days = 50, 14
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	var mu sync.Mutex
	var units table.Units
	store := table.Measure(tabletest.NewMemory(), func(_ table.Op, u table.Units, _ error) {
		mu.Lock()
		defer mu.Unlock()
		units = units.Plus(u)
	})
	out, ids := &outbox{}, id.NewGenerator(clock)
	way := access.New(access.Config{Store: store, Publisher: out, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(month), ActiveDays: days})
	f := feed.New(feed.Config{Access: way})
	homes := home.New(home.Config{Access: way, Items: f, Mutes: f})
	worker := fanout.New(fanout.Config{
		Store: store, Posts: f, Publisher: out, IDs: ids, Now: clock, Lifetimes: lifetime.Fixed(month), Writers: 8, PageSize: daemon.PageSize, ActiveDays: days,
	})
	handle := func(e messages.Event) table.Units {
		units = table.Units{}
		require.NoError(t, worker.HandleBackfills(t.Context(), e))
		return units
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
		_, err := f.CreatePost(t.Context(), author, feed.PostInput{Text: "missed"})
		require.NoError(t, err)
	}
	_, err := homes.Home(t.Context(), reader, home.Query{}, page.Request{}) // makes the presence returning, by one write
	require.NoError(t, err)
	returned := handle(&messages.Returned{UserID: reader, V: 1})
	returned.Write++

	l := DefaultLoad()
	l.Users, l.Followers, l.PostsPerDay, l.TimelineDays, l.ActiveDays = 1, followees, 1/30., 30, days
	l.AwayShare, l.ReturnsPerDay = 1e-12, 0
	got := l.away()
	assert.InDelta(t, refresh.Write, got.WCU*refreshAhead, 1e-6, "writes of a refresh")
	assert.InDelta(t, refresh.Read, got.RCU*refreshAhead, 1e-6, "reads of a refresh")
	l.AwayShare, l.ReturnsPerDay = 1, 1
	got = l.away()
	assert.InDelta(t, returned.Write, got.WCU, 1e-6, "writes of a return")
	assert.InDelta(t, returned.Read, got.RCU, 1e-6, "reads of a return")
}

func TestTheEstimateHasTheEntriesOfAReturn(t *testing.T) {
	for _, followees := range []int{1, 100, 101, 500} {
		assert.InDelta(t, float64(fanout.ReturnPosts(followees)), returnEntries(float64(followees)), 0)
	}
}

func TestAwayAndPulledSharesTakeTheirPartOfTheDeliveries(t *testing.T) {
	l := small()
	before := New(l, DefaultPrices()).Push
	l.AwayShare, l.PulledShare, l.ReturnsPerDay = 0.4, 0.25, 0.1
	after := New(l, DefaultPrices()).Push
	flows := map[string]Flow{}
	for _, f := range after.Flows {
		flows[f.Name] = f
	}
	// 1,000 users of 100 followers and as many followees, with 2 posts a day.
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"fan-out WCU", flows["fan-out"].WCU, 1500*(100+2) - 1500*100*0.4},
		{"fan-out RCU", flows["fan-out"].RCU, 1500 * (2 + 3)},
		{"homes RCU", flows["homes"].RCU, 10_000 * (42 + 5)}, // a quarter of 200 posts comes from 5 authors with 10
		{"away WCU", flows["away"].WCU, 600/7.*102 + 40*(100+3+50)},
		{"away RCU", flows["away"].RCU, 600/7.*(1+4) + 40*(1+8+100)},
		{"away messages", flows["away"].Messages, 600/7. + 40},
		{"away requests", flows["away"].SQS, 3 * (600/7. + 40)},
		{"entries stored", flows["fan-out"].Stored, (1500*396*61 + 1500*100*0.6*30*226) / 1e9},
		{"messages before", before.Total.Messages, 2000 + 5000},
		{"messages", after.Total.Messages, 2000 + 5000 + 600/7. + 40},
	} {
		assert.Truef(t, near(tt.got, tt.want), "%s = %v, want %v", tt.what, tt.got, tt.want)
	}
	assert.Equal(t, New(small(), DefaultPrices()).Pull, New(l, DefaultPrices()).Pull, "homes by pull know neither")
}

func TestProvisionedCapacityWithAReserve(t *testing.T) {
	p := DefaultPrices()
	w := New(small(), p).Push
	assert.True(t, near(w.Bill.Queues, (w.Total.SQS*0.40+w.Total.Messages*0.10)*30.4/1e6))
	hours := func(units float64) float64 { return units / 86_400 / 0.7 * 24 * 30.4 }
	rest := w.Bill.Queues + w.Bill.Storage + w.Bill.CPUs
	want := rest + (hours(w.Total.WCU)*0.00065+hours(w.Total.RCU)*0.00013)*(1-0.5*0.54)
	assert.Truef(t, near(w.Bill.Provisioned, want), "%v, want %v", w.Bill.Provisioned, want)
	p.Reserved = 0
	assert.Greater(t, New(small(), p).Push.Bill.Provisioned, want)
}

func TestImpossibleSharesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Load, *Prices){
		"away over all":     func(l *Load, _ *Prices) { l.AwayShare = 1.1 },
		"pulled over all":   func(l *Load, _ *Prices) { l.PulledShare = 1.1 },
		"pulled below none": func(l *Load, _ *Prices) { l.PulledShare = -0.1 },
		"one active day":    func(l *Load, _ *Prices) { l.ActiveDays = 1 },
		"no pulled posts":   func(l *Load, _ *Prices) { l.PulledPosts = 0 },
		"no use":            func(_ *Load, p *Prices) { p.TableUse = 0 },
		"overuse":           func(_ *Load, p *Prices) { p.TableUse = 1.1 },
		"a discount of all": func(_ *Load, p *Prices) { p.Discount = 1.1 },
		"too much reserved": func(_ *Load, p *Prices) { p.Reserved = 1.1 },
	} {
		l, p := DefaultLoad(), DefaultPrices()
		change(&l, &p)
		assert.True(t, l.Check() != nil || p.Check() != nil, name)
	}
}
