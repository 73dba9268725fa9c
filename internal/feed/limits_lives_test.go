package feed_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// returns makes ann return before any sweep of her removal.
func (w *world) returns() {
	w.t.Helper()
	w.clock.add(time.Minute)
	require.NoError(w.t, w.DeleteProfile(w.t.Context(), "ann"))
	w.users("ann")
}

func TestMarkersOfAFormerLifeDoNotLimitTheNewLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	var items []table.Item
	for i := range feed.MaxMarkers {
		items = append(items, schema.Marker{User: "ann", Name: fmt.Sprint("m", i), Position: "1", At: w.clock.now()}.Item())
	}
	w.put(items...)
	_, err := w.SetMarker(t.Context(), "ann", "new", "1")
	wantKind(t, err, fault.Limit)
	w.returns()
	_, err = w.SetMarker(t.Context(), "ann", "new", "1")
	require.NoError(t, err)
}

func TestBookmarksOfAFormerLifeDoNotLimitTheNewLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	var items []table.Item
	for _, post := range w.ids(feed.MaxBookmarks) {
		listed, byPost := schema.Bookmark{User: "ann", Post: post, V: post}.Items()
		items = append(items, schema.PostRef{ID: post, Author: "bob", LikeShards: 1}.Item(), listed, byPost)
	}
	w.put(items...)
	wantKind(t, w.Bookmark(t.Context(), "ann", p.ID), fault.Limit)
	w.returns()
	require.NoError(t, w.Bookmark(t.Context(), "ann", p.ID))
}

func TestMutesOfAFormerLifeDoNotLimitTheNewLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	var items []table.Item
	for i := range feed.MaxMutes {
		mute, muter := schema.Mute{User: "ann", Author: fmt.Sprint("u", i), Since: w.clock.now()}.Items()
		items = append(items, mute, muter)
	}
	w.put(items...)
	wantKind(t, w.Mute(t.Context(), "ann", "bob"), fault.Limit)
	w.returns()
	require.NoError(t, w.Mute(t.Context(), "ann", "bob"))
}

// The count of followees includes the follows of the former life until each of them has ended (I4).
func TestFollowsOfAFormerLifeDoNotLimitTheNewLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config) { c.MaxFollowing = 3 })
	w.users("ann", "bob", "cid", "dan", "eve")
	for _, author := range []string{"bob", "cid", "dan"} {
		w.follow("ann", author)
	}
	wantKind(t, w.Follow(t.Context(), "ann", "eve"), fault.Limit)
	w.returns()
	for _, author := range []string{"eve", "dan", "cid"} {
		require.NoError(t, w.Follow(t.Context(), "ann", author))
	}
	wantKind(t, w.Follow(t.Context(), "ann", "bob"), fault.Limit)
	w.sweep()
	ann, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, int64(3), ann.Counts.Following)
}

// twice sends each put a second time, as the SDK does after a lost answer.
type twice struct{ table.Store }

func (s twice) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if _, err := s.Store.Put(ctx, in); err != nil {
		return table.WriteResult{}, err
	}
	return s.Store.Put(ctx, in)
}

func TestAnImportedEndedPostWhosePutIsSentTwiceIsImported(t *testing.T) {
	t.Parallel()
	mem := tabletest.NewMemory()
	w := newWorld(t, func(c *config) { c.Store = mem })
	w.users("ann")
	again := newWorldAt(t, w.clock, func(c *config) { c.Store = twice{mem} })
	post := w.ids(1)[0]
	w.clock.add(time.Hour)
	_, err := again.ImportPost(t.Context(), schema.Post{ID: post, Author: "ann", Content: schema.Content{Text: "x", ExpiresAt: w.clock.now().Add(-time.Minute)}})
	require.NoError(t, err)
}
