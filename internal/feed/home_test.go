package feed_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestHomesShowFolloweesAndOneself(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid")
	w.post("bob", "b1")
	w.post("cid", "c1")
	w.follow("ann", "bob")
	w.homes("ann", "b1") // the mark merges the post in, before any delivery
	w.post("ann", "a1")
	w.homes("ann", "a1", "b1")
	w.post("bob", "b2")
	w.homes("ann", "b2", "a1", "b1")
	w.deliver()
	w.homes("ann", "b2", "a1", "b1")
	w.clock.add(2 * time.Minute) // until the mark has expired
	w.homes("ann", "b2", "a1", "b1")
	w.homes("bob", "b2", "b1")
	w.homes("dan")
	deleted := w.post("bob", "b3")
	w.post("bob", "b4")
	w.deliver()
	require.NoError(t, w.DeletePost(t.Context(), "bob", deleted.ID))
	w.homes("ann", "b4", "b2", "a1", "b1")
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	w.homes("ann", "a1")
	w.follow("ann", "bob")
	w.homes("ann", "b4", "b2", "a1", "b1")
}

func TestHomeItemsSayAuthorLikesAndOwnLike(t *testing.T) {
	w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 1 })
	w.users("ann", "bob", "cid")
	w.follow("ann", "bob")
	w.follow("cid", "bob")
	p := w.post("bob", "b1") // the like list of this post has three shards
	w.deliver()
	require.NoError(t, w.Like(t.Context(), "ann", p.ID))
	w.deliver()
	for _, pull := range []bool{false, true} {
		for viewer, liked := range map[string]bool{"ann": true, "cid": false} {
			items := w.home(viewer, 20, home.Query{Pull: pull})
			want := feed.HomeItem{Post: p, Author: feed.HomeAuthor{ID: "bob", Name: "Name of bob"}, LikeCount: 1, Liked: liked}
			assert.Equal(t, []feed.HomeItem{want}, items, "%s, pull %v", viewer, pull)
		}
	}
}

// fromPosts makes a world in which bob has made 130 posts and has deleted every tenth post.
func fromPosts(t *testing.T) (w *world, living []string) {
	t.Helper()
	w = newWorld(t)
	w.users("ann", "bob", "cid")
	for i := range 130 {
		text := fmt.Sprintf("b%d", i)
		p := w.post("bob", text)
		if i%10 == 9 {
			require.NoError(t, w.DeletePost(t.Context(), "bob", p.ID))
			continue
		}
		living = append([]string{text}, living...)
	}
	w.published.take() // these events were handled long ago
	return w, living
}

func TestAFollowShowsTheHundredNewestPosts(t *testing.T) {
	w, living := fromPosts(t)
	w.follow("ann", "bob")
	w.homes("ann", living[:100]...)
	w.post("bob", "new")
	want := append([]string{"new"}, living[:100]...)
	w.homes("ann", want...) // by the mark without the timeline
	w.deliver()
	w.homes("ann", want...) // by the mark and the timeline
	w.clock.add(2 * time.Minute)
	w.homes("ann", want...) // by the timeline without the mark
}

func TestManyMarkedAuthorsAreMerged(t *testing.T) {
	w := newWorld(t)
	names := numbered(45, "author")
	w.users("ann")
	w.users(names...)
	var want []string
	for i := range 120 {
		text := fmt.Sprint(i)
		w.post(names[i%len(names)], text)
		want = append([]string{text}, want...)
	}
	w.published.take()
	for _, name := range names {
		w.follow("ann", name)
	}
	w.homes("ann", want...)
	w.deliver()
	w.clock.add(2 * time.Minute)
	w.homes("ann", want...)
}

func TestHomesOfThousandsOfFolloweesByPull(t *testing.T) {
	w := newWorld(t)
	names := numbered(900, "author")
	w.users("ann")
	var want []string
	for i, name := range names {
		w.edge(schema.FollowingItem("ann", name, w.clock.now(), id.Min))
		if i%7 == 0 {
			w.users(name)
			w.post(name, name)
			want = append([]string{name}, want...)
		}
	}
	got := texts(w.home("ann", 50, home.Query{Pull: true}))
	assert.Truef(t, slices.Equal(got, want), "%q, want %q", got, want)
}

func TestPagesAreFilledUp(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 3, 0)
	var want []string
	for i := range 400 {
		author := names[i%2]
		if i%50 == 0 {
			author = names[2]
			want = append([]string{fmt.Sprint(i)}, want...)
		}
		p := w.post(author, fmt.Sprint(i))
		if author == names[0] {
			w.deliver()
			require.NoError(t, w.DeletePost(t.Context(), author, p.ID))
		}
	}
	w.deliver()
	require.NoError(t, w.Unfollow(t.Context(), "ann", names[1]))
	w.homes("ann", want...)
}

func TestPostsLeaveHomesWithTheirTTL(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.clock.add(300 * time.Millisecond)
	w.follow("ann", "bob")
	w.post("bob", "old")
	w.deliver()
	w.clock.add(timelineTTL - 2*time.Second)
	w.post("bob", "new")
	w.deliver()
	w.homes("ann", "new", "old")
	for range 40 { // push and pull agree in every part of a second
		w.clock.add(100 * time.Millisecond)
		pushed, pulled := texts(w.home("ann", 9, home.Query{})), texts(w.home("ann", 9, home.Query{Pull: true}))
		assert.Truef(t, slices.Equal(pushed, pulled), "by push %q, by pull %q", pushed, pulled)
	}
	w.homes("ann", "new")
}

// Authors post and delete, and the reader follows and unfollows, while the reader pages. Each post
// that is in the home from the first page to the last page appears once (I7).
func TestPagingThroughAChangingHome(t *testing.T) {
	for _, pull := range []bool{false, true} {
		w := newWorld(t)
		names := w.crowd("ann", 4, 0)
		w.users("late")
		for i := range 6 {
			w.post("late", fmt.Sprintf("late %d", i))
		}
		var stay []string
		var leave []feed.Post
		for i := range 60 {
			p := w.post(names[i%4], fmt.Sprint(i))
			if i%5 == 2 {
				leave = append(leave, p)
				continue
			}
			stay = append([]string{p.ID}, stay...)
		}
		w.deliver()
		w.clock.add(2 * time.Minute)
		seen := map[string]int{}
		n := 0
		list(t, 7, func(in page.Request) (page.List[feed.HomeItem], error) {
			l, err := w.Home(t.Context(), "ann", home.Query{Pull: pull}, in)
			for _, item := range l.Items {
				seen[item.Post.ID]++
			}
			w.post(names[n%4], "while paging")
			if n < len(leave) {
				require.NoError(t, w.DeletePost(t.Context(), leave[n].AuthorID, leave[n].ID))
			}
			switch n {
			case 2:
				w.follow("ann", "late")
			case 4:
				w.deliver()
			}
			n++
			pull = !pull // push and pull share their cursors
			return l, err
		})
		for _, post := range stay {
			assert.Equalf(t, 1, seen[post], "%s came %d times", post, seen[post])
		}
		for post, times := range seen {
			assert.LessOrEqualf(t, times, 1, "%s came %d times", post, times)
		}
	}
}

// Because of a mark walk, a home merges in an author's posts from one post on. Entries that the home
// already has stay, and the home skips items of an unknown kind.
func TestAHomeMergesAPulledAuthorIn(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.follow("ann", "bob")
	w.post("bob", "b1")
	w.deliver()
	w.clock.add(time.Hour)
	since := id.Floor(w.clock.now())
	w.post("bob", "b2")
	w.published.take() // no worker delivers the event
	for _, it := range []table.Item{
		schema.Mark{User: "ann", Author: "bob", Kind: schema.MarkPulled, Pull: since, Version: since, V: 1}.Item(),
		schema.Mark{User: "ann", Author: "cid", Kind: "later", Version: since}.Item(),
		{Key: table.Key{PK: schema.MarksPK("ann"), SK: "seen"}, Attrs: []table.Attr{{Name: "day", Value: table.N(1)}}},
	} {
		_, err := w.store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	w.homes("ann", "b2", "b1")
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	w.homes("ann")
}

func TestLateBackfillsAreRemindedOfOnceAMinute(t *testing.T) {
	w := newWorld(t)
	names := numbered(25, "author")
	w.users("ann")
	w.users(names...)
	for _, name := range names {
		w.follow("ann", name)
	}
	w.published.take() // the events are lost
	reminded := func() int {
		w.home("ann", 20, home.Query{})
		return len(w.published.take())
	}
	assert.Zero(t, reminded(), "young marks were reminded of")
	w.clock.add(10 * time.Second)
	assert.Zero(t, reminded(), "marks of ten seconds were reminded of")
	w.clock.add(time.Millisecond)
	for i, want := range []int{20, 5, 0} { // one home read sends 20 events at most
		assert.Equalf(t, want, reminded(), "read %d reminded of", i)
	}
	w.clock.add(time.Minute)
	n := reminded()
	assert.Equalf(t, 20, n, "a minute later %d were reminded of", n)
}

// Only backfills that have not ended are late. A backfill of an unfollowed author, and a backfill that
// became a pulled author's mark, are not late.
func TestOnlyBackfillsThatHaveNotEndedAreLate(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "ended", "gone", "late")
	w.follow("ann", "ended")
	w.deliver()
	w.follow("ann", "late")
	late := w.published.take()
	require.Len(t, late, 1)
	w.follow("ann", "gone")
	require.NoError(t, w.Unfollow(t.Context(), "ann", "gone"))
	w.pull("ann", id.Min, "large")
	w.published.take()
	w.clock.add(30 * time.Second)
	w.home("ann", 20, home.Query{})
	again := w.published.take()
	require.Len(t, again, 1)
	want, got := late[0].(*messages.Followed), again[0].(*messages.Followed)
	want.Header, got.Header = messages.Header{}, messages.Header{}
	assert.Equal(t, want, got)
}

func TestAHomeIsReadThoughRemindersFail(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.post("bob", "b1")
	w.follow("ann", "bob")
	w.clock.add(time.Hour)
	w.published.failWith(errors.New("queue down"))
	w.homes("ann", "b1")
}

func TestAHomeIsReadThoughRemindersPanic(t *testing.T) {
	panicked, broken := false, false
	w := newWorld(t, func(c *config) {
		works := c.Publisher
		c.Publisher = publishFunc(func(topic string, msgs ...*message.Message) error {
			if panicked = broken; broken {
				panic("boom")
			}
			return works.Publish(topic, msgs...)
		})
	})
	w.users("ann", "bob")
	w.post("bob", "b1")
	w.follow("ann", "bob")
	w.clock.add(time.Hour)
	broken = true
	w.homes("ann", "b1")
	assert.True(t, panicked, "nothing was published")
}

// The oldest post of the home follows the page directly, and was deleted. A home by pull does not find
// the post. A home by push finds the post's entry and does not read the post, so the page has a
// cursor, and the last page is empty.
func TestAPageOfAHomeReadsNoPostBehindIt(t *testing.T) {
	for _, c := range []struct {
		authors, limit int
	}{{1, 1}, {3, 3}, {1, 20}, {20, 20}, {99, 100}} {
		w, tp := tapped(t)
		names := w.crowd("viewer", c.authors, 0)
		oldest := w.post(names[0], "oldest")
		for i := range c.limit {
			w.post(names[i%c.authors], "newer")
		}
		w.deliver()
		require.NoError(t, w.DeletePost(t.Context(), names[0], oldest.ID))
		for pull, pages := range map[bool][]int{false: {c.limit, 0}, true: {c.limit}} {
			tp.take()
			var got []int
			read := 0 // the read posts of all pages; the last page of a home by push reads the deleted post
			for cursor, more := "", true; more; more = cursor != "" {
				l, err := w.Home(t.Context(), "viewer", home.Query{Pull: pull}, page.Request{Limit: c.limit, Cursor: cursor})
				require.NoError(t, err)
				got, cursor = append(got, len(l.Items)), l.NextCursor
			}
			assert.Equal(t, pages, got, "posts on the pages, %d authors, pull %v", c.authors, pull)
			for _, call := range tp.take() {
				if call.op != table.OpQuery && call.consistent {
					read += call.keys
				}
			}
			assert.Equal(t, c.limit+len(pages)-1, read, "posts read, pages of %d, pull %v", c.limit, pull)
		}
	}
}

// sparse adds posts to viewer's timeline. One of each hundred posts lives, and sparse returns the
// texts of the living posts. The viewer likes four other posts in the time of each living post.
func (w *world) sparse(viewer string, blocks int) (living []string) {
	w.t.Helper()
	names := w.crowd(viewer, 2, 0)
	var items []table.Item
	for i := range blocks {
		for range 99 {
			for _, post := range w.ids(4) {
				items = append(items, schema.Like{
					Post: post, User: viewer, Kind: schema.KindLike, Version: post, Flush: schema.Flush{Inc: "test", Seq: 1}, Indexed: true,
				}.Item())
			}
			w.entry(viewer, names[0], w.deletedPosts(names[0], 1)[0], 1)
		}
		living = append([]string{w.post(names[1], fmt.Sprint(i)).Text}, living...)
		w.deliver()
	}
	w.put(items...)
	return living
}

// The budget counts the reads of marks, merged lists and likes by key that each read of the timeline
// causes.
func TestAPageIsFilledUpWithinItsCalls(t *testing.T) {
	for _, c := range []struct {
		merged, marks int
		index         bool
		limits        []int
	}{
		{0, 0, true, []int{1, 20, 100}},
		{1, 0, true, []int{1, 20, 100}},
		{3, 0, true, []int{1, 20, 100}},
		{4, 0, true, []int{20, 100}},
		{0, 2500, true, []int{20, 100}},
		{0, 2500, false, []int{20, 100}},
	} {
		w, tp := tapped(t, func(cfg *config) { cfg.LikesByUser = c.index })
		want := w.sparse("viewer", 5)
		for _, author := range numbered(c.merged, "merged") {
			w.put(schema.Mark{User: "viewer", Author: author, Kind: schema.MarkBackfill, From: id.Min, Version: w.ids(1)[0]}.Item())
		}
		for _, author := range numbered(c.marks, "a") {
			w.put(schema.Mark{User: "viewer", Author: author, Kind: schema.MarkUnfollowed, Version: id.Min}.Item())
		}
		for _, limit := range c.limits {
			got := wholeList(t, tp, limit, tableCalls+smallCalls+c.merged, 40, func(in page.Request) (page.List[feed.HomeItem], error) {
				return w.Home(t.Context(), "viewer", home.Query{}, in)
			})
			wantSame(t, limit, texts(got), want)
		}
	}
}

// The newest post lives. After that post, the list has more deleted posts than a page holds.
func TestAFilledUpPageHasACursorIfAPostFollows(t *testing.T) {
	for living, pages := range map[int][]int{0: {1}, 1: {2}, 2: {3}, 3: {3, 1}, 5: {3, 3}} {
		w := newWorld(t)
		names := w.crowd("viewer", 2, 0)
		for range living {
			w.post(names[0], "old")
		}
		w.deliver()
		for _, post := range w.deletedPosts(names[1], 5) {
			w.entry("viewer", names[1], post, 1)
		}
		w.post(names[0], "new")
		w.deliver()
		var got []int
		for cursor, more := "", true; more; more = cursor != "" {
			l, err := w.Home(t.Context(), "viewer", home.Query{}, page.Request{Limit: 3, Cursor: cursor})
			require.NoError(t, err)
			got, cursor = append(got, len(l.Items)), l.NextCursor
		}
		assert.Equal(t, pages, got, "%d posts follow", living)
	}
}
