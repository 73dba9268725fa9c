package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// countsOf returns a function that reads the changed like counts of a user's live home.
func (w *world) countsOf(user string, seen *home.Streamed) func() []home.PostLikes {
	return func() []home.PostLikes {
		w.t.Helper()
		changes, err := w.LikeChanges(w.t.Context(), user, seen)
		require.NoError(w.t, err)
		return changes
	}
}

// streamed returns an author whom ann follows, a post of the author, and ann's live home after a look.
func (w *world) streamed() (author string, p feed.Post, seen *home.Streamed) {
	w.t.Helper()
	author = w.crowd("ann", 1, 0)[0]
	p = w.post(author, "x")
	w.deliver()
	seen = w.watch("ann", "")
	w.arrivals("ann", seen)
	return author, p, seen
}

// After an answered unfollow, a stream gets no like counts of the author's posts, although its last look has them (I2).
func TestLikeCountsAfterAnUnfollowAreNotStreamed(t *testing.T) {
	for name, wait := range map[string]time.Duration{"in the moment of the look": 0, "later": time.Minute / 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			author, p, seen := w.streamed()
			changes := w.countsOf("ann", seen)
			if wait == 0 {
				w.addLikes(p.ID, 2)
				assert.Equal(t, []home.PostLikes{{PostID: p.ID, Count: 2}}, changes(), "counts of a followed author")
			}
			require.NoError(t, w.Unfollow(t.Context(), "ann", author))
			w.clock.add(wait)
			w.addLikes(p.ID, 3)
			assert.Empty(t, changes(), "counts of a post that the home no longer shows")
		})
	}
}

// The read of the counts may take any time, and the follow may end during this time (I2).
func TestASlowReadOfLikeCountsChecksTheFollows(t *testing.T) {
	var then func()
	w := newWorld(t, func(c *config) {
		c.Store = table.Measure(c.Store, func(op table.Op, _ table.Units, _ error) {
			if op == table.OpBatchGet && then != nil {
				now := then
				then = nil
				now()
			}
		})
	})
	author := w.crowd("ann", 1, 0)[0]
	p := w.post(author, "x")
	w.deliver()
	w.addLikes(p.ID, 2)
	changes := w.countsOf("ann", w.watch("ann", ""))
	then = func() {
		require.NoError(t, w.Unfollow(t.Context(), "ann", author))
		w.clock.add(20 * time.Second)
	}
	assert.Empty(t, changes())
	require.Nil(t, then, "the counts were not read")
}

// A count that changed while its author was muted is told after the mute.
func TestACountThatWasHiddenIsToldLater(t *testing.T) {
	w := newWorld(t)
	author, p, seen := w.streamed()
	changes := w.countsOf("ann", seen)
	w.addLikes(p.ID, 2)
	require.Len(t, changes(), 1)
	require.NoError(t, w.Mute(t.Context(), "ann", author))
	w.addLikes(p.ID, 3)
	require.Empty(t, changes(), "counts of a muted author")
	require.NoError(t, w.Unmute(t.Context(), "ann", author))
	w.arrivals("ann", seen)
	assert.Equal(t, []home.PostLikes{{PostID: p.ID, Count: 5}}, changes())
}

// A damaged post by id takes away no other count.
func TestADamagedPostHasNoCountInAStream(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	damaged, sound := w.post("ann", "x"), w.post("ann", "y")
	seen := w.watch("ann", "")
	w.addLikes(damaged.ID, 2)
	w.addLikes(sound.ID, 3)
	_, err := w.store.Put(t.Context(), table.PutInput{Item: table.Item{Key: schema.PostByIDKey(damaged.ID)}})
	require.NoError(t, err)
	assert.Equal(t, []home.PostLikes{{PostID: sound.ID, Count: 3}}, w.countsOf("ann", seen)())
}
