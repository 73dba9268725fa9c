package feed_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// marks returns the posts of items that are bookmarked.
func marks(items ...feed.HomeItem) (posts []string) {
	for _, it := range items {
		if it.Bookmarked {
			posts = append(posts, it.Post.ID)
		}
	}
	slices.Sort(posts)
	return posts
}

func marksOf(views []view.Post) []string {
	items := make([]feed.HomeItem, len(views))
	for i, v := range views {
		items[i] = v.HomeItem
	}
	return marks(items...)
}

// Each view shows its viewer's bookmarks, also of the oldest and the newest post of a page, and no bookmarks
// of other users.
func TestEachViewShowsTheBookmarksOfItsViewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config) { c.LikesByUser = true })
	w.users("ann", "bob", "cid")
	w.follow("ann", "bob")
	posts := make([]feed.Post, 5)
	for i := range posts {
		posts[i] = w.post("bob", "x")
		w.comment("cid", posts[i].ID)
		require.NoError(t, w.Like(t.Context(), "cid", posts[i].ID))
	}
	w.deliver()
	w.bookmark("ann", posts[4], posts[0], posts[1])
	w.bookmark("bob", posts[2], posts[3])
	want, ids := []string{posts[0].ID, posts[1].ID, posts[4].ID}, []string{}
	for _, p := range posts {
		ids = append(ids, p.ID)
	}
	for _, limit := range []int{1, 2, 5} {
		for _, query := range []home.Query{{View: true}, {View: true, Pull: true}, {View: true, After: posts[0].ID}} {
			shown := list(t, limit, func(in page.Request) (page.List[feed.HomeItem], error) { return w.Home(t.Context(), "ann", query, in) })
			assert.Equal(t, slices.DeleteFunc(slices.Clone(want), func(post string) bool { return post <= query.After }), marks(shown...), "%d %+v", limit, query)
		}
		assert.Equal(t, want, marksOf(list(t, limit, func(in page.Request) (page.List[view.Post], error) {
			return w.PostViewsByUser(t.Context(), access.As("ann"), "bob", feed.PostRange{}, in)
		})))
		assert.Equal(t, want, marksOf(list(t, limit, func(in page.Request) (page.List[view.Post], error) {
			return w.LikedPostViews(t.Context(), access.As("ann"), "cid", in)
		})))
		assert.Equal(t, want, marksOf(list(t, limit, func(in page.Request) (page.List[view.Post], error) { return w.BookmarkViews(t.Context(), "ann", in) })))
		var on []view.Post
		for _, c := range list(t, limit, func(in page.Request) (page.List[view.CommentOnPost], error) {
			return w.CommentViewsByUser(t.Context(), access.As("ann"), "cid", in)
		}) {
			on = append(on, c.On)
		}
		assert.Equal(t, want, marksOf(on))
	}
	found, err := w.PostViews(t.Context(), access.As("ann"), ids)
	require.NoError(t, err)
	assert.Equal(t, want, marksOf(found.Items))
	for i, p := range posts {
		one, err := w.PostView(t.Context(), access.As("ann"), p.ID)
		require.NoError(t, err)
		assert.Equal(t, slices.Contains(want, p.ID), one.Bookmarked, i)
	}
	assert.Empty(t, marks(w.home("ann", 5, home.Query{})...), "a bare home has no bookmarks")
	require.NoError(t, w.Unbookmark(t.Context(), "ann", posts[4].ID))
	assert.Equal(t, want[:2], marks(w.home("ann", 5, home.Query{View: true})...))
}

// A page that is filled up after deleted posts has the bookmarks of all its posts.
func TestAFilledUpHomeShowsBookmarks(t *testing.T) {
	t.Parallel()
	for _, gone := range []int{1, 3} {
		w := newWorld(t)
		w.users("ann", "bob")
		w.follow("ann", "bob")
		posts := make([]feed.Post, 8)
		for i := range posts {
			posts[i] = w.post("bob", "x")
		}
		w.deliver()
		w.bookmark("ann", posts...)
		for _, p := range posts[5 : 5+gone] {
			require.NoError(t, w.DeletePost(t.Context(), "bob", p.ID))
		}
		first, err := w.Home(t.Context(), "ann", home.Query{View: true}, page.Request{Limit: 4})
		require.NoError(t, err)
		assert.Lenf(t, first.Items, min(4, len(posts)-gone), "%d deleted posts leave a short page", gone)
		assert.Lenf(t, marks(first.Items...), min(4, len(posts)-gone), "%d deleted posts", gone)
		items := w.home("ann", 4, home.Query{View: true})
		assert.Len(t, items, len(posts)-gone)
		assert.Len(t, marks(items...), len(posts)-gone)
	}
}

// If the user has many bookmarks between the posts of a page, one query reads some of the bookmarks, and a read
// the rest by key. One more call reads the profile.
func TestBookmarksOfAPageTakeThreeCallsAtMost(t *testing.T) {
	t.Parallel()
	w, tp := tapped(t)
	w.users("ann", "bob")
	posts := w.living("bob", 200)
	w.bookmarked("ann", posts)
	refs := []access.Ref{{Post: w.ids(1)[0]}, {Post: posts[199]}, {Post: posts[1]}, {Post: posts[0]}} // newest first, as in a page
	tp.take()
	marked, err := w.KeptOf(t.Context(), &page.Budget{}, "ann", refs)
	require.NoError(t, err)
	for i, r := range refs {
		assert.Equal(t, i > 0, marked[r.Post].Bookmarked, i)
	}
	assert.Len(t, slices.DeleteFunc(tp.take(), func(c call) bool { return c.key.PK == schema.RepostsPK("ann") }), 3)
	marked, err = w.KeptOf(t.Context(), &page.Budget{}, "ann", nil)
	require.NoError(t, err)
	assert.Empty(t, marked)
	assert.Empty(t, tp.take())
}

// lagging is a table whose replicas have no bookmarks yet.
type lagging struct{ table.Store }

func (l lagging) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if q.PK == schema.BookmarksPK("ann") && !q.Consistent {
		return func(yield func(table.Page, error) bool) { yield(table.Page{}, nil) }
	}
	return l.Store.Query(ctx, q)
}

func TestTheListOfBookmarksShowsNewBookmarksAsBookmarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config) { c.Store = lagging{c.Store} })
	w.users("ann", "bob")
	w.bookmark("ann", w.post("bob", "1"), w.post("bob", "2"))
	views, err := w.BookmarkViews(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	assert.Len(t, marksOf(views.Items), 2)
}

// A home of gathered posts, for a reader of thousands of users, has the bookmarks, too.
func TestAGatheredHomeShowsBookmarks(t *testing.T) {
	t.Parallel()
	w, posts, cursor := gathered(t, 3)
	w.users("viewer")
	w.bookmark("viewer", posts[0], posts[2])
	list, err := w.Home(t.Context(), "viewer", home.Query{View: true, Pull: true}, page.Request{Cursor: cursor})
	require.NoError(t, err)
	assert.Len(t, list.Items, 3)
	assert.ElementsMatch(t, []string{posts[0].ID, posts[2].ID}, marks(list.Items...))
}

// A user who returns before the sweep of the removal has no bookmarks yet.
func TestViewsShowNoBookmarksOfAFormerLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	old, young := w.post("bob", "old"), w.post("bob", "young")
	w.bookmark("ann", old, young)
	shown := func() []string {
		found, err := w.PostViews(t.Context(), access.As("ann"), []string{old.ID, young.ID})
		require.NoError(t, err)
		return marksOf(found.Items)
	}
	assert.Equal(t, []string{old.ID, young.ID}, shown())
	w.returns()
	assert.NotEmpty(t, w.partition(schema.BookmarksPK("ann")), "the sweep comes later")
	assert.Empty(t, shown())
	w.bookmark("ann", young)
	assert.Equal(t, []string{young.ID}, shown())
}

// A bookmark and a repost of one post are both shown, also beside posts with only one of the two.
func TestABookmarkAndARepostOfOnePostAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	var ids []string
	for range 3 {
		ids = append(ids, w.post("bob", "x").ID)
	}
	w.bookmark("ann", feed.Post{ID: ids[0]}, feed.Post{ID: ids[1]})
	w.repost("ann", ids[1])
	w.repost("ann", ids[2])
	w.deliver()
	found, err := w.PostViews(t.Context(), access.As("ann"), ids)
	require.NoError(t, err)
	require.Len(t, found.Items, len(ids))
	for i, want := range []feed.Kept{{Bookmarked: true}, {Bookmarked: true, Reposted: true}, {Reposted: true}} {
		assert.Equal(t, want, found.Items[i].Kept, "post %d", i)
	}
}

// A page is filled up below posts that its reader does not see. The shown posts have their own bookmarks.
func TestAPageThatIsFilledUpBelowHiddenPostsShowsBookmarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob", "cid", "dan")
	w.follow("ann", "bob")
	w.follow("ann", "cid")
	of := w.post("dan", "hidden")
	marked := []feed.Post{w.post("bob", "1"), w.post("bob", "2")}
	w.repost("cid", of.ID)
	var top []feed.Post
	for range 4 {
		top = append(top, w.post("bob", "x"))
	}
	w.deliver()
	w.clock.add(2 * time.Minute)
	w.bookmark("ann", marked...)
	require.NoError(t, w.Mute(t.Context(), "ann", "dan"))
	require.NoError(t, w.DeletePost(t.Context(), "bob", top[3].ID))
	for _, limit := range []int{4, 5} {
		page, err := w.Home(t.Context(), "ann", home.Query{View: true}, page.Request{Limit: limit})
		require.NoError(t, err)
		require.Len(t, page.Items, limit)
		want := []string{marked[1].ID, marked[0].ID}[:limit-3]
		assert.ElementsMatch(t, want, marks(page.Items...), "pages of %d", limit)
	}
}

// A user who returns before the sweep of the removal makes a new repost.
func TestARepostOfAFormerLifeIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("bob", "p")
	former := w.repost("ann", p.ID)
	w.deliver()
	w.returns()
	again := w.repost("ann", p.ID)
	assert.NotEqual(t, former.ID, again.ID)
	w.deliver()
	w.sweep()
	w.deliver()
	w.clock.add(2 * time.Minute)
	w.lines("ann", "ann>p")
	assert.Equal(t, again.ID, w.repost("ann", p.ID).ID, "the sweep leaves the new binding")
}
