package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
)

// Two bodies are different even if the concatenations of their fields are equal.
func TestAKeyTellsBodiesApartByTheirFields(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	create := func(text string, images ...feed.Image) error {
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: text, Images: images}, IdempotencyKey: "key"})
		return err
	}
	require.NoError(t, create("x", feed.Image{URL: "http://e.com/a"}))
	wantKind(t, create("xhttp://e.com/a"), fault.Invalid)
	wantKind(t, create("x"), fault.Invalid)
	require.NoError(t, create("x", feed.Image{URL: "http://e.com/a"}))
	w.checkCounts("ann")
}

func TestAKeyIsBoundForADay(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	create := func() string {
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}, IdempotencyKey: "key"})
		require.NoError(t, err)
		return p.ID
	}
	first := create()
	w.clock.add(24*time.Hour - time.Second)
	assert.Equal(t, first, create())
	w.clock.add(time.Second)
	assert.NotEqual(t, first, create())
}
