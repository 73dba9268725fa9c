package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// longName returns a user id that is as long as a UUID.
func longName(name string) string { return name + strings.Repeat("-", 36-len(name)) }

// fullHome makes a home with posts by 20 authors in turns, and returns the posts, newest first.
func (w *world) fullHome(viewer string, posts int) []feed.Post {
	w.t.Helper()
	names := numbered(20, longName("")[4:])
	w.users(viewer)
	w.users(names...)
	for _, name := range names {
		w.follow(viewer, name)
	}
	w.deliver()
	w.clock.add(2 * time.Minute)
	made := make([]feed.Post, posts)
	for i := range made {
		made[posts-1-i] = w.post(names[i%20], strings.Repeat("y", sampleText))
	}
	w.deliver()
	return made
}

func (w *world) deletePosts(posts ...feed.Post) {
	w.t.Helper()
	for _, p := range posts {
		require.NoError(w.t, w.DeletePost(w.t.Context(), p.AuthorID, p.ID))
	}
}

// A deleted post leaves its entries in homes until the entries expire. A page that lacks few posts is
// filled up with few reads.
func TestAHomePageWithDeletedPostsReadsFewMore(t *testing.T) {
	for deleted, want := range map[int]float64{0: 32.5, 1: 36.5, 2: 38.5, 3: 40.5, 5: 45.5, 10: 63.5, 20: 152.5} {
		var m meter
		w := newWorld(t, m.onto)
		viewer := longName("viewer")
		posts := w.fullHome(viewer, 200)
		w.deletePosts(posts[4 : 4+deleted]...)
		var l page.List[feed.HomeItem]
		got := m.of(func() {
			var err error
			l, err = w.Home(t.Context(), viewer, home.Query{}, page.Request{})
			require.NoError(t, err)
		})
		assert.Equal(t, want, got, "read units of a page with %d deleted posts", deleted)
		living := slices.Delete(slices.Clone(posts), 4, 4+deleted)
		require.Len(t, l.Items, 20)
		for i, item := range l.Items {
			require.Equal(t, living[i].ID, item.Post.ID)
		}
	}
}

// A page of one post, and pages of an odd number of posts, are filled up as well.
func TestSmallPagesWithADeletedPostReadFewMore(t *testing.T) {
	for limit, want := range map[int][2]float64{1: {4, 9}, 2: {5.5, 9.5}, 3: {7, 11}} {
		var m meter
		w := newWorld(t, m.onto)
		viewer := longName("viewer")
		posts := w.fullHome(viewer, 200)
		whole := m.of(func() { require.Len(t, w.page(viewer, limit), limit) })
		w.deletePosts(posts[0])
		skipped := m.of(func() { require.Len(t, w.page(viewer, limit), limit) })
		assert.Equal(t, want, [2]float64{whole, skipped}, "read units of a page of %d", limit)
	}
}

// Each refill reads merged lists again. A small refill takes the calls of these reads from the budget,
// if the budget still has the calls of a large refill afterwards. With three or four lists the budget
// does not have these calls, and with five lists the page has no refill.
func TestASmallRefillPaysForMergedLists(t *testing.T) {
	for merged, want := range map[int]float64{0: 4, 1: 5, 2: 6, 3: 108, 4: 109, 5: 0} {
		var m meter
		w := newWorld(t, m.onto)
		viewer := longName("viewer")
		posts := w.fullHome(viewer, 200)
		for _, author := range numbered(merged, "merged") {
			w.put(schema.Mark{User: viewer, Author: author, Kind: schema.MarkBackfill, From: id.Min, Version: w.ids(1)[0]}.Item())
		}
		whole := m.of(func() { w.page(viewer, 20) })
		w.deletePosts(posts[4])
		shown := 0
		got := m.of(func() { shown = len(w.page(viewer, 20)) })
		assert.Equal(t, want, got-whole, "read units of a refill with %d merged authors", merged)
		assert.Equal(t, merged == 5, shown == 19, "%d merged authors", merged)
	}
}

// The page lacks few posts, but many posts after the page are deleted. A small refill that does not
// fill the page takes no calls from the large refills: no page ends earlier than with large refills
// alone.
func TestNoPageEndsEarlierForASmallRefill(t *testing.T) {
	for _, c := range []struct {
		limit, living, deleted int
		pages                  []int
	}{
		{20, 15, 150, []int{20, 20, 20, 20}},
		{50, 15, 150, []int{15, 50, 50, 20}},
		{100, 15, 150, []int{50, 85}},
		{20, 15, 250, []int{15, 20, 20, 20}},
		{20, 15, 350, []int{15, 20, 20, 20}},
		{50, 30, 350, []int{30, 50, 50, 20}},
		{100, 90, 350, []int{90, 72, 48}},
		{1, 0, 250, []int{0, 1, 1, 1}},
	} {
		w, tp := tapped(t)
		names := w.crowd("viewer", 2, 0)
		var want []string
		post := func(n int) {
			for i := range n {
				want = append([]string{w.post(names[0], fmt.Sprint(i)).ID}, want...)
			}
			w.deliver()
		}
		post(120)
		for _, post := range w.deletedPosts(names[1], c.deleted) {
			w.entry("viewer", names[1], post, 1)
		}
		post(c.living)
		var pages []int
		var got []string
		for _, item := range wholeList(t, tp, c.limit, tableCalls+smallCalls, 200, func(in page.Request) (page.List[feed.HomeItem], error) {
			l, err := w.Home(t.Context(), "viewer", home.Query{}, in)
			pages = append(pages, len(l.Items))
			return l, err
		}) {
			got = append(got, item.Post.ID)
		}
		assert.Equal(t, want, got)
		assert.Equal(t, c.pages, pages[:min(4, len(pages))], "the first pages of %d, %d living posts before %d deleted ones", c.limit, c.living, c.deleted)
	}
}

// A home has deleted posts, entries of an unfollowed author and posts of a merged author in random
// order. The pages of the home contain each living post once, whatever refills the pages make (I7).
func TestPagesAreExactWhateverTheyAreFilledUpWith(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w, tp := tapped(t)
		names := w.crowd("viewer", 3, 0)
		w.users("merged")
		var want []string
		dead, left := rng.IntN(70), rng.IntN(30)
		for i := range 250 {
			author := names[rng.IntN(2)]
			if rng.IntN(20) == 0 {
				author = "merged"
			}
			switch n := rng.IntN(100); {
			case n < dead:
				p := w.post(author, "deleted")
				w.deliver()
				w.deletePosts(p)
			case n < dead+left:
				w.post(names[2], "unfollowed")
			default:
				want = append([]string{w.post(author, fmt.Sprint(i)).Text}, want...)
			}
		}
		w.deliver()
		require.NoError(t, w.Unfollow(t.Context(), "viewer", names[2]))
		w.follow("viewer", "merged")
		for _, limit := range []int{1, 2, 3, 7, 20, 33, 50, 100} {
			got := wholeList(t, tp, limit, tableCalls+smallCalls+1, 400, func(in page.Request) (page.List[feed.HomeItem], error) {
				return w.Home(t.Context(), "viewer", home.Query{}, in)
			})
			wantSame(t, limit, texts(got), want)
		}
	}
}

// Lists of items whose posts were deleted also contain each living item once. Each refill of such a
// list takes two calls.
func TestListsOfLivingPostsAreExactWhateverTheyAreFilledUpWith(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 8))
		w, tp := tapped(t)
		w.users("ann", "bob")
		var want []string
		dead := rng.IntN(70)
		for i := range 250 {
			p := w.post("bob", fmt.Sprint(i))
			require.NoError(t, w.Like(t.Context(), "ann", p.ID))
			_, err := w.CreateComment(t.Context(), "ann", p.ID, "x")
			require.NoError(t, err)
			w.deliver()
			if rng.IntN(100) < dead {
				w.deletePosts(p)
				continue
			}
			want = append([]string{p.ID}, want...)
		}
		for _, limit := range []int{1, 2, 3, 7, 20, 33, 50, 100} {
			var likes, comments []string
			for _, l := range wholeList(t, tp, limit, tableCalls+2, 400, func(in page.Request) (page.List[feed.LikedPost], error) {
				return w.LikesByUser(t.Context(), access.Viewer{}, "ann", in)
			}) {
				likes = append(likes, l.PostID)
			}
			wantSame(t, limit, likes, want)
			for _, c := range wholeList(t, tp, limit, tableCalls+2, 400, func(in page.Request) (page.List[feed.Comment], error) {
				return w.CommentsByUser(t.Context(), access.Viewer{}, "ann", in)
			}) {
				comments = append(comments, c.PostID)
			}
			wantSame(t, limit, comments, want)
		}
	}
}

// skipping is a list with an item that must not show.
type skipping struct {
	name string
	// skip makes the list skip one of the list's newest items.
	skip func(w *world, viewer string, posts []feed.Post)
	read func(w *world, viewer string, posts []feed.Post) error
	// whole and skipped are the read units of a page without and with the skipped item.
	whole, skipped float64
}

func listsThatSkip() []skipping {
	ctx := context.Background()
	var first page.Request
	const at = 4
	deleted := func(w *world, _ string, posts []feed.Post) { w.deletePosts(posts[at]) }
	unliked := func(w *world, viewer string, posts []feed.Post) {
		for _, user := range []string{viewer, posts[at].AuthorID} {
			require.NoError(w.t, w.Unlike(ctx, user, posts[at].ID))
		}
		w.deliver()
	}
	uncommented := func(w *world, viewer string, posts []feed.Post) {
		l, err := w.CommentsByUser(ctx, access.Viewer{}, viewer, first)
		require.NoError(w.t, err)
		require.NoError(w.t, w.DeleteComment(ctx, viewer, l.Items[at].PostID, l.Items[at].ID))
	}
	muted := func(w *world, viewer string, posts []feed.Post) {
		require.NoError(w.t, w.Mute(ctx, viewer, posts[at].AuthorID))
	}
	unfollowed := func(w *world, viewer string, posts []feed.Post) {
		require.NoError(w.t, w.Unfollow(ctx, viewer, posts[at].AuthorID))
	}
	forgotten := func(w *world, viewer string, posts []feed.Post) {
		_, err := w.store.Delete(ctx, table.DeleteInput{Key: schema.ProfileKey(posts[at].AuthorID)})
		require.NoError(w.t, err)
	}
	readHome := func(query home.Query) func(*world, string, []feed.Post) error {
		return func(w *world, viewer string, _ []feed.Post) error { return pageOf(w.Home(ctx, viewer, query, first)) }
	}
	news := func(pull bool, n int) func(*world, string, []feed.Post) error {
		return func(w *world, viewer string, posts []feed.Post) error {
			_, err := w.HomeNews(ctx, viewer, home.Query{Pull: pull, After: posts[n].ID}, first)
			return err
		}
	}
	likes := func(w *world, viewer string, _ []feed.Post) error {
		return pageOf(w.LikesByUser(ctx, access.Viewer{}, viewer, first))
	}
	comments := func(w *world, viewer string, _ []feed.Post) error {
		return pageOf(w.CommentsByUser(ctx, access.Viewer{}, viewer, first))
	}
	return []skipping{
		{"home by push, a deleted post", deleted, readHome(home.Query{}), 33, 37},
		{"home by push, an author muted", muted, readHome(home.Query{}), 33, 37},
		{"home by push, an author unfollowed", unfollowed, readHome(home.Query{}), 33, 37},
		{"home by pull, a deleted post", deleted, readHome(home.Query{Pull: true}), 74, 73},
		{"home by pull, an author muted", muted, readHome(home.Query{Pull: true}), 74, 72},
		{"news, a deleted post", deleted, news(false, 10), 17.5, 17.5},
		{"news of more than a page, a deleted post", deleted, news(false, 60), 56, 59.5},
		{"news by pull, a deleted post", deleted, news(true, 10), 38.5, 37},
		{"stream look, a deleted post", deleted, func(w *world, viewer string, posts []feed.Post) error {
			seen, err := w.HomeStreamed(ctx, viewer, posts[10].ID)
			if err != nil {
				return err
			}
			for _, err := range w.Arrivals(ctx, viewer, seen) {
				if err != nil {
					return err
				}
			}
			return nil
		}, 124.5, 125.5},
		{"posts by user, a deleted post", deleted, func(w *world, _ string, posts []feed.Post) error {
			return pageOf(w.PostsByUser(ctx, access.Viewer{}, posts[at].AuthorID, feed.PostRange{}, first))
		}, 2, 1},
		{"likes by user, a deleted post", deleted, likes, 22, 24.5},
		{"likes by user, a like taken back", unliked, likes, 22, 22},
		{"comments by user, a deleted post", deleted, comments, 22.5, 25},
		{"comments by user, a deleted comment", uncommented, comments, 22.5, 22.5},
		{"views of posts liked by user, a deleted post", deleted, func(w *world, viewer string, _ []feed.Post) error {
			return pageOf(w.LikedPostViews(ctx, access.As(viewer), viewer, first))
		}, 54.5, 57},
		{"likers of a post, a like taken back", unliked, func(w *world, _ string, posts []feed.Post) error {
			return pageOf(w.Likers(ctx, access.Viewer{}, posts[at].ID, first))
		}, 1.5, 3.5},
		{"likers as users, a like taken back", unliked, func(w *world, viewer string, posts []feed.Post) error {
			return pageOf(viewed(ctx, w.LikerViews, viewer)(w.Likers(ctx, access.Viewer{}, posts[at].ID, first)))
		}, 13.5, 15.5},
		{"comments of a post, a deleted comment", uncommented, func(w *world, _ string, posts []feed.Post) error {
			return pageOf(w.Comments(ctx, access.Viewer{}, posts[at].ID, first))
		}, 4, 4},
		{"followers, a removed user", forgotten, func(w *world, _ string, posts []feed.Post) error {
			return pageOf(w.Followers(ctx, posts[at].AuthorID, first))
		}, 1, 1},
		{"following, a removed user", forgotten, func(w *world, viewer string, _ []feed.Post) error {
			return pageOf(w.Following(ctx, viewer, viewer, first))
		}, 1, 1},
		{"following as users, a removed user", forgotten, func(w *world, viewer string, _ []feed.Post) error {
			return pageOf(viewed(ctx, w.EdgeViews, viewer)(w.Following(ctx, viewer, viewer, first)))
		}, 13, 13},
		{"friends, a user who does not follow back", unfollowed, func(w *world, viewer string, _ []feed.Post) error {
			return pageOf(w.Friends(ctx, viewer, first))
		}, 3, 3},
		{"blocked users, a block by another user", func(w *world, viewer string, _ []feed.Post) {
			w.put(schema.Block{User: viewer, Other: numbered(1, longName("")[4:])[0], By: w.clock.now()}.Item())
		}, func(w *world, viewer string, _ []feed.Post) error { return pageOf(w.Blocks(ctx, viewer, first)) }, 1, 4},
		{"comments by user with posts, a deleted post", deleted, func(w *world, viewer string, _ []feed.Post) error {
			return pageOf(w.CommentViewsByUser(ctx, access.As(viewer), viewer, first))
		}, 55, 57.5},
	}
}

// A page that has to skip an item of a list reads hardly more units than without the skip. If the
// table has no item for the skipped record, the page has nothing to skip.
func TestAPageThatSkipsAnItemReadsFewMore(t *testing.T) {
	for _, c := range listsThatSkip() {
		var m meter
		w := newWorld(t, m.onto)
		viewer := longName("viewer")
		posts := w.fullHome(viewer, 200)
		for _, p := range slices.Backward(posts) {
			w.clock.add(time.Millisecond)
			require.NoError(t, w.Like(t.Context(), viewer, p.ID))
			_, err := w.CreateComment(t.Context(), viewer, p.ID, strings.Repeat("x", sampleText))
			require.NoError(t, err)
		}
		for _, user := range numbered(200, longName("")[4:]) {
			w.put(
				schema.Like{Post: posts[4].ID, User: user, Kind: schema.KindLike, Version: posts[4].ID, Flush: schema.Flush{Inc: "test", Seq: 1}}.Item(),
				schema.Comment{ID: w.ids(1)[0], Post: posts[4].ID, Author: user, Text: strings.Repeat("x", sampleText)}.Item(),
				schema.FollowerItem(posts[4].AuthorID, user, w.clock.now()), schema.FollowerItem(viewer, user, w.clock.now()),
				schema.Block{User: viewer, Other: user, Since: w.clock.now()}.Item(),
			)
		}
		w.deliver()
		whole := m.of(func() { require.NoError(t, c.read(w, viewer, posts)) })
		c.skip(w, viewer, posts)
		skipped := m.of(func() { require.NoError(t, c.read(w, viewer, posts)) })
		assert.Equal(t, [2]float64{c.whole, c.skipped}, [2]float64{whole, skipped}, "read units of %s", c.name)
	}
}
