package httpapi_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/live"
	"fanfare/internal/table/tabletest"
)

// An event of a change has a name and data, and no id.
func TestAStreamTellsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wakes := new(live.Wakes)
		w := newWorld(t, func(c *httpapi.Config) {
			c.Streams.Wakes = wakes
			serve(c, access.Config{
				Store: wakes.Store(tabletest.NewMemory()), Publisher: &published{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour),
			}, feed.Config{})
		})
		for _, user := range []string{"ann", "ben", "cat"} {
			w.profile(t, user)
		}
		require.NoError(t, w.cfg.Feed.Follow(t.Context(), "ann", "ben"))
		page := w.stream(t, w.serve(t), "ann", "")
		posts := w.posts(t, "ann", 2)
		require.Equal(t, posts, page.entries(t, 2))
		text := "edited"
		edited, err := w.cfg.Feed.EditPost(t.Context(), "ann", posts[0], feed.PostEdit{Text: &text})
		require.NoError(t, err)
		ev, err := page.next()
		require.NoError(t, err)
		var item client.HomeItem
		require.NoError(t, json.Unmarshal([]byte(ev.data), &item))
		assert.Equal(t, event{"edited", "", ev.data}, ev)
		assert.Equal(t, []string{posts[0], text}, []string{item.Post.ID, item.Post.Text})
		assert.WithinDuration(t, edited.EditedAt, item.Post.EditedAt, 0)
		quoted, err := w.cfg.Feed.CreatePost(t.Context(), "cat", feed.PostInput{Content: feed.Content{Text: "a stranger's"}})
		require.NoError(t, err)
		_, err = w.cfg.Feed.CreatePost(t.Context(), "cat", feed.PostInput{Content: feed.Content{Text: "so true"}, QuoteOf: quoted.ID})
		require.NoError(t, err)
		_, err = w.cfg.Feed.EditPost(t.Context(), "cat", quoted.ID, feed.PostEdit{Text: &text})
		require.NoError(t, err)
		ev, err = page.next()
		require.NoError(t, err)
		assert.Equal(t, event{"changed", "", `{"post_id":"` + quoted.ID + `"}`}, ev)
		require.NoError(t, w.cfg.Feed.DeletePost(t.Context(), "ann", posts[1]))
		require.NoError(t, w.cfg.Feed.Unfollow(t.Context(), "ann", "ben"))
		for _, want := range []event{{"deleted", "", `{"post_id":"` + posts[1] + `"}`}, {"stale", "", "{}"}} {
			ev, err := page.next()
			require.NoError(t, err)
			assert.Equal(t, want, ev)
		}
	})
}
