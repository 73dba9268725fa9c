package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// An author is pulled since yesterday. A user who followed the author later needs no entry of an older
// post, because the home merges in all posts. A user who followed the author earlier needs the entries
// of older posts, because the home merges in only the posts since yesterday.
func TestAHomeNeedsNoEntryOfAPostThatItMergesIn(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	name := file(t, append(network(), rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(20 * day)})...)
	_, err := transfer.Import(t.Context(), config(store), []string{name})
	require.NoError(t, err)
	s := service(store, today)
	put := func(it table.Item) {
		_, err := store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	since := id.Floor(today.Add(-day))
	put(schema.Mode{Author: "ann", State: schema.ModePull, V: 1, Since: since, At: today.Add(-day)}.Item())
	put(schema.Mark{User: "bob", Author: "ann", Kind: schema.MarkPulled, Pull: since, V: 1, Version: since}.Item()) // by the walk
	require.NoError(t, s.Follow(t.Context(), "dan", "ann"))
	put(schema.Mark{User: "dan", Author: "ann", Kind: schema.MarkPulled, From: id.Min, V: 1, Version: since}.Item()) // by the backfill
	_, err = transfer.Import(t.Context(), config(store), []string{name})
	require.NoError(t, err)

	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	older := posts.Items[0]
	require.WithinDuration(t, today.Add(-3*day), older.CreatedAt, time.Second)
	_, err = store.Delete(t.Context(), table.DeleteInput{Key: table.Key{PK: schema.TimelinePK("bob"), SK: schema.EntrySK(older.ID, "ann")}})
	require.NoError(t, err)
	_, err = transfer.Import(t.Context(), config(store), []string{name})
	var missing *transfer.MissingError
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, []string{"post " + older.ID + " of ann is not in the home of bob"}, missing.Faults)
}

// A user follows beside the import, and no worker has copied the posts yet: the home merges them in.
func TestAHomeNeedsNoEntryBeforeItsBackfillEnds(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	name := file(t, append(network(), rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(20 * day)})...)
	_, err := transfer.Import(t.Context(), config(store), []string{name})
	require.NoError(t, err)
	require.NoError(t, service(store, today).Follow(t.Context(), "dan", "ann"))
	_, err = transfer.Import(t.Context(), config(store), []string{name})
	require.NoError(t, err)
}
