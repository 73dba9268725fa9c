package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"

	"fanfare/internal/feed"
	"fanfare/internal/feed/removal"
)

// reader returns the domain of a process that reads the TTL of homes from the table.
func reader(store table.Store, now time.Time, ttl time.Duration) (domain, *lifetime.View) {
	clock := func() time.Time { return now }
	view := lifetime.New(lifetime.Config{Store: store, Now: clock, TTL: ttl})
	way := access.New(access.Config{Store: store, Publisher: sink{}, IDs: id.NewGenerator(clock), Now: clock, Lifetimes: view})
	s := feed.New(feed.Config{Access: way, LikesByUser: true})
	return domain{s, home.New(home.Config{Access: way, Items: s, Mutes: s}), removal.New(way, s)}, view
}

func TestAnImportObeysTheStoredTTL(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, view := reader(store, today, 84*time.Hour)
	require.NoError(t, view.Decide(t.Context()))
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	d, _ := reader(store, today, timelineTTL)
	push, pull := texts(t, d, "cid")
	assert.Equal(t, []string{"this week"}, pull, "the table has 84 hours")
	assert.Equal(t, pull, push)
}

func TestAnImportIntoANewTableDecidesItsTTL(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	d, view := reader(store, today, 365*day)
	require.NoError(t, view.Decide(t.Context()))
	push, pull := texts(t, d, "cid")
	assert.Equal(t, pull, push, "a daemon with another setting")
	d, _ = reader(store, today.Add(28*day), 365*day)
	push, pull = texts(t, d, "cid")
	assert.Equal(t, pull, push)
	assert.Empty(t, pull, "the entries have expired")
}
