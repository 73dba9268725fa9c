package feed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// A post has the same form in every view: the item of a home, with the number of comments.
func TestAPostHasOneView(t *testing.T) {
	for _, byIndex := range []bool{true, false} {
		t.Run(fmt.Sprintf("likes by user %v", byIndex), func(t *testing.T) {
			w := newWorld(t, func(c *config) { c.LikesByUser = byIndex })
			w.users("ann", "bob", "cid")
			w.follow("ann", "bob")
			p, gone, other := w.post("bob", "x"), w.post("bob", "gone"), w.post("bob", "other")
			w.clock.add(time.Second)
			for _, user := range []string{"ann", "cid"} {
				require.NoError(t, w.Like(t.Context(), user, p.ID))
				require.NoError(t, w.Like(t.Context(), user, gone.ID))
			}
			w.comment("cid", p.ID)
			w.deliver()
			require.NoError(t, w.DeletePost(t.Context(), "bob", gone.ID))

			want := view.Post{HomeItem: feed.HomeItem{Post: p, Author: feed.HomeAuthor{ID: "bob", Name: "Name of bob"}, LikeCount: 2, Liked: true, CommentCount: 1}}
			plain := view.Post{HomeItem: feed.HomeItem{Post: other, Author: want.Author}}
			assert.Equal(t, []feed.HomeItem{plain.HomeItem, want.HomeItem}, w.home("ann", 5, home.Query{}))

			one, err := w.PostView(t.Context(), access.As("ann"), p.ID)
			require.NoError(t, err)
			assert.Equal(t, want, one)
			_, err = w.PostView(t.Context(), access.As("ann"), gone.ID)
			wantKind(t, err, fault.NotFound)
			found, err := w.PostViews(t.Context(), access.As("ann"), []string{p.ID, id.Min, gone.ID, other.ID, p.ID, id.Min})
			require.NoError(t, err)
			assert.Equal(t, view.Found[view.Post]{Items: []view.Post{want, plain}, Missing: []string{id.Min, gone.ID}}, found)
			found, err = w.PostViews(t.Context(), access.As("ann"), []string{gone.ID})
			require.NoError(t, err)
			assert.Equal(t, view.Found[view.Post]{Missing: []string{gone.ID}}, found)
			for limit := range 3 {
				posts := list(t, 1+limit, func(in page.Request) (page.List[view.Post], error) {
					return w.PostViewsByUser(t.Context(), access.As("ann"), "bob", feed.PostRange{}, in)
				})
				assert.Equal(t, []view.Post{plain, want}, posts)
			}
			_, err = w.PostViewsByUser(t.Context(), access.As("ann"), "nobody", feed.PostRange{}, page.Request{})
			wantKind(t, err, fault.NotFound)

			liked, err := w.LikedPostViews(t.Context(), access.As("bob"), "cid", page.Request{})
			if !byIndex {
				wantKind(t, err, fault.IndexOff)
				return
			}
			require.NoError(t, err)
			want.Liked, want.At = false, p.CreatedAt.Add(time.Second+time.Millisecond) // bob does not like this post
			require.Len(t, liked.Items, 1)
			want.At = liked.Items[0].At
			assert.False(t, want.At.Before(p.CreatedAt))
			assert.Equal(t, []view.Post{want}, liked.Items)
		})
	}
}

func TestCommentsOfAUserHaveTheirPosts(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	first, second, gone := w.post("bob", "first"), w.post("bob", "second"), w.post("bob", "gone")
	for _, p := range []feed.Post{first, second, gone, first} {
		w.comment("ann", p.ID)
	}
	w.comment("cid", second.ID)
	require.NoError(t, w.DeletePost(t.Context(), "bob", gone.ID))
	for limit := range 4 {
		comments := list(t, 1+limit, func(in page.Request) (page.List[view.CommentOnPost], error) {
			return w.CommentViewsByUser(t.Context(), access.As("cid"), "ann", in)
		})
		require.Len(t, comments, 3)
		for i, p := range []feed.Post{first, second, first} {
			want, err := w.PostView(t.Context(), access.As("cid"), p.ID)
			require.NoError(t, err)
			assert.Equal(t, want, comments[i].On)
			assert.Equal(t, p.ID, comments[i].PostID)
			assert.EqualValues(t, 2, want.CommentCount)
		}
	}
	_, err := w.CommentViewsByUser(t.Context(), access.As("cid"), "nobody", page.Request{})
	wantKind(t, err, fault.NotFound)
}

// Lists of users contain, with each user, the follows between that user and the reader.
func TestUsersInListsHaveTheFollowsOfTheirReader(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid", "dan", "eve")
	for _, follow := range []string{"ann bob", "ann cid", "cid ann", "eve ann", "bob dan", "cid dan", "eve dan", "ann dan", "dan ann", "dan bob", "dan eve"} {
		follower, author, _ := strings.Cut(follow, " ")
		w.follow(follower, author)
	}
	p := w.post("dan", "x")
	for _, user := range []string{"bob", "ann", "bob", "eve"} {
		w.comment(user, p.ID)
		require.NoError(t, w.Like(t.Context(), user, p.ID))
	}
	w.deliver()
	viewOf := func(user string) view.User {
		views := map[string]view.User{
			"ann": {}, "bob": {Following: true}, "cid": {Following: true, FollowedBy: true}, "dan": {Following: true, FollowedBy: true}, "eve": {FollowedBy: true},
		}
		v := views[user]
		v.ID, v.Name = user, "Name of "+user
		return v
	}
	edges := func(read func(context.Context, string, page.Request) (page.List[feed.Edge], error), users ...string) {
		t.Helper()
		for limit := range 4 {
			items := list(t, 1+limit, func(in page.Request) (page.List[view.WithUser[feed.Edge]], error) {
				return viewed(t.Context(), w.EdgeViews, "ann")(read(t.Context(), "dan", in))
			})
			require.Len(t, items, len(users))
			for i, user := range users {
				assert.Equal(t, user, items[i].Item.UserID)
				assert.Equal(t, viewOf(user), items[i].User)
			}
		}
	}
	edges(w.Followers, "ann", "bob", "cid", "eve")
	edges(func(ctx context.Context, user string, in page.Request) (page.List[feed.Edge], error) {
		return w.Following(ctx, "ann", user, in)
	}, "ann", "bob", "eve")
	edges(w.Friends, "ann", "bob", "eve")
	likers := list(t, 2, func(in page.Request) (page.List[view.WithUser[feed.Liker]], error) {
		return viewed(t.Context(), w.LikerViews, "ann")(w.Likers(t.Context(), access.Viewer{}, p.ID, in))
	})
	comments := list(t, 3, func(in page.Request) (page.List[view.WithUser[feed.Comment]], error) {
		return viewed(t.Context(), w.CommentViews, "ann")(w.Comments(t.Context(), access.Viewer{}, p.ID, in))
	})
	require.Len(t, likers, 3)
	require.Len(t, comments, 4)
	for i, user := range []string{"ann", "bob", "eve"} {
		assert.Equal(t, viewOf(user), likers[i].User)
	}
	for i, user := range []string{"bob", "ann", "bob", "eve"} {
		assert.Equal(t, viewOf(user), comments[i].User)
	}
	found, err := w.UserViews(t.Context(), "ann", []string{"eve", "nobody", "bob", "eve"})
	require.NoError(t, err)
	assert.Equal(t, view.Found[view.User]{Items: []view.User{viewOf("eve"), viewOf("bob")}, Missing: []string{"nobody"}}, found)
	relations, err := w.Relations(t.Context(), "ann", "cid")
	require.NoError(t, err)
	assert.True(t, relations.Following && relations.FollowedBy)
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	found, err = w.UserViews(t.Context(), "ann", []string{"bob", "eve"})
	require.NoError(t, err)
	assert.False(t, found.Items[0].Following, "the unfollow shows at once")
}

// A reader with thousands of edges costs a page at most one key for each user of the page.
func TestTheEdgesOfAReaderWhoFollowsThousandsAreReadByKey(t *testing.T) {
	w, tp := tapped(t)
	names := numbered(1000, "user")
	w.users("ann", "dan")
	w.users(names...)
	var shown []string
	for i, name := range names {
		w.follow("ann", name)
		if i%100 == 99 {
			w.follow(name, "dan")
			w.follow(name, "ann")
			shown = append(shown, name)
		}
	}
	tp.take()
	page, err := viewed(t.Context(), w.EdgeViews, "ann")(w.Followers(t.Context(), "dan", page.Request{}))
	require.NoError(t, err)
	require.Len(t, page.Items, len(shown))
	for i, item := range page.Items {
		assert.Equal(t, shown[i], item.User.ID)
		assert.True(t, item.User.Following && item.User.FollowedBy, "%+v", item.User)
	}
	keys := 0
	calls := tp.take()
	for _, c := range calls {
		keys += c.keys
	}
	assert.LessOrEqual(t, len(calls), 6)
	assert.LessOrEqual(t, keys, 3*len(shown)+3)
}

// A user who did not exist at the first request shows at once after the creation of the profile, in
// the same process.
func TestAUserWhoComesIsFoundAtOnce(t *testing.T) {
	w := newWorld(t, sharing)
	other := newWorld(t, func(c *config) { c.Store = w.store })
	found, err := w.UserViews(t.Context(), "ann", []string{"ann"})
	require.NoError(t, err)
	assert.Equal(t, []string{"ann"}, found.Missing)
	other.users("ann")
	found, err = w.UserViews(t.Context(), "ann", []string{"ann"})
	require.NoError(t, err)
	assert.Empty(t, found.Missing)
	p := other.post("ann", "x")
	view, err := w.PostView(t.Context(), access.As("ann"), p.ID)
	require.NoError(t, err)
	assert.Equal(t, "Name of ann", view.Author.Name)
}

// Pages of views end after 256 KiB of JSON, too, with their names and images.
func TestAPageOfViewsEndsAfterItsBytes(t *testing.T) {
	const items, most = 100, 256 << 10
	w := newWorld(t)
	w.users("ann", "dan")
	image := "https://img.example/" + strings.Repeat("\U0001F600", 500)
	image += strings.Repeat("x", 2048-520)
	for _, name := range numbered(items, "user") {
		_, err := w.PutProfile(t.Context(), name, feed.ProfileInput{Name: strings.Repeat("\U0001F600", 100), ImageURL: image})
		require.NoError(t, err)
		w.follow(name, "dan")
	}
	followers := pagesOf(t, most, func(in page.Request) (page.List[view.WithUser[feed.Edge]], error) {
		return viewed(t.Context(), w.EdgeViews, "ann")(w.Followers(t.Context(), "dan", in))
	})
	assert.Len(t, followers, items)
	users, err := w.UserViews(t.Context(), "ann", numbered(items, "user"))
	require.NoError(t, err)
	assert.NotEmpty(t, users.Rest)
	assert.Len(t, users.Items, items-len(users.Rest))

	var ids []string
	for range items {
		ids = append(ids, w.post("dan", strings.Repeat("\u2028", 5000)).ID)
	}
	posts := pagesOf(t, most, func(in page.Request) (page.List[view.Post], error) {
		return w.PostViewsByUser(t.Context(), access.As("ann"), "dan", feed.PostRange{}, in)
	})
	assert.Len(t, posts, items)
	var seen []string
	for rest := ids; len(rest) > 0; {
		found, err := w.PostViews(t.Context(), access.As("ann"), rest)
		require.NoError(t, err)
		body, err := json.Marshal(found.Items)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(body), most)
		for _, v := range found.Items {
			seen = append(seen, v.Post.ID)
		}
		assert.Empty(t, found.Missing)
		rest = found.Rest
	}
	assert.True(t, slices.Equal(ids, seen))
}

// Whatever a page shows, the views of the page take a bounded number of further table calls.
func TestViewsOfAPageTakeABoundedNumberOfCalls(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	authors := w.crowd("ann", 100, 100)
	var ids []string
	for _, author := range authors {
		w.follow(author, "ann")
		posts, err := w.PostsByUser(t.Context(), access.Viewer{}, author, feed.PostRange{}, page.Request{})
		require.NoError(t, err)
		p := posts.Items[0]
		ids = append(ids, p.ID)
		w.comment(author, ids[0])
		require.NoError(t, w.Like(t.Context(), "ann", p.ID))
		require.NoError(t, w.Like(t.Context(), author, ids[0]))
	}
	w.deliver()
	page := page.Request{Limit: 100}
	for name, read := range map[string]struct {
		do    func() error
		calls int
	}{
		"followers": {func() error {
			return pageOf(viewed(t.Context(), w.EdgeViews, authors[0])(w.Followers(t.Context(), "ann", page)))
		}, 6},
		"following": {func() error {
			return pageOf(viewed(t.Context(), w.EdgeViews, "ann")(w.Following(t.Context(), "ann", "ann", page)))
		}, 6},
		"friends": {func() error {
			return pageOf(viewed(t.Context(), w.EdgeViews, "ann")(w.Friends(t.Context(), "ann", page)))
		}, 9},
		"likers": {func() error {
			return pageOf(viewed(t.Context(), w.LikerViews, "ann")(w.Likers(t.Context(), access.Viewer{}, ids[0], page)))
		}, 7},
		"comments": {func() error {
			return pageOf(viewed(t.Context(), w.CommentViews, "ann")(w.Comments(t.Context(), access.Viewer{}, ids[0], page)))
		}, 6},
		"liked posts": {func() error { return pageOf(w.LikedPostViews(t.Context(), access.As("ann"), "ann", page)) }, 8},
		"by user":     {func() error { return pageOf(w.CommentViewsByUser(t.Context(), access.As("ann"), authors[0], page)) }, 8},
		"posts": {func() error {
			return pageOf(w.PostViewsByUser(t.Context(), access.As("ann"), authors[0], feed.PostRange{}, page))
		}, 6},
		"post":        {func() error { _, err := w.PostView(t.Context(), access.As("ann"), ids[0]); return err }, 7},
		"posts by id": {func() error { _, err := w.PostViews(t.Context(), access.As("ann"), ids); return err }, 7},
		"users by id": {func() error { _, err := w.UserViews(t.Context(), "ann", authors); return err }, 5},
	} {
		tp.take()
		require.NoError(t, read.do(), name)
		calls := tp.take()
		assert.LessOrEqual(t, len(calls), read.calls, "%s: %v", name, calls)
	}
}

// A like of a post with several like shards is found by its shard, on each page that shows the post.
func TestEachViewFindsALikeInItsShard(t *testing.T) {
	w := newWorld(t, func(c *config) { c.LikesByUser = false })
	w.users("ann", "bob")
	const shards = 50
	for _, post := range w.ids(2) {
		p := schema.Post{ID: post, Author: "bob", Content: schema.Content{Text: "x"}, LikeShards: shards}
		w.put(p.Item(), p.Ref(timelineTTL).Item(),
			schema.Like{Post: post, User: "ann", LikeShards: shards, Kind: schema.KindLike, Version: post, Flush: schema.Flush{Inc: post, Seq: 1}}.Item())
		w.entry("ann", "bob", post, shards)
	}
	w.follow("ann", "bob")
	posts, err := w.PostViewsByUser(t.Context(), access.As("ann"), "bob", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	found, err := w.PostViews(t.Context(), access.As("ann"), []string{posts.Items[0].Post.ID, posts.Items[1].Post.ID})
	require.NoError(t, err)
	one, err := w.PostView(t.Context(), access.As("ann"), posts.Items[0].Post.ID)
	require.NoError(t, err)
	require.NoError(t, w.Bookmark(t.Context(), "ann", posts.Items[0].Post.ID))
	kept, err := w.BookmarkViews(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	for name, views := range map[string][]view.Post{"by user": posts.Items, "by id": found.Items, "one": {one}, "bookmarks": kept.Items} {
		for _, v := range views {
			assert.Truef(t, v.Liked, "%s: %s", name, v.Post.ID)
		}
	}
}
