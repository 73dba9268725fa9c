package feed_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// watch returns the seen part of viewer's home for a stream that continues after last.
func (w *world) watch(viewer, last string) *home.Streamed {
	w.t.Helper()
	seen, err := w.HomeStreamed(w.t.Context(), viewer, last)
	require.NoError(w.t, err)
	return seen
}

// arrivals returns the posts that a stream would send now.
func (w *world) arrivals(viewer string, seen *home.Streamed) []string {
	w.t.Helper()
	var posts []string
	for looks, more := 0, true; more; looks, more = looks+1, seen.Behind() {
		require.Less(w.t, looks, 20, "looks")
		for items, err := range w.Arrivals(w.t.Context(), viewer, seen) {
			require.NoError(w.t, err)
			require.NotEmpty(w.t, items)
			posts = append(posts, homeIDs(items)...)
		}
	}
	return posts
}

// stored stores the entries of posts by author in viewer's home.
func (w *world) stored(viewer, author string, posts ...string) {
	w.t.Helper()
	for _, post := range posts {
		w.put(schema.Post{ID: post, Author: author, Content: schema.Content{Text: "x"}, LikeShards: 1}.Item())
		w.entry(viewer, author, post, 1)
	}
}

// A post may arrive in the home up to 30 posts or minutes after posts with higher ids. The stream
// breaks at random, and resumes at its position.
func TestPostsThatComeInAnyOrderAreStreamedOnce(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t)
		rng := rand.New(rand.NewPCG(seed, 1))
		names := w.crowd("ann", 3, 30)
		seen := w.watch("ann", "")
		var want, got []string
		waiting := map[int][]messages.Event{} // the waiting events, by the step that delivers the events
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
		wantKind(t, err, fault.Malformed)
	}
	late := w.post(names[0], "late")
	mine := w.post("ann", "mine") // this post is in the home at once
	assert.Equal(t, []string{mine.ID}, w.arrivals("ann", seen))
	w.deliver()
	assert.Equal(t, []string{late.ID}, w.arrivals("ann", seen))
}

// The home has a thousand new posts within one minute, and older posts that are up to days old.
func TestALongAbsenceIsReplayedOldestFirst(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 2, 1)
	last := w.page("ann", 1)[0].Post.ID
	var want []string
	var items []table.Item
	for i, n := range []int{900, 0, 40, 1400} {
		w.clock.add(time.Duration(i) * 24 * time.Hour)
		for j, post := range w.ids(n) {
			p := schema.Post{ID: post, Author: names[j%2], Content: schema.Content{Text: "x"}, LikeShards: 1}
			want = append(want, post)
			items = append(items, p.Item(), table.Item{
				Key: table.Key{PK: schema.TimelinePK("ann"), SK: schema.EntrySK(post, p.Author)}, Attrs: schema.EntryAttrs(w.clock.now().Add(timelineTTL), 1),
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
	p := schema.Post{ID: w.ids(1)[0], Author: names[0], Content: schema.Content{Text: "x"}, LikeShards: 1}
	w.entry("ann", names[0], p.ID, 1)
	assert.Empty(t, w.arrivals("ann", before))
	between := w.watch("ann", "")
	w.put(p.Item())
	for _, seen := range []*home.Streamed{before, between} {
		assert.Equal(t, []string{p.ID}, w.arrivals("ann", seen))
	}
}

// The reference by id of a repost may be visible before the repost. Once commitTime is over, the look knows that the
// original is gone.
func TestARepostIsStreamedOnceItIsWhollyVisible(t *testing.T) {
	w, tp := tapped(t)
	w.users("dan")
	names := w.crowd("ann", 1, 3)
	original := w.post("dan", "original")
	w.deliver()
	before := w.watch("ann", "")
	of := schema.Reference{RepostOf: original.ID, OfAuthor: "dan", OfShards: 1}
	repost := func() schema.Post {
		p := schema.Post{ID: w.ids(1)[0], Author: names[0], Reference: of, LikeShards: 1}
		w.entry("ann", p.Author, p.ID, 1)
		w.put(schema.PostRef{ID: p.ID, Author: p.Author, LikeShards: 1, RepostOf: of.RepostOf}.Item())
		return p
	}
	p := repost()
	assert.Empty(t, w.arrivals("ann", before))
	w.put(p.Item())
	assert.Equal(t, []string{p.ID}, w.arrivals("ann", before))
	tp.take()
	assert.Empty(t, w.arrivals("ann", before))
	idle := len(tp.take())
	repost()
	w.clock.add(11 * time.Second)
	assert.Empty(t, w.arrivals("ann", before))
	tp.take()
	assert.Empty(t, w.arrivals("ann", before))
	assert.Len(t, tp.take(), idle, "table calls for a repost that never shows")
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
	for posts, want := range []float64{2, 2 + 1 + 0.5 + 0.5, 2 + 2 + 2*0.5 + 0.5} {
		for i := range posts {
			s.world.post(s.authors[i], "x")
		}
		s.deliver()
		s.clock.add(time.Minute) // after a minute, the process shares no reads any more
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
	changes := func() []home.PostLikes {
		likes, err := w.LikeChanges(t.Context(), "ann", seen)
		require.NoError(t, err)
		return likes
	}
	assert.Equal(t, []home.PostLikes{{PostID: posts[19].Post.ID, Count: 2}}, changes())
	assert.Empty(t, changes())
	p := w.post(names[0], "new")
	w.deliver()
	w.arrivals("ann", seen)
	w.addLikes(p.ID, 1)
	w.addLikes(posts[0].Post.ID, 1)
	w.addLikes(posts[19].Post.ID, 1) // this post is no longer among the newest 20 posts
	require.NoError(t, w.DeletePost(t.Context(), names[0], posts[0].Post.ID))
	assert.Equal(t, []home.PostLikes{{PostID: p.ID, Count: 1}}, changes())
	w.addLikes(p.ID, -1)
	assert.Equal(t, []home.PostLikes{{PostID: p.ID}}, changes())
}

// A returning reader streams a pulled home while the home's entries are built, and afterwards.
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

func TestAWindowHoldsAHundredPosts(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	posts := w.ids(104)
	seen := w.watch("ann", "")
	for _, post := range posts[3:103] {
		assert.True(t, seen.Add(post))
		assert.False(t, seen.Add(post), "it was there")
	}
	other := seen.Clone()
	assert.True(t, seen.Add(posts[1]), "a hundred posts leave the window open below")
	for _, post := range posts[:2] {
		assert.False(t, seen.Add(post), "the window ends at the post that had to go")
	}
	assert.True(t, seen.Add(posts[103]))
	assert.False(t, seen.Add(posts[2]))
	assert.True(t, other.Add(posts[0]), "a copy is another window")
	position := seen.Position("ann")
	assert.Equal(t, position, w.watch("ann", position).Position("ann"))
}

// A stream remembers the posts of the last ten minutes, at most the newest 100 posts. The oldest of
// these posts is the end of the window. The stream also remembers the newest 20 posts of any age.
func TestAPostThatComesLateIsSentIfTheWindowReachesIt(t *testing.T) {
	const posts = 120
	for name, c := range map[string]struct {
		before, after time.Duration // from the posts to the stream's start, and from the start to a look
		remembered    int
	}{
		"posts of now":                  {remembered: 99},
		"posts that are old at first":   {before: 11 * time.Minute, remembered: 20},
		"posts that are old at a look":  {after: 11 * time.Minute, remembered: 20},
		"posts of almost ten minutes":   {before: 9 * time.Minute, remembered: 99},
		"posts of almost ten and looks": {after: 9 * time.Minute, remembered: 99},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			author := w.crowd("ann", 1, 0)[0]
			ids := w.ids(2 * posts)
			for i := 1; i < len(ids); i += 2 {
				w.stored("ann", author, ids[i])
			}
			w.clock.add(c.before)
			seen := w.watch("ann", "")
			if c.after > 0 {
				w.clock.add(c.after)
				assert.Empty(t, w.arrivals("ann", seen))
			}
			end := len(ids) - 1 - 2*c.remembered
			w.stored("ann", author, ids[end-1], ids[end+1])
			assert.Equal(t, []string{ids[end+1]}, w.arrivals("ann", seen))
		})
	}
}

// An entry whose post is still missing after ten seconds belongs to a deleted post.
func TestAStreamWaitsTenSecondsForThePostOfAnEntry(t *testing.T) {
	for age, sent := range map[time.Duration]bool{10 * time.Second: true, 10*time.Second + time.Millisecond: false} {
		w := newWorld(t)
		author := w.crowd("ann", 1, 3)[0]
		post := w.ids(1)[0]
		w.entry("ann", author, post, 1)
		w.clock.add(age)
		seen := w.watch("ann", "")
		w.put(schema.Post{ID: post, Author: author, Content: schema.Content{Text: "x"}, LikeShards: 1}.Item())
		assert.Equal(t, sent, slices.Contains(w.arrivals("ann", seen), post), "after %s", age)
	}
}

// More than a thousand posts have the same millisecond. The client leaves at random, and resumes at
// its position.
func TestAReplayThatBreaksOffGoesOnAtItsPosition(t *testing.T) {
	w := newWorld(t)
	author := w.crowd("ann", 1, 0)[0]
	seen := w.watch("ann", "")
	want := w.ids(150)
	w.clock.add(aDay)
	generator := id.NewGenerator(w.clock.now)
	for range 1100 {
		post, err := generator.New()
		require.NoError(t, err)
		want = append(want, post)
	}
	w.stored("ann", author, want...)
	var got []string
	parts := 0
	for more := true; more; {
		more = false
		for items, err := range w.Arrivals(t.Context(), "ann", seen) {
			require.NoError(t, err)
			got = append(got, homeIDs(items)...)
			parts++
			again := w.watch("ann", seen.Position("ann"))
			if more = parts%4 == 0; more {
				seen = again
				break
			}
		}
	}
	assert.Equal(t, want, got)
}

// The references of a look are at most a second old. A client that takes longer for a part gets no
// later post of an unfollowed author (I2), and gets all other posts.
func TestASlowReplayHeedsAnUnfollow(t *testing.T) {
	for _, hidden := range []int{0, 20} {
		w := newWorld(t)
		names := w.crowd("ann", 2, 0)
		seen := w.watch("ann", "")
		posts := w.ids(page.DefaultLimit + hidden + 1)
		last := len(posts) - 1
		w.stored("ann", names[0], posts[:page.DefaultLimit]...)
		w.stored("ann", names[1], posts[page.DefaultLimit:last]...)
		w.stored("ann", names[0], posts[last])
		var got []string
		for items, err := range w.Arrivals(t.Context(), "ann", seen) {
			require.NoError(t, err)
			if got == nil {
				require.NoError(t, w.Unfollow(t.Context(), "ann", names[1]))
				w.clock.add(2 * time.Second)
			}
			got = append(got, homeIDs(items)...)
		}
		assert.Equal(t, append(slices.Clone(posts[:page.DefaultLimit]), posts[last]), got)
	}
}

// afterQuery calls then once, after a query of a partition.
type afterQuery struct {
	table.Store
	pk   string
	then atomic.Pointer[func()]
}

func (a *afterQuery) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for page, err := range a.Store.Query(ctx, q) {
			if !yield(page, err) {
				break
			}
		}
		if q.PK == a.pk {
			if then := a.then.Swap(nil); then != nil {
				(*then)()
			}
		}
	}
}

// The references of a look are old already if their own reads were slow.
func TestALookWhoseReferencesCameSlowlyHeedsAnUnfollow(t *testing.T) {
	slow := &afterQuery{pk: schema.MarksPK("ann")}
	w := newWorld(t, func(c *config) { slow.Store, c.Store = c.Store, slow })
	names := w.crowd("ann", 2, 0)
	seen := w.watch("ann", "")
	posts := w.ids(2)
	w.stored("ann", names[0], posts[0])
	w.stored("ann", names[1], posts[1])
	slow.then.Store(new(func() {
		assert.NoError(t, w.Unfollow(t.Context(), "ann", names[1]))
		w.clock.add(2 * time.Second)
	}))
	assert.Equal(t, posts[:1], w.arrivals("ann", seen))
	require.Nil(t, slow.then.Load())
}

func TestALookGoesOnBehindThousandsOfEntriesOfAnUnfollowedAuthor(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 2, 0)
	seen := w.watch("ann", "")
	low := w.post(names[1], "below them")
	w.entries("ann", names[0], 12_000)
	high := w.post(names[1], "above them")
	w.deliver()
	require.NoError(t, w.Unfollow(t.Context(), "ann", names[0]))
	assert.Equal(t, []string{low.ID, high.ID}, w.arrivals("ann", seen))
}

// A stream reads a post that was deleted before the stream sent it only once.
func TestADeletedPostCostsOneLook(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 1, 3)
	seen := w.watch("ann", "")
	idle := func() int {
		tp.take()
		assert.Empty(t, w.arrivals("ann", seen))
		return len(tp.take())
	}
	calls := idle()
	for range 2 {
		gone, shown := w.post(names[0], "gone"), w.post(names[0], "shown")
		w.deliver()
		require.NoError(t, w.DeletePost(t.Context(), names[0], gone.ID))
		assert.Equal(t, []string{shown.ID}, w.arrivals("ann", seen))
		assert.Equal(t, calls, idle(), "table calls")
	}
	gone := w.post(names[0], "gone")
	w.deliver()
	require.NoError(t, w.DeletePost(t.Context(), names[0], gone.ID))
	assert.Greater(t, idle(), calls, "table calls of the look that asks")
	assert.Equal(t, calls, idle(), "table calls")
}

// Each read of a stream may fail. Then the client gets the error, and the next look sends the missing
// posts.
func TestAStreamWhoseReadFailsIsUnavailable(t *testing.T) {
	for name, do := range map[string]func(w *world, seen *home.Streamed) error{
		"start": func(w *world, _ *home.Streamed) error {
			_, err := w.HomeStreamed(t.Context(), "ann", "")
			return err
		},
		"look": func(w *world, seen *home.Streamed) error {
			for items, err := range w.Arrivals(t.Context(), "ann", seen) {
				if err != nil {
					assert.Empty(t, items)
					return err
				}
			}
			return nil
		},
		"likes": func(w *world, seen *home.Streamed) error {
			_, err := w.LikeChanges(t.Context(), "ann", seen)
			return err
		},
	} {
		for nth, failed := 1, true; failed; nth++ {
			w, tp := tapped(t)
			author := w.crowd("ann", 1, 30)[0]
			w.addLikes(w.page("ann", 1)[0].Post.ID, 1)
			seen := w.watch("ann", "")
			p := w.post(author, "new")
			w.entry("ann", author, w.ids(1)[0], 1) // the post of this entry is not visible yet
			w.deliver()
			reads := 0
			tp.set(func(call) failure {
				if reads++; reads == nth {
					return lost
				}
				return works
			})
			err := do(w, seen)
			tp.set(nil)
			if failed = reads >= nth; failed {
				wantKind(t, err, fault.Unavailable)
				assert.Equal(t, []string{p.ID}, w.arrivals("ann", seen), "%s, read %d", name, nth)
				continue
			}
			require.NoError(t, err, name)
			assert.Greater(t, nth, 2, "reads of a %s", name)
		}
	}
}

// A returning reader may follow more authors than one request can read. Such a reader has no stream
// until the home is built.
func TestAHomeThatHasToBeGatheredIsNotStreamed(t *testing.T) {
	w := newWorld(t, active(2))
	w.followees("viewer", gatherLists+1)
	w.put(schema.Presence{User: "viewer", State: schema.PresenceHere, Until: w.today() - 1}.Item())
	_, err := w.HomeStreamed(t.Context(), "viewer", "")
	wantKind(t, err, fault.Unavailable)
}

// A stream sends each count of the newest 20 posts once. The stream does not remember the counts of
// older posts.
func TestAStreamTellsACountAgainWhereItForgotIt(t *testing.T) {
	w := newWorld(t)
	w.crowd("ann", 1, 30)
	w.users("bob")
	posts := w.page("ann", 30)
	w.addLikes(posts[5].Post.ID, 3)
	w.addLikes(posts[19].Post.ID, 2)
	seen := w.watch("ann", "")
	changes := func(seen *home.Streamed) []home.PostLikes {
		likes, err := w.LikeChanges(t.Context(), "ann", seen)
		require.NoError(t, err)
		return likes
	}
	want := []home.PostLikes{{PostID: posts[5].Post.ID, Count: 3}, {PostID: posts[19].Post.ID, Count: 2}}
	assert.Equal(t, want, changes(seen))
	assert.Equal(t, want, changes(seen.Clone()), "another reader")
	w.follow("ann", "bob")
	p := w.post("bob", "new")
	w.deliver()
	assert.Equal(t, []string{p.ID}, w.arrivals("ann", seen))
	assert.Empty(t, changes(seen))
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	assert.Empty(t, w.arrivals("ann", seen))
	assert.Equal(t, want[1:], changes(seen), "it is among the newest 20 again")
}
