package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func (w *world) bookmark(user string, posts ...feed.Post) {
	w.t.Helper()
	for _, p := range posts {
		w.clock.add(time.Millisecond)
		require.NoError(w.t, w.Bookmark(w.t.Context(), user, p.ID))
	}
}

// bookmarks checks the list of a user's bookmarks, and reads each bookmark of the list by its post.
func (w *world) bookmarks(user string, want ...feed.Post) {
	w.t.Helper()
	ids := []string{}
	for _, p := range want {
		ids = append(ids, p.ID)
	}
	for _, limit := range []int{1, 2, 100} {
		got := []string{}
		for _, b := range list(w.t, limit, func(in page.Request) (page.List[feed.Bookmarked], error) { return w.Bookmarks(w.t.Context(), user, in) }) {
			got = append(got, b.PostID)
			one, err := w.BookmarkOf(w.t.Context(), user, b.PostID)
			require.NoError(w.t, err)
			assert.Equal(w.t, b, one)
		}
		assert.Equal(w.t, ids, got, user)
		views := []string{}
		for _, v := range list(w.t, limit, func(in page.Request) (page.List[view.Post], error) { return w.BookmarkViews(w.t.Context(), user, in) }) {
			views = append(views, v.Post.ID)
			assert.False(w.t, v.At.IsZero())
		}
		assert.Equal(w.t, ids, views, user)
	}
}

// The list has the newest bookmark first, whatever the age of the bookmark's post.
func TestBookmarksAreListedNewestFirst(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	old, middle, young := w.post("bob", "old"), w.post("bob", "middle"), w.post("ann", "my own")
	w.bookmarks("ann")
	w.bookmark("ann", young, old, middle)
	made := w.clock.now()
	w.clock.add(time.Minute)
	w.bookmark("ann", young, middle)
	w.bookmarks("ann", middle, old, young)
	w.bookmarks("bob")
	b, err := w.BookmarkOf(t.Context(), "ann", middle.ID)
	require.NoError(t, err)
	assert.Equal(t, made.Truncate(time.Millisecond), b.BookmarkedAt, "the second call changed nothing")
	require.NoError(t, w.Unbookmark(t.Context(), "ann", old.ID))
	require.NoError(t, w.Unbookmark(t.Context(), "ann", old.ID))
	w.bookmarks("ann", middle, young)
	w.bookmark("ann", old)
	w.bookmarks("ann", old, middle, young)
	for _, p := range []feed.Post{old, middle, young} {
		require.NoError(t, w.Unbookmark(t.Context(), "ann", p.ID))
	}
	assert.Empty(t, w.partition(schema.BookmarksPK("ann")), "no half is left")
	u, err := w.User(t.Context(), "bob")
	require.NoError(t, err)
	assert.Equal(t, feed.Counts{Posts: 2}, u.Counts)
}

func TestABookmarkIsHiddenWhileItsPostMayNotBeSeen(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	his, hers, other := w.post("bob", "his"), w.post("ann", "hers"), w.post("cid", "another")
	w.bookmark("ann", his, other)
	w.bookmark("bob", hers)
	for _, by := range [][2]string{{"ann", "bob"}, {"bob", "ann"}} {
		w.block(by[0], by[1])
		w.bookmarks("ann", other)
		w.bookmarks("bob")
		_, err := w.BookmarkOf(t.Context(), "ann", his.ID)
		wantKind(t, err, fault.NotFound)
		wantKind(t, w.Bookmark(t.Context(), "bob", hers.ID), fault.Blocked)
		w.unblock(by[0], by[1])
		w.bookmarks("ann", other, his)
		w.bookmarks("bob", hers)
	}
	w.mute("ann", "bob")
	w.bookmarks("ann", other, his)
	require.NoError(t, w.DeletePost(t.Context(), "bob", his.ID))
	w.bookmarks("ann", other)
	_, err := w.BookmarkOf(t.Context(), "ann", his.ID)
	wantKind(t, err, fault.NotFound)
	require.NoError(t, w.Unbookmark(t.Context(), "ann", his.ID))
	w.block("ann", "cid")
	require.NoError(t, w.Unbookmark(t.Context(), "ann", other.ID))
	assert.Empty(t, w.partition(schema.BookmarksPK("ann")))
}

func TestRefusedBookmarks(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	post := w.post("bob", "his")
	wantKind(t, w.Bookmark(t.Context(), "new", post.ID), fault.ProfileMissing)
	wantKind(t, w.Unbookmark(t.Context(), "new", post.ID), fault.ProfileMissing)
	wantKind(t, w.Bookmark(t.Context(), "ann", w.ids(1)[0]), fault.NotFound)
	require.NoError(t, w.Unbookmark(t.Context(), "ann", w.ids(1)[0]), "of nothing")
	_, err := w.BookmarkOf(t.Context(), "ann", post.ID)
	wantKind(t, err, fault.NotFound)
	w.bookmark("bob", post)
	first, err := w.Bookmarks(t.Context(), "bob", page.Request{})
	require.NoError(t, err)
	_, err = w.Bookmarks(t.Context(), "ann", page.Request{Cursor: first.NextCursor + "A"})
	wantKind(t, err, fault.Malformed)
}

// bookmarked makes user bookmark posts in order.
func (w *world) bookmarked(user string, posts []string) {
	w.t.Helper()
	var items []table.Item
	for i, v := range w.ids(len(posts)) {
		listed, byPost := schema.Bookmark{User: user, Post: posts[i], V: v}.Items()
		items = append(items, listed, byPost)
	}
	w.put(items...)
}

// living stores n posts by author as posts by id, and returns their ids.
func (w *world) living(author string, n int) []string {
	w.t.Helper()
	posts, items := w.ids(n), make([]table.Item, n)
	for i, post := range posts {
		items[i] = schema.PostRef{ID: post, Author: author, LikeShards: 1}.Item()
	}
	w.put(items...)
	return posts
}

// A user may have MaxBookmarks bookmarks. A new bookmark first ends bookmarks of deleted posts,
// because no list shows such bookmarks.
func TestBookmarksHaveABound(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	more, again := w.post("bob", "more"), w.post("bob", "again")
	w.bookmarked("ann", append(w.deletedPosts("bob", 1), w.living("bob", feed.MaxBookmarks-1)...))
	w.bookmark("ann", more)
	assert.Len(t, w.partition(schema.BookmarksPK("ann")), 2*feed.MaxBookmarks, "the bookmark of the deleted post has gone")
	wantKind(t, w.Bookmark(t.Context(), "ann", again.ID), fault.Limit)
	w.bookmark("ann", more)
	w.bookmark("bob", again)
	require.NoError(t, w.Unbookmark(t.Context(), "ann", more.ID))
	w.bookmark("ann", again)
}

// Nearly all bookmarks are of deleted posts, or hidden by a block. A page skips such bookmarks within
// its budget (I11).
func TestBookmarksBehindHundredsOfHiddenOnes(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob", "cid")
	old, young := w.post("bob", "old"), w.post("bob", "new")
	w.bookmark("ann", old)
	w.bookmarked("ann", append(w.deletedPosts("cid", 500), w.living("cid", 490)...))
	w.bookmark("ann", young)
	w.block("ann", "cid")
	for _, limit := range skippedLimits {
		got := wholeList(t, tp, limit, tableCalls+smallCalls, 14, func(in page.Request) (page.List[feed.Bookmarked], error) {
			return w.Bookmarks(t.Context(), "ann", in)
		})
		wantSame(t, limit, []string{got[0].PostID, got[len(got)-1].PostID}, []string{young.ID, old.ID})
		assert.Len(t, got, 2)
	}
}

func TestAnImportedBookmarkKeepsItsTime(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	first, second := w.post("bob", "first"), w.post("bob", "second")
	w.bookmark("ann", first)
	require.NoError(t, w.ImportBookmark(t.Context(), "ann", second.ID, longAgo))
	require.NoError(t, w.ImportBookmark(t.Context(), "ann", second.ID, longAgo.Add(time.Hour)))
	require.NoError(t, w.ImportBookmark(t.Context(), "ann", first.ID, longAgo))
	w.bookmarks("ann", first, second)
	b, err := w.BookmarkOf(t.Context(), "ann", second.ID)
	require.NoError(t, err)
	assert.True(t, longAgo.Equal(b.BookmarkedAt), b.BookmarkedAt)
	require.NoError(t, w.DeletePost(t.Context(), "bob", second.ID))
	require.NoError(t, w.ImportBookmark(t.Context(), "ann", second.ID, longAgo), "the post was deleted since")
	wantKind(t, w.ImportBookmark(t.Context(), "new", first.ID, longAgo), fault.ProfileMissing)
}
