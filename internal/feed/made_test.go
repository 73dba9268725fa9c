package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
)

// The new posts of all authors are read across the end of a bucket of time, which is nine hours long.
// Posts of clocks that are ahead are read, too.
func TestNewPostsAreReadAcrossTheEndOfABucket(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "ben")
	var want []schema.PostRef
	for i := range 80 {
		p := w.post([]string{"ann", "ben"}[i%2], fmt.Sprint(i))
		want = append(want, schema.PostRef{ID: p.ID, Author: p.AuthorID, LikeShards: 1})
		w.clock.add(15 * time.Minute)
	}
	for i := range 40 {
		made, err := w.PostsMade(t.Context(), access.TimeOf(want[len(want)-i-1].ID))
		require.NoError(t, err)
		assert.ElementsMatch(t, want[len(want)-i-1:], made.Posts, "%d posts back", i+1)
	}
	w.clock.add(-19 * time.Minute) // the last post is four minutes ahead
	made, err := w.PostsMade(t.Context(), w.clock.now())
	require.NoError(t, err)
	assert.Equal(t, want[79:], made.Posts)
}

// A home shows the posts of its user, and of all followees that are not muted.
func TestTheAuthorsOfAHome(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "ben", "cat", "dan", "eve")
	for _, author := range []string{"ben", "cat", "dan"} {
		w.follow("ann", author)
	}
	w.mute("ann", "cat")
	w.mute("ann", "eve")
	for most, want := range map[int]struct {
		authors []string
		whole   bool
	}{2: {[]string{"ann", "ben"}, false}, 3: {[]string{"ann", "ben", "dan"}, true}} {
		authors, whole, err := w.Heard(t.Context(), "ann", most)
		require.NoError(t, err)
		assert.Equal(t, want.authors, authors)
		assert.Equal(t, want.whole, whole)
	}
}

// A look does not read the like counts of deleted posts again.
func TestLikeCountsOfDeletedPostsAreReadOnce(t *testing.T) {
	var m meter
	w := newWorld(t, m.onto)
	w.users("ann")
	p := w.post("ann", "x")
	w.addLikes(p.ID, 3)
	seen := w.watch("ann", "")
	require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
	for _, want := range []float64{1.5, 0.5} {
		assert.Equal(t, want, m.of(func() {
			changes, err := w.LikeChanges(t.Context(), seen)
			require.NoError(t, err)
			assert.Empty(t, changes)
		}))
	}
}
