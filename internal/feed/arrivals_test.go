package feed_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// watch returns the part of viewer's home that a stream has seen that goes on after last.
func (w *world) watch(viewer, last string) *feed.Streamed {
	w.t.Helper()
	seen, err := w.HomeStreamed(w.t.Context(), viewer, last)
	require.NoError(w.t, err)
	return seen
}

// arrivals returns the posts that a stream sends now.
func (w *world) arrivals(viewer string, seen *feed.Streamed) []string {
	w.t.Helper()
	var posts []string
	for items, err := range w.Arrivals(w.t.Context(), viewer, seen) {
		require.NoError(w.t, err)
		posts = append(posts, homeIDs(items)...)
	}
	return posts
}

// A post comes into the home up to 30 posts, or minutes, after posts with higher ids. The
// stream breaks off now and then, and goes on at its position.
func TestPostsThatComeInAnyOrderAreStreamedOnce(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t)
		rng := rand.New(rand.NewPCG(seed, 1))
		names := w.crowd("ann", 3, 30)
		seen := w.watch("ann", "")
		var want, got []string
		waiting := map[int][]messages.Event{} // by the step that delivers them
		for step := range 230 {
			if step < 200 {
				want = append(want, w.post(names[rng.IntN(3)], fmt.Sprint(step)).ID)
				late := step + rng.IntN(30)
				waiting[late] = append(waiting[late], w.published.take()...)
			}
			w.published.events = waiting[step]
			w.deliver()
			switch rng.IntN(8) {
			case 0:
				w.clock.add(30 * time.Second)
			case 1:
				seen = w.watch("ann", seen.Position("ann"))
			case 2, 3:
				got = append(got, w.arrivals("ann", seen)...)
			}
		}
		got = append(got, w.arrivals("ann", seen)...)
		assert.Empty(t, w.arrivals("ann", seen))
		slices.Sort(got)
		require.Truef(t, slices.Equal(want, got), "seed %d: %d posts, want %d", seed, len(got), len(want))
	}
}

func TestAStreamGoesOnAfterAPost(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 3, 0)
	var posts []feed.Post
	for i := range 9 {
		posts = append(posts, w.post(names[i%3], fmt.Sprint(i)))
		w.deliver()
	}
	seen := w.watch("ann", posts[1].ID)
	require.NoError(t, w.DeletePost(t.Context(), posts[4].AuthorID, posts[4].ID))
	require.NoError(t, w.Unfollow(t.Context(), "ann", names[2]))
	assert.Equal(t, []string{posts[3].ID, posts[6].ID, posts[7].ID}, w.arrivals("ann", seen))
	assert.Empty(t, w.arrivals("ann", w.watch("ann", "")), "without an id the stream begins with what comes")
	for _, last := range []string{"x", posts[0].ID[1:], seen.Position("bob"), seen.Position("ann") + "A"} {
		_, err := w.HomeStreamed(t.Context(), "ann", last)
		wantKind(t, err, feed.Malformed)
	}
	late := w.post(names[0], "late")
	mine := w.post("ann", "mine") // in the home at once
	assert.Equal(t, []string{mine.ID}, w.arrivals("ann", seen))
	w.deliver()
	assert.Equal(t, []string{late.ID}, w.arrivals("ann", seen))
}

// The newest posts of a home are a thousand within a minute, and older ones go back for days.
func TestALongAbsenceIsReplayedOldestFirst(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 2, 1)
	last := w.page("ann", 1)[0].Post.ID
	var want []string
	var items []table.Item
	for i, n := range []int{900, 0, 40, 1400} {
		w.clock.add(time.Duration(i) * 24 * time.Hour)
		for j, id := range w.ids(n) {
			p := schema.Post{ID: id, Author: names[j%2], Text: "x", LikeShards: 1}
			want = append(want, id)
			items = append(items, p.Item(), table.Item{
				Key: table.Key{PK: schema.TimelinePK("ann"), SK: schema.EntrySK(id, p.Author)}, Attrs: schema.EntryAttrs(w.clock.now().Add(timelineTTL), 1),
			})
		}
	}
	w.put(items...)
	seen := w.watch("ann", last)
	got := w.arrivals("ann", seen)
	require.Equal(t, want, got)
	assert.Empty(t, w.arrivals("ann", w.watch("ann", seen.Position("ann"))))
}

// The items of a transaction become visible one by one.
func TestAnEntryBeforeItsPostIsStreamedWithThePost(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 1, 3)
	before := w.watch("ann", "")
	p := schema.Post{ID: w.ids(1)[0], Author: names[0], Text: "x", LikeShards: 1}
	w.entry("ann", names[0], p.ID, 1)
	assert.Empty(t, w.arrivals("ann", before))
	between := w.watch("ann", "")
	w.put(p.Item())
	for _, seen := range []*feed.Streamed{before, between} {
		assert.Equal(t, []string{p.ID}, w.arrivals("ann", seen))
	}
}

func TestPostsOfPulledAndNewlyFollowedAuthorsAreStreamed(t *testing.T) {
	w := newWorld(t)
	w.crowd("ann", 1, 30)
	w.users("bob", "eve")
	w.put(schema.Mark{User: "ann", Author: "bob", Kind: schema.MarkPulled, Pull: w.ids(1)[0], Version: w.ids(1)[0], V: 1}.Item())
	seen := w.watch("ann", "")
	want := []string{w.post("bob", "pulled").ID, w.post("eve", "before the follow").ID}
	assert.Equal(t, want[:1], w.arrivals("ann", seen))
	w.follow("ann", "eve")
	assert.Equal(t, want[1:], w.arrivals("ann", seen))
	w.deliver()
	assert.Empty(t, w.arrivals("ann", seen), "the backfill brings the post again")
}

func TestLookingAtALiveHomeCosts(t *testing.T) {
	var m meter
	s := newSample(t, newClock(), m.onto, sharing)
	seen := s.watch("viewer", "")
	for posts, want := range []float64{2, 2 + 1 + 2*0.5 + 0.5, 2 + 2 + 2*2*0.5 + 0.5} {
		for i := range posts {
			s.world.post(s.authors[i], "x")
		}
		s.deliver()
		s.clock.add(time.Minute) // nothing is shared any more
		assert.Equal(t, want, m.of(func() { assert.Len(t, s.arrivals("viewer", seen), posts) }), "%d posts: read units", posts)
	}
}

func TestLikeCountsOfTheNewestPostsAreStreamed(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 1, 30)
	posts := w.page("ann", 30)
	w.addLikes(posts[19].Post.ID, 2)
	w.addLikes(posts[20].Post.ID, 7)
	seen := w.watch("ann", "")
	changes := func() []feed.PostLikes {
		likes, err := w.LikeChanges(t.Context(), seen)
		require.NoError(t, err)
		return likes
	}
	assert.Equal(t, []feed.PostLikes{{PostID: posts[19].Post.ID, Count: 2}}, changes())
	assert.Empty(t, changes())
	p := w.post(names[0], "new")
	w.deliver()
	w.arrivals("ann", seen)
	w.addLikes(p.ID, 1)
	w.addLikes(posts[0].Post.ID, 1)
	w.addLikes(posts[19].Post.ID, 1) // not among the newest 20 any more
	require.NoError(t, w.DeletePost(t.Context(), names[0], posts[0].Post.ID))
	assert.Equal(t, []feed.PostLikes{{PostID: p.ID, Count: 1}}, changes())
	w.addLikes(p.ID, -1)
	assert.Equal(t, []feed.PostLikes{{PostID: p.ID}}, changes())
}

// A reader that returns streams a home by pull, while its entries are built and after that.
func TestAReturningReaderStreamsTheHome(t *testing.T) {
	w := newWorld(t, active(2))
	names := w.crowd("ann", 3, 0)
	w.clock.add(5 * aDay)
	missed := w.post(names[0], "while ann was away")
	w.deliver()
	seen := w.watch("ann", "")
	assert.Equal(t, schema.PresenceReturning, w.presence("ann").State)
	assert.Empty(t, w.arrivals("ann", seen), "it was there before")
	now := w.post(names[1], "now")
	assert.Equal(t, []string{now.ID}, w.arrivals("ann", seen))
	assert.Equal(t, []string{now.ID}, w.arrivals("ann", w.watch("ann", missed.ID)))
}
