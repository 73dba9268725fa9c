package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// likesOf stores likes by ann of posts of bob.
func (w *world) likesOf(posts []string) {
	var items []table.Item
	for _, post := range posts {
		p := schema.Post{ID: post, Author: "bob", Content: schema.Content{Text: "x"}, LikeShards: 1}
		like := schema.Like{Post: post, User: "ann", LikeShards: 1, Kind: "like", Version: post, Flush: schema.Flush{Inc: "00000000000", Seq: 1}, Indexed: true}
		items = append(items, p.Item(), p.Ref(timelineTTL).Item(), like.Item())
	}
	w.put(items...)
}

func (w *world) takenBack() (sent int) {
	for _, e := range w.published.take() {
		if _, ok := e.(*messages.Unliked); ok {
			sent++
		}
	}
	return sent
}

// The aggregators are behind, and a worker sweeps a removed user each ten seconds. The same take-backs
// are sent again at longer and longer intervals. Once an aggregator has counted some of them, the
// intervals begin with ten seconds again.
func TestTakeBacksThatWaitAreSentAgainAtLongerIntervals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	posts := w.ids(500)
	w.likesOf(posts)
	w.clock.add(time.Hour)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	event := w.published.take()[0].Head().EventID
	sent := 0
	for range 60 { // ten minutes
		done, err := w.Forget(t.Context(), "ann", event, 500)
		require.NoError(t, err)
		assert.Positive(t, done.Wait, "the likes are left")
		sent += w.takenBack()
		w.clock.add(10 * time.Second)
	}
	assert.Equal(t, 3000, sent, "after 0, 10, 30, 70, 150, and 310 seconds")

	for _, post := range posts[:100] {
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: schema.LikeKey(post, "ann", 1)})
		require.NoError(t, err)
	}
	w.clock.add(time.Hour)
	done, err := w.Forget(t.Context(), "ann", event, 500)
	require.NoError(t, err)
	assert.Equal(t, 400, w.takenBack())
	assert.Equal(t, 10*time.Second, done.Wait, "an aggregator has counted likes")
}
