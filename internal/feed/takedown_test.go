package feed_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestATakeDownDeletesThePostAndKeepsItsReason(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	made, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "forged shoes", Mentions: []string{"bob"}}})
	require.NoError(t, err)
	w.published.take()
	down, err := w.TakeDown(t.Context(), "moderation@clients", made.ID, "Forged <shoes>")
	require.NoError(t, err)
	want := feed.TakeDown{Reason: "Forged <shoes>", By: "moderation@clients", At: w.clock.now().UTC().Truncate(time.Millisecond)}
	assert.Equal(t, want, down)
	if sent := w.published.take(); assert.Len(t, sent, 1) {
		asked := sent[0].(*messages.PostDeleted)
		assert.Equal(t, made.ID, asked.PostID)
		assert.Equal(t, []string{"bob"}, asked.Mentions)
	}
	_, err = w.Post(t.Context(), access.Viewer{}, made.ID)
	wantKind(t, err, fault.NotFound)
	wantKind(t, w.DeletePost(t.Context(), "ann", made.ID), fault.NotFound)
	w.checkCounts("ann", "bob")

	w.clock.add(time.Hour)
	again, err := w.TakeDown(t.Context(), "another", made.ID, "another reason")
	require.NoError(t, err)
	assert.Equal(t, want, again)
	assert.Empty(t, w.published.take(), "nothing was deleted again")
	d, err := w.Delivery(t.Context(), "ann", made.ID)
	require.NoError(t, err)
	if assert.NotNil(t, d.TakenDown) {
		assert.Equal(t, want, feed.TakeDown(*d.TakenDown))
	}
	it := w.item(schema.PostByIDKey(made.ID))
	require.NotNil(t, it)
	assert.NotZero(t, it.Int(table.AttrTTL), "a tombstone expires, with the reason")
}

func TestWhatIsNoTakeDownChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	living, gone := w.post("ann", "living"), w.post("ann", "gone")
	require.NoError(t, w.DeletePost(t.Context(), "ann", gone.ID))
	w.published.take()
	for name, reason := range map[string]string{"empty": "", "blank": " \t", "invisible": "\u200b", "lines": "a\nb", "direction": "a\u202eb", "long": strings.Repeat("ä", 501), "not UTF-8": "\xff"} {
		_, err := w.TakeDown(t.Context(), "moderation", living.ID, reason)
		wantKind(t, err, fault.Invalid)
		require.ErrorContains(t, err, "reason", name)
	}
	_, err := w.TakeDown(t.Context(), "moderation", living.ID, strings.Repeat("ä", 500))
	require.NoError(t, err)
	for name, post := range map[string]string{"deleted by its author": gone.ID, "unknown": "01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		_, err := w.TakeDown(t.Context(), "moderation", post, "a reason")
		wantKind(t, err, fault.NotFound)
		assert.NotContains(t, err.Error(), "moderation", name)
	}
	assert.Empty(t, w.item(schema.PostByIDKey(gone.ID)).Str(schema.AttrWhy), "the author's own deletion has no reason")
	assert.Len(t, w.published.take(), 1)
}

// I15: from its end on, a post does not exist for a service either, before and after the table has
// deleted the post's item.
func TestAPostThatHasEndedIsNotTakenDown(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "story", ExpiresAt: w.clock.now().Add(time.Hour)}})
	require.NoError(t, err)
	w.clock.add(time.Hour)
	for _, deleted := range []bool{false, true} {
		if deleted {
			_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: schema.PostKey("ann", p.ID)})
			require.NoError(t, err)
		}
		_, err = w.TakeDown(t.Context(), "moderation", p.ID, "a reason")
		wantKind(t, err, fault.NotFound)
		require.ErrorContains(t, err, "ended at")
		assert.Zero(t, w.item(schema.PostByIDKey(p.ID)).Int(schema.AttrDeleted))
	}
}

// Several services and the author delete a post at once. If a service was first, all services get that
// service's reason. Otherwise no service gets a reason.
func TestOfSeveralDeletionsAtOnceTheFirstStands(t *testing.T) {
	outcomes := map[bool]int{}
	for n := range 30 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.users("ann")
			p := w.post("ann", "x")
			w.published.take()
			var all sync.WaitGroup
			downs, errs := make([]feed.TakeDown, 3), make([]error, 4)
			for i, by := range []string{"one", "two", "three"} {
				all.Go(func() { downs[i], errs[i] = w.TakeDown(context.Background(), by, p.ID, "by "+by) })
			}
			if n%3 == 0 {
				all.Go(func() { errs[3] = w.DeletePost(context.Background(), "ann", p.ID) })
			}
			all.Wait()
			ref, err := schema.ParsePostRef(*w.item(schema.PostByIDKey(p.ID)))
			require.NoError(t, err)
			require.True(t, ref.Deleted)
			outcomes[ref.TakenDown != nil]++
			for i := range downs {
				if ref.TakenDown == nil {
					wantKind(t, errs[i], fault.NotFound)
					continue
				}
				require.NoError(t, errs[i])
				assert.Equal(t, feed.TakeDown(*ref.TakenDown), downs[i])
			}
			if n%3 == 0 && ref.TakenDown != nil {
				wantKind(t, errs[3], fault.NotFound)
			}
			assert.Len(t, w.published.take(), 1, "one purge")
			w.checkCounts("ann")
		})
	}
	assert.NotZero(t, outcomes[true])
}
