package feed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func (w *world) news(viewer string, query home.Query, limit int) home.News {
	w.t.Helper()
	news, err := w.HomeNews(w.t.Context(), viewer, query, page.Request{Limit: limit})
	require.NoError(w.t, err)
	return news
}

// Five of the posts are deleted. An unfollowed author has as many posts as each other author.
func TestNewsAreThePostsAfterAnID(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("viewer", 3, 0)
	posts := []string{id.Min}
	var living []string
	for i := range 140 {
		p := w.post(names[i%2], fmt.Sprint(i))
		w.post(names[2], "hidden")
		w.deliver()
		posts = append(posts, p.ID)
		if i%28 == 27 {
			require.NoError(t, w.DeletePost(t.Context(), p.AuthorID, p.ID))
			continue
		}
		living = append([]string{p.ID}, living...)
	}
	require.NoError(t, w.Unfollow(t.Context(), "viewer", names[2]))
	for _, pull := range []bool{false, true} {
		for _, newer := range []int{0, 1, 20, 21, 28, 99, 100, 101, 140} {
			after := posts[len(posts)-1-newer]
			want := slices.DeleteFunc(slices.Clone(living), func(post string) bool { return post <= after })
			query := home.Query{Pull: pull, After: after}
			for _, limit := range []int{20, 100} {
				news := w.news("viewer", query, limit)
				assert.Equal(t, min(len(want), home.MaxUnread), news.Unread, "%d newer, limit %d, pull %v", newer, limit, pull)
				all := homeIDs(w.home("viewer", limit, query))
				assert.Truef(t, slices.Equal(want, all), "%d newer, limit %d, pull %v: %q, want %q", newer, limit, pull, all, want)
				assert.Equal(t, all[:min(len(want), limit)], homeIDs(news.Items))
			}
		}
	}
}

func TestCursorsOfNewsBelongToThem(t *testing.T) {
	w := newWorld(t)
	w.crowd("viewer", 1, 9)
	items := w.home("viewer", 20, home.Query{})
	first, second := items[8].Post.ID, items[7].Post.ID
	cursor := w.news("viewer", home.Query{After: first}, 2).NextCursor
	next, err := w.HomeNews(t.Context(), "viewer", home.Query{After: first}, page.Request{Limit: 20, Cursor: cursor})
	require.NoError(t, err)
	assert.Equal(t, homeIDs(items[2:8]), homeIDs(next.Items))
	next, err = w.HomeNews(t.Context(), "viewer", home.Query{After: first}, page.Request{Limit: 2, Cursor: cursor})
	require.NoError(t, err)
	assert.NotEmpty(t, next.NextCursor)
	assert.Zero(t, next.Unread, "only the first page has the number")
	for _, query := range []home.Query{{}, {After: second}} {
		_, err := w.Home(t.Context(), "viewer", query, page.Request{Cursor: cursor})
		assert.ErrorContains(t, err, "does not belong")
	}
}

// The first request for news of a gathered home counts the gathered posts and reads no list twice.
// While unread lists remain, the request returns no count.
func TestNewsOfAGatheredHomeReadEachListOnce(t *testing.T) {
	w, tp := tapped(t)
	names := w.followees("viewer", pageLists+1)
	w.users(names[0], names[pageLists])
	query := home.Query{Pull: true, After: id.Min}
	for posts := range 130 {
		w.post(names[posts%2*pageLists], "x")
		if !slices.Contains([]int{0, 30, 98, 99, 129}, posts) {
			continue
		}
		tp.take()
		_, err := w.Home(t.Context(), "viewer", query, page.Request{})
		require.NoError(t, err)
		page := len(tp.take())
		assert.Equal(t, min(posts+1, home.MaxUnread), w.news("viewer", query, 20).Unread)
		assert.LessOrEqual(t, len(tp.take()), page+3)
	}
	w, tp = tapped(t)
	w.followees("viewer", gatherLists+1)
	tp.take()
	_, err := w.Home(t.Context(), "viewer", query, page.Request{})
	require.NoError(t, err)
	page := len(tp.take())
	news := w.news("viewer", query, 20)
	assert.NotEmpty(t, news.NextCursor)
	assert.Len(t, tp.take(), page)
}

func TestPollsForNewsCost(t *testing.T) {
	const entries, marks = 1, 1
	var m meter
	s := newSample(t, newClock(), m.onto, sharing)
	before := s.page("viewer", 100)[0].Post.ID
	for _, step := range []struct {
		posts int
		want  float64
	}{
		{0, entries + marks},
		{1, entries + marks + 1 + 0.5 + 0.5},      // the post, its count, and the reader's own like by key
		{20, entries + marks + 20 + 20*0.5 + 0.5}, // the reader's own likes by a query
		{30, 32.5 + entries + marks + 10*0.5},     // another read of the timeline, and of the remaining posts
		{300, 32.5 + 2*entries + marks + 100*0.5},
	} {
		for i := range step.posts {
			s.world.post(s.authors[i%len(s.authors)], strings.Repeat("x", sampleText))
		}
		s.deliver()
		s.clock.add(time.Minute) // after a minute, the process shares no reads any more
		after := before
		var news home.News
		got := m.of(func() { news = s.news("viewer", home.Query{After: after}, 20) })
		assert.Equal(t, min(step.posts, home.MaxUnread), news.Unread)
		assert.Equal(t, step.want, got, "%d posts: read units", step.posts)
		before = s.page("viewer", 1)[0].Post.ID
	}
}

// newsBehind makes a home in which the posts of one author are deleted, but their entries still exist.
func newsBehind(t *testing.T, deleted int) (*world, *tap, string) {
	t.Helper()
	w, tp := tapped(t)
	names := w.crowd("viewer", 2, 0)
	after := w.post(names[0], "seen").ID
	for range 10 {
		w.post(names[0], "old")
	}
	w.deliver()
	for _, post := range w.deletedPosts(names[1], deleted) {
		w.entry("viewer", names[1], post, 1)
	}
	for range 25 {
		w.post(names[0], "new")
	}
	w.deliver()
	tp.take()
	return w, tp, after
}

// The page and the count read each followee's list once. The caller or the presence may require a home
// by pull.
func TestNewsByPullReadEachListTwice(t *testing.T) {
	for _, pull := range []bool{false, true} {
		w, tp := tapped(t)
		names := w.followees("viewer", 100)
		posts := w.ids(51)
		for i, post := range posts {
			w.stored("viewer", names[i], post)
		}
		if !pull {
			w.returning("viewer")
		}
		tp.take()
		assert.Equal(t, 50, w.news("viewer", home.Query{Pull: pull, After: posts[0]}, 20).Unread)
		lists := 0
		for _, c := range tp.take() {
			if c.op == table.OpQuery && strings.HasSuffix(c.key.PK, "#post") {
				lists++
			}
		}
		assert.Equal(t, 2*(1+len(names)), lists, "lists that were read")
	}
}

// The posts are counted until the budget of the request ends: each hundred posts take two calls.
func TestUnreadPostsAreCountedBehindDeletedOnes(t *testing.T) {
	for deleted, want := range map[int]int{0: 35, 75: 35, 95: 35, 100: 35, 195: 35, 385: 35, 3000: 25} {
		w, tp, after := newsBehind(t, deleted)
		for _, limit := range []int{1, 20} {
			page, err := w.Home(t.Context(), "viewer", home.Query{After: after}, page.Request{Limit: limit})
			require.NoError(t, err)
			require.Len(t, page.Items, limit)
			calls := len(tp.take())
			news := w.news("viewer", home.Query{After: after}, limit)
			assert.Equal(t, want, news.Unread, "%d deleted, limit %d", deleted, limit)
			calls = len(tp.take()) - calls
			assert.LessOrEqual(t, calls, tableCalls, "%d deleted, limit %d: calls besides the page", deleted, limit)
			if deleted == 3000 {
				assert.Greater(t, calls, tableCalls-2, "limit %d: the budget is used", limit)
			}
		}
	}
}

func TestAPageOfAHundredNewsCountsNoMore(t *testing.T) {
	w, tp := tapped(t)
	w.crowd("viewer", 3, 110)
	tp.take()
	query := home.Query{After: id.Min}
	_, err := w.Home(t.Context(), "viewer", query, page.Request{Limit: home.MaxUnread})
	require.NoError(t, err)
	page := len(tp.take())
	assert.Equal(t, home.MaxUnread, w.news("viewer", query, home.MaxUnread).Unread)
	assert.Len(t, tp.take(), page)
}

// failEachCall makes each table call of do fail once, in turn, and returns the number of calls.
func failEachCall(t *testing.T, tp *tap, do func() error) (calls int) {
	t.Helper()
	for {
		n, failed := 0, call{}
		tp.set(func(c call) failure {
			if n++; n == calls+1 {
				failed = c
				return lost
			}
			return works
		})
		err := do()
		tp.set(nil)
		if n <= calls {
			require.NoError(t, err)
			return calls
		}
		calls++
		require.ErrorIsf(t, err, errDown, "call %d: %s", calls, failed)
	}
}

// If a read of a page failed, the answer must not look like the end of the home.
func TestAHomeFailsWithEachOfItsReads(t *testing.T) {
	w, tp := tapped(t, func(c *config) { c.Local = true })
	names := w.crowd("viewer", 3, 30)
	for i := range 90 {
		p := w.post(names[i%3], "deleted")
		w.deliver()
		if i%3 > 0 {
			require.NoError(t, w.DeletePost(t.Context(), p.AuthorID, p.ID))
		}
	}
	w.published.take()
	for _, pull := range []bool{false, true} {
		query := home.Query{Pull: pull, After: id.Min}
		home := failEachCall(t, tp, func() error {
			_, err := w.Home(t.Context(), "viewer", query, page.Request{})
			return err
		})
		news := failEachCall(t, tp, func() error {
			_, err := w.HomeNews(t.Context(), "viewer", query, page.Request{})
			return err
		})
		assert.Greater(t, news, home, "the rest is counted")
	}
}

// The reader follows one more user after the page was read. Then the rest of the home has to be
// gathered. The rest is not counted if the gathering takes several requests.
func TestNewsOfAHomeThatGrows(t *testing.T) {
	for followees, unread := range map[int]int{pageLists: 3, gatherLists: 2} {
		w, tp := tapped(t)
		names := w.followees("viewer", followees)
		w.users(names[:3]...)
		for _, name := range names[:3] {
			w.post(name, "x")
		}
		w.deliver()
		tp.set(func(c call) failure {
			if c.op != table.OpBatchGet {
				return works
			}
			for _, it := range []table.Item{
				schema.FollowingItem("viewer", "more", w.clock.now(), id.Min),
				schema.Presence{User: "viewer", State: schema.PresenceReturning, Until: w.today() - 1, V: 1}.Item(),
			} {
				_, err := tp.Store.Put(t.Context(), table.PutInput{Item: it})
				assert.NoError(t, err)
			}
			return works
		})
		news := w.news("viewer", home.Query{After: id.Min}, 2)
		assert.Len(t, news.Items, 2)
		assert.Equal(t, unread, news.Unread)
		assert.NotEmpty(t, news.NextCursor)
	}
}
