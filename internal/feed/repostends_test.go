package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// story makes a post that ends.
func (w *world) story(author string, lasts time.Duration) feed.Post {
	w.t.Helper()
	p, err := w.CreatePost(w.t.Context(), author, feed.PostInput{Content: feed.Content{Text: "story", ExpiresAt: w.clock.now().Add(lasts)}})
	require.NoError(w.t, err)
	return p
}

// The id of a repost may be ahead of the clock, because the ids of its user are: no repost begins after the end of its original.
func TestARepostAfterTheEndOfItsOriginalIsRefused(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.story("ann", time.Minute)
	w.clock.add(70 * time.Second)
	q := w.post("bob", "from a clock that is ahead")
	w.clock.add(-20 * time.Second)
	require.NoError(t, w.DeletePost(t.Context(), "bob", q.ID)) // the next id is above the newest deleted post
	w.published.take()
	_, err := w.Repost(t.Context(), "bob", p.ID)
	wantKind(t, err, fault.NotFound)
	require.Empty(t, w.published.take())
	require.Nil(t, w.item(schema.RepostKey("bob", p.ID)))
}

// A repost ends with its original. A call that ends it afterwards succeeds, and leaves no binding.
func TestTheEndOfARepostThatHasEndedSucceeds(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.story("ann", time.Hour)
	w.repost("bob", p.ID)
	w.clock.add(2 * time.Hour)
	q := w.post("ann", "q")
	require.NoError(t, w.DeletePost(t.Context(), "bob", w.repost("bob", q.ID).ID)) // a repost that was deleted as a post
	for range 2 {
		for _, post := range []string{p.ID, q.ID} {
			w.endRepost("bob", post)
			require.Nil(t, w.item(schema.RepostKey("bob", post)))
		}
	}
}

// A repost may be named by its own id, and only a user with a profile ends one.
func TestARepostEndsByItsOwnID(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	r := w.repost("bob", w.post("ann", "p").ID)
	wantKind(t, w.EndRepost(t.Context(), "nobody", r.ID), fault.ProfileMissing)
	w.repost("cid", r.ID)
	w.endRepost("cid", r.ID)
	_, err := w.Post(t.Context(), access.Viewer{}, r.ID)
	require.NoError(t, err, "cid has ended cid's own repost")
	w.endRepost("bob", r.ID)
	_, err = w.Post(t.Context(), access.Viewer{}, r.ID)
	wantKind(t, err, fault.NotFound)
}

// An hour that is used up refuses a new repost, which is then not bound, and no repeated call of a living repost. A repost
// whose call died counts in its own hour.
func TestARefusedRepostIsNotBound(t *testing.T) {
	w := newWorld(t, withLimit(1000))
	w.users("ann", "bob")
	w.famous("ann", 5_000_000)
	p, q := w.post("bob", "p"), w.post("bob", "q")
	living := w.repost("ann", p.ID)
	for range 3 {
		w.post("ann", "x")
	}
	w.published.take()
	_, err := w.Repost(t.Context(), "ann", q.ID)
	wantKind(t, err, fault.TooSoon)
	require.Nil(t, w.item(schema.RepostKey("ann", q.ID)))
	require.Equal(t, living.ID, w.repost("ann", p.ID).ID)
	require.Empty(t, w.published.take())

	bound, err := id.Named(w.clock.now(), "bound")
	require.NoError(t, err)
	w.put(schema.Repost{User: "bob", Of: q.ID, R: bound}.Item())
	w.clock.add(time.Hour)
	before := w.spent("bob")[schema.HourOf(w.clock.now().Add(-time.Hour)).AttrMade()]
	require.Equal(t, bound, w.repost("bob", q.ID).ID)
	require.Equal(t, before+1, w.spent("bob")[schema.HourOf(w.clock.now().Add(-time.Hour)).AttrMade()])
}

// A worker writes a bound repost between the read of a call and its tombstone: an end ends this repost, and a repeated call
// returns it.
func TestARepostThatIsWrittenBesideItsTombstoneIsFound(t *testing.T) {
	for name, age := range map[string]time.Duration{"an end": 0, "a repeated call": 40 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			var beside func()
			var bound string
			w := newWorld(t, func(c *config) {
				c.Store = &hooked{c.Store, func(key table.Key) bool { return bound != "" && key == schema.PostByIDKey(bound) }, &beside}
			})
			w.users("ann", "bob")
			p := w.post("ann", "p")
			at, err := id.Named(w.clock.now().Add(-age), "bound")
			require.NoError(t, err)
			bound = at
			w.put(schema.Repost{User: "bob", Of: p.ID, R: bound}.Item())
			beside = func() {
				beside = nil
				r := schema.Post{ID: bound, Author: "bob", Reference: feed.Reference{RepostOf: p.ID, OfAuthor: "ann", OfShards: 1}, LikeShards: 1}
				w.put(r.Item())
				w.put(r.Ref(time.Hour).Item())
			}
			if age == 0 {
				w.endRepost("bob", p.ID)
				require.Nil(t, w.item(schema.PostKey("bob", bound)))
				require.Nil(t, w.item(schema.RepostKey("bob", p.ID)))
			} else {
				require.Equal(t, bound, w.repost("bob", p.ID).ID)
			}
			require.Nil(t, beside)
		})
	}
}

// A repost is in a home as long as its original lives, whatever ends the original.
func TestARepostLeavesHomesWithItsOriginal(t *testing.T) {
	for name, ends := range map[string]func(w *world, p feed.Post) error{
		"a deletion": func(w *world, p feed.Post) error { return w.DeletePost(t.Context(), "dan", p.ID) },
		"a take-down": func(w *world, p feed.Post) error {
			_, err := w.TakeDown(t.Context(), "mod", p.ID, "spam")
			return err
		},
		"its end": func(w *world, _ feed.Post) error { w.clock.add(2 * time.Hour); return nil },
		"the removal of its author": func(w *world, _ feed.Post) error {
			return w.Remove(t.Context(), "dan", func(int) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.users("ann", "bob", "dan")
			w.follow("ann", "bob")
			w.deliver()
			p := w.story("dan", time.Hour)
			w.repost("bob", p.ID)
			w.deliver()
			w.clock.add(2 * time.Minute)
			w.lines("ann", "bob>story")
			require.NoError(t, ends(w, p))
			w.lines("ann")
			w.lines("bob")
		})
	}
}

// A post that is too old for homes shows again at its repost, for the time of the repost.
func TestARepostShowsAnOldPostAgain(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	w.follow("ann", "bob")
	w.follow("ann", "dan")
	w.deliver()
	p := w.post("dan", "p")
	w.deliver()
	w.clock.add(timelineTTL + time.Hour)
	w.lines("ann")
	w.repost("bob", p.ID)
	w.deliver()
	w.lines("ann", "bob>p")
	w.clock.add(timelineTTL + time.Hour)
	w.lines("ann")
}

// A post shows at its newest repost, which explain names, for the post and for each older repost.
func TestAnExplanationNamesTheRepostThatShows(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid", "dan")
	for _, author := range []string{"bob", "cid", "dan"} {
		w.follow("ann", author)
	}
	p := w.post("dan", "p")
	older, newest := w.repost("bob", p.ID), w.repost("cid", p.ID)
	w.deliver()
	for _, post := range []string{p.ID, older.ID} {
		all, err := w.Explain(t.Context(), nil, "ann", post)
		require.NoError(t, err)
		require.Equal(t, home.ReasonRepeat, all[0].Reason)
		require.Equal(t, newest.ID, all[0].Newer)
	}
	all, err := w.Explain(t.Context(), nil, "ann", "") // all posts of the home, newest first
	require.NoError(t, err)
	reasons := map[string]home.Reason{}
	for _, e := range all {
		reasons[e.Post] = e.Reason
	}
	require.True(t, reasons[newest.ID].Shown())
	require.Equal(t, []home.Reason{home.ReasonRepeat, home.ReasonRepeat}, []home.Reason{reasons[p.ID], reasons[older.ID]})
}

// The number of newer posts counts a post once, also if its repost is on the first page and the post is not.
func TestNewsCountARepostedPostOnce(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "dan")
	w.follow("ann", "bob")
	w.follow("ann", "dan")
	before := w.post("dan", "seen")
	p := w.post("dan", "p")
	w.post("dan", "q")
	w.repost("bob", p.ID)
	w.post("dan", "r")
	w.deliver()
	for _, limit := range []int{1, 2, 10} { // the first page ends before the repost, with the repost, and after all posts
		news := w.news("ann", home.Query{After: before.ID}, limit)
		require.Equal(t, 3, news.Unread, "pages of %d", limit)
	}

	w = newWorld(t) // the home is gathered
	names := w.followees("viewer", pageLists+1)
	w.users(names[0], names[pageLists])
	p = w.post(names[0], "p")
	w.post(names[0], "q")
	w.repost(names[pageLists], p.ID)
	w.post(names[0], "r")
	for _, limit := range []int{1, 2, 10} {
		news := w.news("viewer", home.Query{Pull: true, After: id.Min}, limit)
		require.Equal(t, 3, news.Unread, "pages of %d", limit)
	}
}

// The likes of an original with many followers are in many shards. A quote has its own marks, not the marks of the quoted post.
func TestAnOriginalHasTheLikeOfTheReader(t *testing.T) {
	w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 1 })
	w.users("ann", "bob", "cid", "dan")
	w.follow("ann", "bob")
	w.follow("cid", "dan")
	p := w.post("dan", "p") // two shards
	w.deliver()
	require.NoError(t, w.Like(t.Context(), "ann", p.ID))
	require.NoError(t, w.Bookmark(t.Context(), "ann", p.ID))
	for name, refer := range map[string]func() error{
		"a repost": func() error { _, err := w.Repost(t.Context(), "bob", p.ID); return err },
		"a quote": func() error {
			_, err := w.CreatePost(t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: "q"}, QuoteOf: p.ID})
			return err
		},
		"an import of a quote": func() error {
			ref, err := w.ImportPost(t.Context(), schema.Post{ID: w.newULID(), Author: "bob", Content: feed.Content{Text: "q"}, Reference: feed.Reference{QuoteOf: p.ID}})
			require.NoError(t, err)
			w.fanOut(&messages.PostCreated{PostID: ref.ID, AuthorID: "bob", LikeShards: ref.LikeShards, Content: feed.Content{Text: "q"}})
			return err
		},
	} {
		w.clock.add(time.Millisecond)
		require.NoError(t, refer(), name)
		w.deliver()
		newest := w.home("ann", 1, home.Query{View: true})[0]
		require.NotNil(t, newest.Of, name)
		require.True(t, newest.Of.Liked, name)
		require.EqualValues(t, 1, newest.Of.LikeCount, name)
		require.Equal(t, newest.Post.RepostOf != "", newest.Bookmarked, name)
	}
}

// A repost counts until it has ended: an end that fails takes nothing out of the count. The tombstone names the original,
// because the purge takes the repost out of the count, too.
func TestARepostCountsUntilItHasEnded(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("ann", "p")
	r := w.repost("bob", p.ID)
	w.deliver()
	ends := func() (n int) {
		for _, e := range w.published.take() {
			if of, ok := e.(*messages.Reposted); ok && of.Deleted && of.EventID > r.ID && of.RepostID == r.ID {
				n++
			}
		}
		return n
	}
	tp.set(func(c call) failure {
		if c.op == table.OpTransact {
			return lost
		}
		return works
	})
	require.Error(t, w.DeletePost(t.Context(), "bob", r.ID))
	failed := ends()
	tp.set(nil)
	require.NoError(t, w.DeletePost(t.Context(), "bob", r.ID))
	require.Equal(t, failed+1, ends(), "the event for the notification, and the event for the count")
	tombstone, err := schema.ParsePostRef(*w.item(schema.PostByIDKey(r.ID)))
	require.NoError(t, err)
	require.True(t, tombstone.Deleted)
	require.Equal(t, p.ID, tombstone.RepostOf)
}

// A worker writes a repost whose call could not, without a text. An import may be repeated, and ends the repost with its original.
func TestARepostIsWrittenFromItsEventAndByAnImport(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	w.follow("ann", "bob")
	w.deliver()
	p := w.story("cid", time.Hour)
	w.deliver()
	r := w.repost("bob", p.ID)
	for _, key := range []table.Key{schema.PostKey("bob", r.ID), schema.PostByIDKey(r.ID)} { // as if the table had failed
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: key})
		require.NoError(t, err)
	}
	w.deliver()
	w.lines("ann", "bob>story")

	w.clock.add(time.Second)
	past := w.newULID()
	for range 2 {
		made, err := w.ImportRepost(t.Context(), past, "cid", p.ID)
		require.NoError(t, err)
		require.False(t, made.Deleted)
		require.Equal(t, past, made.ID)
		require.Equal(t, p.ExpiresAt.UTC(), made.End.UTC())
	}
}
