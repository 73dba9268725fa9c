package feed_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func edgeUsers(edges []feed.Edge) []string {
	var users []string
	for _, e := range edges {
		users = append(users, e.UserID)
	}
	return users
}

// edge puts one of the two edges of a follow and no other item.
func (w *world) edge(it table.Item) {
	_, err := w.store.BatchWrite(w.t.Context(), []table.BatchWrite{{Put: &it}})
	require.NoError(w.t, err)
}

func TestFriendsAreTheUsersInBothLists(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.users("ann")
		early, late := w.clock.now(), w.clock.now().Add(time.Hour)
		// Long runs of one list between two users of the other list make the reader skip forward.
		var want []feed.Edge
		for i, kind := range rapid.SliceOfN(rapid.IntRange(0, 20), 0, 300).Draw(rt, "kinds") {
			user := fmt.Sprintf("u%04d", i)
			if kind > 0 {
				w.edge(schema.FollowerItem("ann", user, early))
			}
			if kind < 2 || kind > 18 {
				w.edge(schema.FollowingItem("ann", user, late, ""))
			}
			if kind == 1 || kind > 18 {
				want = append(want, feed.Edge{UserID: user, Since: late})
			}
		}
		limit := rapid.IntRange(1, 100).Draw(rt, "limit")
		got := list(t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Friends(t.Context(), "ann", in) })
		if !slices.Equal(got, want) {
			rt.Fatalf("%q, want %q", edgeUsers(got), edgeUsers(want))
		}
	})
}

func TestFriendsOfACelebrityLeap(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	for i := range 5000 {
		w.edge(schema.FollowerItem("ann", fmt.Sprintf("u%05d", i), w.clock.now()))
	}
	for _, user := range []string{"u00100", "u02500", "u04900", "v"} {
		w.edge(schema.FollowingItem("ann", user, w.clock.now(), ""))
	}
	tp.take()
	l, err := w.Friends(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	require.Equal(t, []string{"u00100", "u02500", "u04900"}, edgeUsers(l.Items))
	assert.LessOrEqual(t, len(tp.take()), 8, "queries for four followees among 5,000 followers")
}

func TestLikersOfManyShardsComeInOrder(t *testing.T) {
	w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 1 })
	names := numbered(30, "user")
	w.users("ann")
	w.users(names...)
	for _, name := range names[:24] {
		w.follow(name, "ann")
	}
	p := w.post("ann", "x") // the like list of p has 25 shards
	w.deliver()
	var want []string
	for i, name := range names {
		require.NoError(t, w.Like(t.Context(), name, p.ID))
		if i%3 == 0 {
			w.clock.add(time.Millisecond)
			require.NoError(t, w.Unlike(t.Context(), name, p.ID))
			continue
		}
		want = append(want, name)
	}
	w.deliver()
	for _, limit := range []int{1, 7, 20, 100} {
		var got []string
		for _, l := range list(t, limit, func(in page.Request) (page.List[feed.Liker], error) {
			return w.Likers(t.Context(), access.Viewer{}, p.ID, in)
		}) {
			got = append(got, l.UserID)
		}
		assert.Truef(t, slices.Equal(got, want), "limit %d: %q, want %q", limit, got, want)
	}
	count, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
	if err != nil || count.Count != int64(len(want)) || count.AsOf.IsZero() {
		t.Errorf("%+v, %v", count, err)
	}
}

// A count that an unlike of an uncounted like has made negative shows as zero.
func TestACountIsNeverShownBelowZero(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p := w.post("ann", "x")
	w.deliver()
	w.addLikes(p.ID, -1)
	count, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
	home := w.home("ann", 20, home.Query{})
	if err != nil || count.Count != 0 || len(home) != 1 || home[0].LikeCount != 0 {
		t.Errorf("%+v, %v, home %+v", count, err, home)
	}
}

func TestACountOfNoLikesIsAsOfThePost(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p := w.post("ann", "x")
	count, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID)
	assert.NoError(t, err)
	assert.Equal(t, feed.LikeCount{Kinds: map[string]int64{}, AsOf: p.CreatedAt}, count)
}

func TestFollowsThatConflictEndExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t, func(c *config) { c.Jitter = nil })
		names := numbered(100, "user")
		w.users("ann")
		w.users(names...)
		attempts := map[table.Key]int{}
		tp.set(func(c call) failure { // the tap calls this function under a lock
			if c.op != table.OpTransact {
				return works
			}
			if attempts[c.key]++; attempts[c.key]%5 != 0 {
				return conflicts // each call conflicts four times
			}
			return works
		})
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				for i := range 3 { // a follow, an unfollow and a follow
					act := w.Follow
					if i == 1 {
						act = w.Unfollow
					}
					if err := act(t.Context(), name, "ann"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		tp.set(nil)
		w.checkCounts(append(names, "ann")...)
		u, err := w.User(t.Context(), "ann")
		assert.NoError(t, err)
		assert.Equal(t, int64(len(names)), u.Counts.Followers)
	})
}

// A page of long texts ends before its JSON exceeds 256 KiB, and the next page continues with the next
// item.
func TestAPageOfLongTextsEndsAfterItsBytes(t *testing.T) {
	for name, text := range map[string]string{
		"letters of four bytes": strings.Repeat("\U0001F600", 5000), "escapes": strings.Repeat("\x00", 5000), "line separators": strings.Repeat("\u2028", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			const items, most = 30, 256 << 10
			w := newWorld(t)
			w.users("ann", "bob")
			w.follow("ann", "bob")
			first := w.post("bob", "first")
			for range items {
				w.post("bob", text)
				_, err := w.CreateComment(t.Context(), "ann", first.ID, text)
				require.NoError(t, err)
			}
			w.deliver()
			w.clock.add(2 * time.Minute)
			readHome := func(query home.Query) int {
				return len(pagesOf(t, most, func(in page.Request) (page.List[feed.HomeItem], error) {
					return w.Home(t.Context(), "ann", query, in)
				}))
			}
			posts := pagesOf(t, most, func(in page.Request) (page.List[feed.Post], error) {
				return w.PostsByUser(t.Context(), access.Viewer{}, "bob", feed.PostRange{}, in)
			})
			comments := pagesOf(t, most, func(in page.Request) (page.List[feed.Comment], error) {
				return w.Comments(t.Context(), access.Viewer{}, first.ID, in)
			})
			own := pagesOf(t, most, func(in page.Request) (page.List[feed.Comment], error) {
				return w.CommentsByUser(t.Context(), access.Viewer{}, "ann", in)
			})
			n := readHome(home.Query{})
			assert.Equalf(t, items+1, n, "the home has %d posts", n)
			n = readHome(home.Query{Pull: true})
			assert.Equalf(t, items+1, n, "the home by pull has %d posts", n)
			if len(posts) != items+1 || len(comments) != items || len(own) != items {
				t.Errorf("%d posts, %d comments, %d of ann", len(posts), len(comments), len(own))
			}
		})
	}
}

// A page that ends by its bytes remembers only the reposts that it shows (I16), also if the home is gathered.
func TestAPageOfLongRepostsForgetsWhatItDoesNotShow(t *testing.T) {
	const posts = 30
	for _, followees := range []int{3, pageLists + 1} {
		w := newWorld(t)
		names := w.followees("ann", followees)
		w.users(names[:2]...)
		text := strings.Repeat("\x00", 5000)
		var want []string
		for range posts {
			p := w.post(names[0], text)
			want = append(want, w.repost(names[1], p.ID).ID)
		}
		w.clock.add(2 * time.Minute)
		slices.Reverse(want)
		got := pagesOf(t, 256<<10, func(in page.Request) (page.List[feed.HomeItem], error) {
			return w.Home(t.Context(), "ann", home.Query{Pull: true}, in)
		})
		assert.Equal(t, want, homeIDs(got), "%d followees", followees)
	}
}

// pagesOf reads a list in pages of 100 items. Each page must be as full as most bytes allow.
func pagesOf[T any](t *testing.T, most int, read func(page.Request) (page.List[T], error)) (items []T) {
	t.Helper()
	for in := (page.Request{Limit: 100}); ; {
		l, err := read(in)
		require.NoError(t, err)
		body, err := json.Marshal(l.Items)
		require.NoError(t, err)
		if len(body) > most || l.NextCursor != "" && len(body) < most-35_000 {
			t.Errorf("a page of %d items has %d bytes, cursor %q", len(l.Items), len(body), l.NextCursor)
		}
		items = append(items, l.Items...)
		if in.Cursor = l.NextCursor; in.Cursor == "" {
			return items
		}
	}
}
