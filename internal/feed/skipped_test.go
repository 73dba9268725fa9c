package feed_test

import (
	"fmt"
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
	"fanfare/messages"
)

// In these tests, lists and homes contain thousands of hidden items. Each page costs a bounded number
// of table calls, and all pages together contain each shown item once.

// tableCalls is the maximum number of calls of one page, besides the first read of each list that the
// page merges.
const tableCalls = 12

// smallCalls is the maximum number of calls that a small first refill adds: for references, their
// posts, and the likes of the shown posts.
const smallCalls = 3

// put writes items without any check.
func (w *world) put(items ...table.Item) {
	w.t.Helper()
	for part := range slices.Chunk(items, table.MaxBatchWrite) {
		writes := make([]table.BatchWrite, len(part))
		for i := range part {
			writes[i].Put = &part[i]
		}
		if _, err := w.store.BatchWrite(w.t.Context(), writes); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ids returns n ids. Consecutive ids are a millisecond apart.
func (w *world) ids(n int) []string {
	w.t.Helper()
	ids := make([]string, n)
	generator := id.NewGenerator(w.clock.now)
	for i := range ids {
		w.clock.add(time.Millisecond)
		made, err := generator.New()
		if err != nil { // one assertion for each of 100,000 ids would take longer than the test
			w.t.Fatal(err)
		}
		ids[i] = made
	}
	return ids
}

// deletedPosts puts the tombstones of n posts by author.
func (w *world) deletedPosts(author string, n int) []string {
	w.t.Helper()
	posts := w.ids(n)
	var items []table.Item
	for _, post := range posts {
		items = append(items, schema.PostRef{ID: post, Author: author, Deleted: true}.Item())
	}
	w.put(items...)
	return posts
}

// wholeList reads a list by its cursors. A page may cost as many table calls as most. The list may have
// at most pages pages, because the budget explains that number.
func wholeList[T any](t *testing.T, tp *tap, limit, most, pages int, read func(page.Request) (page.List[T], error)) []T {
	t.Helper()
	var items []T
	for cursor, n := "", 1; ; n++ {
		tp.take()
		l, err := read(page.Request{Limit: limit, Cursor: cursor})
		require.NoError(t, err)
		calls := len(tp.take())
		require.LessOrEqualf(t, calls, most, "page %d of limit %d took %d table calls", n, limit, calls)
		require.LessOrEqualf(t, len(l.Items), limit, "a page of %d has %d items", limit, len(l.Items))
		items = append(items, l.Items...)
		if cursor = l.NextCursor; cursor == "" {
			return items
		}
		require.NotEqualf(t, pages, n, "after %d pages of limit %d the list has not ended", n, limit)
	}
}

func postTexts(posts []feed.Post) []string {
	var all []string
	for _, p := range posts {
		all = append(all, p.Text)
	}
	return all
}

func wantSame(t *testing.T, limit int, got, want []string) {
	t.Helper()
	assert.Truef(t, slices.Equal(got, want), "limit %d: %q, want %q", limit, got, want)
}

var skippedLimits = []int{1, 20, 100}

func TestHomeBehindThousandsOfEntriesOfDeletedPosts(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 2, 0)
	w.post(names[1], "old")
	deleted := w.deletedPosts(names[0], 3000)
	for _, post := range deleted {
		w.entry("ann", names[0], post, 1)
	}
	w.post(names[1], "new")
	w.deliver()
	for _, limit := range skippedLimits {
		got := wholeList(t, tp, limit, tableCalls+smallCalls, 3000/100+2, func(in page.Request) (page.List[feed.HomeItem], error) {
			return w.Home(t.Context(), "ann", home.Query{}, in)
		})
		wantSame(t, limit, texts(got), []string{"new", "old"})
	}
}

func TestHomeBehindThousandsOfEntriesOfAnUnfollowedAuthor(t *testing.T) {
	for entries, limits := range map[int][]int{3000: skippedLimits, 100_000: {20}} {
		w, tp := tapped(t)
		names := w.crowd("ann", 2, 0)
		w.post(names[1], "old")
		w.entries("ann", names[0], entries)
		w.post(names[1], "new")
		w.deliver()
		require.NoError(t, w.Unfollow(t.Context(), "ann", names[0]))
		for _, limit := range limits {
			got := wholeList(t, tp, limit, tableCalls, entries/5000+3, func(in page.Request) (page.List[feed.HomeItem], error) {
				return w.Home(t.Context(), "ann", home.Query{}, in)
			})
			wantSame(t, limit, texts(got), []string{"new", "old"})
		}
	}
}

// entries puts n entries of author into user's timeline.
func (w *world) entries(user, author string, n int) {
	w.t.Helper()
	items := make([]table.Item, n)
	for i, post := range w.ids(n) {
		items[i] = table.Item{
			Key:   table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, author)},
			Attrs: schema.EntryAttrs(w.clock.now().Add(timelineTTL), 1),
		}
	}
	w.put(items...)
}

// A home that skips many entries of an unfollowed author requests the removal of these entries, once a
// minute, so that a lost event is sent again. If the entries are few, the home lets the entries
// expire.
func TestAHomeAsksForTheRemovalOfManyEntries(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 2, 0)
	w.entries("ann", names[0], 100)
	w.entries("ann", names[1], 99)
	for _, name := range names {
		require.NoError(t, w.Unfollow(t.Context(), "ann", name))
	}
	w.published.take()
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {0, 0}, {time.Minute, 1}} {
		w.clock.add(step.after)
		w.home("ann", 20, home.Query{})
		requests := w.published.take()
		for _, event := range requests {
			if e, ok := event.(*messages.Unfollowed); !ok || e.FollowerID != "ann" || e.AuthorID != names[0] {
				t.Errorf("the home published %+v", event)
			}
		}
		assert.Lenf(t, requests, step.want, "after %s more: %d requests", step.after, len(requests))
	}
}

// The budget cuts the entries. Posts of a newly followed author are above and below the cut (I7).
func TestHomeOfACutTimelineAndAMarkedAuthor(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 2, 0)
	w.users("late")
	var want []string
	for i := range 8 {
		w.entries("ann", names[0], 1500)
		author := "late"
		if i%3 == 0 {
			author = names[1]
		}
		text := fmt.Sprint(i)
		w.post(author, text)
		want = append([]string{text}, want...)
	}
	w.deliver()
	require.NoError(t, w.Unfollow(t.Context(), "ann", names[0]))
	w.follow("ann", "late")
	for _, limit := range skippedLimits {
		got := wholeList(t, tp, limit, tableCalls+1, 30, func(in page.Request) (page.List[feed.HomeItem], error) {
			return w.Home(t.Context(), "ann", home.Query{}, in)
		})
		wantSame(t, limit, texts(got), want)
	}
}

// A page of the table ends after a megabyte, so the lists of authors of long posts are cut. The cut of
// one list must not hide a post of another list (I7).
func TestHomesOfAuthorsOfLongPosts(t *testing.T) {
	w, tp := tapped(t)
	names := numbered(25, "author")
	w.users("ann")
	w.users(names...)
	long := strings.Repeat("\U0001F600", 5000)
	var want []string
	for i := range 180 {
		author, text := names[2+i%23], "short"
		if i%3 > 0 {
			author, text = names[i%3-1], long
		}
		want = append([]string{w.post(author, text).ID}, want...)
	}
	w.published.take()
	for _, name := range names {
		w.put(schema.FollowingItem("ann", name, w.clock.now(), id.Min), schema.Mark{
			User: "ann", Author: name, Kind: schema.MarkBackfill, From: id.Min, Version: w.ids(1)[0],
		}.Item())
	}
	for _, pull := range []bool{false, true} {
		for _, limit := range skippedLimits {
			got := wholeList(t, tp, limit, tableCalls+26, 200, func(in page.Request) (page.List[feed.HomeItem], error) {
				return w.Home(t.Context(), "ann", home.Query{Pull: pull}, in)
			})
			wantSame(t, limit, homeIDs(got), want)
		}
	}
}

func TestCommentsAndLikesOfThousandsOfDeletedPosts(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	like := func(post string) table.Item {
		return schema.Like{Post: post, User: "ann", Kind: schema.KindLike, Version: post, Flush: schema.Flush{Inc: "test", Seq: 1}, Indexed: true}.Item()
	}
	comment := func(comment, post string) table.Item {
		return schema.Comment{ID: comment, Post: post, Author: "ann", Text: "x"}.Item()
	}
	var want []string
	living := func(text string) {
		p := w.post("bob", text)
		w.put(like(p.ID), comment(p.ID, p.ID))
		want = append([]string{p.ID}, want...)
	}
	living("old")
	deleted := w.deletedPosts("bob", 3000)
	for i, post := range deleted {
		w.put(like(post), comment(post, deleted[i%20]))
	}
	living("new")
	for _, limit := range skippedLimits {
		var comments, likes []string
		for _, c := range wholeList(t, tp, limit, tableCalls, 3000/400+2, func(in page.Request) (page.List[feed.Comment], error) {
			return w.CommentsByUser(t.Context(), access.Viewer{}, "ann", in)
		}) {
			comments = append(comments, c.PostID)
		}
		wantSame(t, limit, comments, want)
		for _, l := range wholeList(t, tp, limit, tableCalls, 3000/400+2, func(in page.Request) (page.List[feed.LikedPost], error) {
			return w.LikesByUser(t.Context(), access.Viewer{}, "ann", in)
		}) {
			likes = append(likes, l.PostID)
		}
		wantSame(t, limit, likes, want)
	}
}

func TestLikersBehindThousandsOfTakenBackLikes(t *testing.T) {
	for shards, users := range map[int]int{1: 20_000, 30: 12_000} {
		w, tp := tapped(t)
		w.users("bob")
		post := w.ids(1)[0]
		w.put(schema.PostRef{ID: post, Author: "bob", LikeShards: shards}.Item())
		var items []table.Item
		var want []string
		for i, user := range numbered(users, "user") {
			kind := []string{"", "love"}[i%2]
			if i%4999 == 4998 {
				kind, want = schema.KindLike, append(want, user)
			}
			items = append(items, schema.Like{
				Post: post, User: user, Kind: kind, Version: post, LikeShards: shards, Flush: schema.Flush{Inc: "test", Seq: 1},
			}.Item())
		}
		w.put(items...)
		slices.Sort(want)
		for _, limit := range skippedLimits {
			var got []string
			for _, l := range wholeList(t, tp, limit, tableCalls+shards, 300, func(in page.Request) (page.List[feed.Liker], error) {
				return w.Likers(t.Context(), access.Viewer{}, post, in)
			}) {
				got = append(got, l.UserID)
			}
			wantSame(t, limit, got, want)
		}
	}
}

// Two long lists have two users in common. The other users of the two lists alternate, so a skip
// forward saves no reads.
func TestFriendsOfTwoLongListsWithHardlyAMatch(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	want := []string{"u01500", "u03999"}
	var edges []table.Item
	for i, user := range numbered(4000, "u0") {
		both := slices.Contains(want, user)
		if both || i%2 == 0 {
			edges = append(edges, schema.FollowerItem("ann", user, w.clock.now()))
		}
		if both || i%2 == 1 {
			edges = append(edges, schema.FollowingItem("ann", user, w.clock.now(), ""))
		}
	}
	w.put(edges...)
	for _, limit := range skippedLimits {
		got := wholeList(t, tp, limit, tableCalls, 4000/64/8+3, func(in page.Request) (page.List[feed.Edge], error) {
			return w.Friends(t.Context(), "ann", in)
		})
		wantSame(t, limit, edgeUsers(got), want)
	}
}

// Only pages that skipped items are short.
func TestPagesAreFullWhereNothingIsSkipped(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 30, 300)
	w.clock.add(time.Minute)
	for _, pull := range []bool{false, true} {
		for n, cursor := 0, ""; n == 0 || cursor != ""; n++ {
			l, err := w.Home(t.Context(), "ann", home.Query{Pull: pull}, page.Request{Cursor: cursor})
			if err != nil || len(l.Items) != 20 {
				t.Fatalf("pull %v, page %d of %d authors: %d items, %v", pull, n, len(names), len(l.Items), err)
			}
			cursor = l.NextCursor
		}
	}
}
