package feed_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
)

// Here homes by pull have more followees than one request reads lists.

// firstLists is the number of lists that the first page of a gathering reads, and pageLists
// of each page after it.
const firstLists, pageLists = 9, 1000

// followees lets viewer follow n authors without a profile, and returns them.
func (w *world) followees(viewer string, n int) []string {
	w.t.Helper()
	names := numbered(n, "author")
	w.users(viewer)
	items := []table.Item{{Key: schema.CountsKey(viewer), Attrs: []table.Attr{{Name: schema.AttrFollowing, Value: table.N(int64(n))}}}}
	for _, name := range names {
		items = append(items, schema.FollowingItem(viewer, name, w.clock.now(), id.Min), schema.FollowerItem(name, viewer, w.clock.now()),
			table.Item{Key: schema.FollowerCountKey(name, viewer), Attrs: []table.Attr{{Name: schema.AttrN, Value: table.N(1)}}})
	}
	w.put(items...)
	return names
}

// pulled reads a page of viewer's home by pull.
func (w *world) pulled(viewer string, in page.Request) page.List[feed.HomeItem] {
	w.t.Helper()
	l, err := w.Home(w.t.Context(), viewer, home.Query{Pull: true}, in)
	require.NoError(w.t, err)
	return l
}

// The first page makes 12 table calls at most. The pages after it read a thousand lists each,
// as a home of a thousand followees does.
func TestTheFirstPageOfThousandsOfFolloweesByPullMakesTwelveTableCalls(t *testing.T) {
	w, tp := tapped(t)
	names := w.followees("viewer", 5000)
	var want []string
	for i := range 30 {
		author := "viewer"
		if i%10 != 0 {
			author = names[(i*1237)%len(names)]
			w.users(author)
		}
		want = append([]string{w.post(author, fmt.Sprint(i)).ID}, want...)
	}
	w.deliver()
	var calls, shown []int
	tp.take()
	got, _ := w.walk("viewer", "", 20, func(l page.List[feed.HomeItem]) {
		calls, shown = append(calls, len(tp.take())), append(shown, len(l.Items))
	})
	const lists, items = 2 + pageLists, 6 // the followees, the mutes and their lists; posts by id, mutes, edges, posts, the rest, own likes
	assert.Equal(t, []int{2 + firstLists, lists, lists, lists, lists, lists - 8, items, items}, calls, "table calls")
	assert.Equal(t, []int{0, 0, 0, 0, 0, 0, 20, 10}, shown, "posts on the pages")
	assert.LessOrEqual(t, calls[0], tableCalls)
	assert.Equal(t, want, homeIDs(got), "by pull")
	assert.Equal(t, want, homeIDs(w.home("viewer", 100, home.Query{})), "by push")
}

// One gathering fills pages of any size until its 100 posts are shown.
func TestAGatheringFillsManyPages(t *testing.T) {
	w, tp := tapped(t)
	names := w.followees("viewer", 1001)
	w.users(names[:150]...)
	var want []string
	for i := range 150 {
		want = append([]string{w.post(names[149-i], fmt.Sprint(i)).ID}, want...)
	}
	for limit, pages := range map[int]int{20: 5 + 3, 100: 2} {
		const gathering = 2
		requests, longest := 0, 0
		got := wholeList(t, tp, limit, 2+pageLists, 2*gathering+pages, func(in page.Request) (page.List[feed.HomeItem], error) {
			requests, longest = requests+1, max(longest, len(in.Cursor))
			return w.Home(t.Context(), "viewer", home.Query{Pull: true}, in)
		})
		assert.Equal(t, want, homeIDs(got))
		assert.Equal(t, 2*gathering+pages, requests)
		assert.Less(t, longest, 2300, "the longest cursor")
	}
}

// walk reads viewer's home by pull from cursor on to its end, and returns its posts and
// the number of requests. It calls each with each page, if each is not nil.
func (w *world) walk(viewer, cursor string, limit int, each func(page.List[feed.HomeItem])) (items []feed.HomeItem, requests int) {
	w.t.Helper()
	for ; ; requests++ {
		l := w.pulled(viewer, page.Request{Limit: limit, Cursor: cursor})
		if each != nil {
			each(l)
		}
		items = append(items, l.Items...)
		if l.NextCursor == "" {
			return items, requests + 1
		}
		require.NotEqual(w.t, cursor, l.NextCursor, "a page does not move on")
		cursor = l.NextCursor
	}
}

// A thousand followees are read by one request, one more by two and a page.
func TestAHomeOfAThousandFolloweesByPullIsOneRequest(t *testing.T) {
	for followees, want := range map[int]int{1000: 1, 1001: 3, 1000 + firstLists - 1: 3, 1000 + firstLists: 4} {
		w := newWorld(t)
		names := w.followees("viewer", followees)
		last := names[followees-1]
		w.users(names[0], last)
		posts := []string{w.post(last, "x").ID, w.post(names[0], "x").ID}
		slices.Reverse(posts)
		got, requests := w.walk("viewer", "", 20, nil)
		assert.Equal(t, posts, homeIDs(got))
		assert.Equalf(t, want, requests, "requests of %d followees", followees)
	}
}

// gathered returns a world in which viewer follows more authors than one request reads,
// n posts of them, newest first, and a cursor with which the first page is to be shown.
func gathered(t *testing.T, n int) (w *world, posts []feed.Post, cursor string) {
	t.Helper()
	w = newWorld(t)
	names := w.followees("viewer", 1001)
	w.users(names[:n]...)
	for i := range n {
		posts = append(posts, w.post(names[i], fmt.Sprint(i)))
	}
	w.deliver()
	w.clock.add(2 * time.Minute)
	slices.Reverse(posts)
	for range 2 {
		l := w.pulled("viewer", page.Request{Cursor: cursor})
		require.Empty(t, l.Items, "a page of a gathering")
		cursor = l.NextCursor
	}
	return w, posts, cursor
}

func TestGatheredPostsAreLeftOutIfTheyMustNotShowAnyMore(t *testing.T) {
	for name, hide := range map[string]func(w *world, p feed.Post){
		"deleted":    func(w *world, p feed.Post) { require.NoError(t, w.DeletePost(t.Context(), p.AuthorID, p.ID)) },
		"muted":      func(w *world, p feed.Post) { w.mute("viewer", p.AuthorID) },
		"unfollowed": func(w *world, p feed.Post) { require.NoError(t, w.Unfollow(t.Context(), "viewer", p.AuthorID)) },
		"below the first post of a new follow": func(w *world, p feed.Post) {
			w.put(schema.FollowingItem("viewer", p.AuthorID, w.clock.now(), id.Max))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, posts, cursor := gathered(t, 9)
			hide(w, posts[1])
			hide(w, posts[8])
			var want []string
			for _, p := range posts[2:8] {
				want = append(want, p.ID)
			}
			want = append([]string{posts[0].ID}, want...)
			for _, limit := range []int{1, 2, 9, 20} {
				got, _ := w.walk("viewer", cursor, limit, nil)
				assert.Equal(t, want, homeIDs(got))
			}
		})
	}
	w, _, cursor := gathered(t, 9)
	w.clock.add(timelineTTL)
	got, _ := w.walk("viewer", cursor, 20, nil)
	assert.Empty(t, got, "expired")
}

// Push and pull share their cursors, also those of a gathering.
func TestCursorsOfGatherings(t *testing.T) {
	w, posts, cursor := gathered(t, 9)
	first := w.pulled("viewer", page.Request{Limit: 4, Cursor: cursor})
	push := func(in page.Request) page.List[feed.HomeItem] {
		l, err := w.Home(t.Context(), "viewer", home.Query{}, in)
		require.NoError(t, err)
		return l
	}
	assert.Equal(t, ids(posts[:4]), homeIDs(first.Items))
	assert.Equal(t, ids(posts), homeIDs(push(page.Request{Cursor: cursor}).Items), "by push, before the first page")
	assert.Equal(t, ids(posts[4:]), homeIDs(push(page.Request{Cursor: first.NextCursor}).Items), "by push, after it")
	rest, _ := w.walk("viewer", push(page.Request{Limit: 4}).NextCursor, 3, nil)
	assert.Equal(t, ids(posts[4:]), homeIDs(rest), "by pull from a cursor of push")
	w.users("other")
	_, err := w.Home(t.Context(), "other", home.Query{Pull: true}, page.Request{Cursor: cursor})
	wantKind(t, err, fault.Malformed)
}

// A home that returns is read by pull, too. Its reader follows more than a thousand authors
// and gets the gathering, without asking for it.
func TestAReturningReaderOfThousandsOfFolloweesGetsAFewEmptyPages(t *testing.T) {
	w := newWorld(t, active(2))
	names := w.followees("viewer", 5000)
	var want []string
	for i := range 25 {
		author := names[i*199]
		w.users(author)
		want = append([]string{w.post(author, "x").ID}, want...)
	}
	w.put(schema.Presence{User: "viewer", State: schema.PresenceHere, Until: w.today() - 1}.Item())
	var got []string
	var shown []int
	for cursor, more := "", true; more; more = cursor != "" {
		l, err := w.Home(t.Context(), "viewer", home.Query{}, page.Request{Cursor: cursor})
		require.NoError(t, err)
		got, shown = append(got, homeIDs(l.Items)...), append(shown, len(l.Items))
		cursor = l.NextCursor
	}
	assert.Equal(t, schema.PresenceReturning, w.presence("viewer").State)
	assert.Equal(t, want, got)
	assert.Equal(t, []int{0, 0, 0, 0, 0, 0, 20, 5}, shown, "posts on the pages")
}

func ids(posts []feed.Post) (all []string) {
	for _, p := range posts {
		all = append(all, p.ID)
	}
	return all
}

func TestAGatheredPageOfLongTextsEndsAfterItsBytes(t *testing.T) {
	w, _, _ := gathered(t, 0)
	w.users("author0000")
	var want []string
	for range 30 {
		want = append([]string{w.post("author0000", strings.Repeat("\U0001F600", 5000)).ID}, want...)
	}
	var got []string
	most := 0
	for cursor := ""; ; {
		l := w.pulled("viewer", page.Request{Limit: 100, Cursor: cursor})
		got, most = append(got, homeIDs(l.Items)...), max(most, len(l.Items))
		if cursor = l.NextCursor; cursor == "" {
			break
		}
	}
	assert.Equal(t, want, got)
	assert.Equal(t, 256<<10/20_600, most, "posts on a page")
}

// While a reader's requests gather and show, posts and follows come and go. What is in the
// home from the first request to the last appears once, and nothing shows that was deleted
// or unfollowed before the request (I2, I7).
func TestAHomeByPullGathersWhileItChanges(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		names := w.followees("viewer", 2500)
		authors := append([]string{"viewer"}, numbered(10, "stranger")...)
		for range 40 {
			authors = append(authors, names[random.IntN(len(names))])
		}
		slices.Sort(authors)
		authors = slices.Compact(authors)
		w.users(authors...)
		follows, living := map[string]bool{"viewer": true}, map[string]feed.Post{}
		for _, name := range names {
			follows[name] = true
		}
		post := func() {
			p := w.post(authors[random.IntN(len(authors))], "x")
			living[p.ID] = p
		}
		for range 150 {
			post()
		}
		stays := map[string]bool{}
		for _, p := range living {
			stays[p.ID] = follows[p.AuthorID]
		}
		forget := func(hidden func(feed.Post) bool) {
			for post := range stays {
				if p, lives := living[post]; !lives || hidden(p) {
					delete(stays, post)
				}
			}
		}
		var shown []string
		limit := []int{7, 20, 100}[seed]
		change := func() {
			switch author := authors[random.IntN(len(authors))]; random.IntN(12) {
			case 0:
				post()
			case 1:
				for _, p := range living { // any one
					require.NoError(t, w.DeletePost(t.Context(), p.AuthorID, p.ID))
					delete(living, p.ID)
					break
				}
				forget(func(feed.Post) bool { return false })
			case 2:
				if author != "viewer" && random.IntN(2) == 0 {
					require.NoError(t, w.Unfollow(t.Context(), "viewer", author))
					follows[author] = false
					forget(func(p feed.Post) bool { return p.AuthorID == author })
				}
			case 3:
				if author != "viewer" {
					w.follow("viewer", author)
					follows[author] = true
				}
			}
		}
		for cursor, more := "", true; more; {
			for range random.IntN(8) {
				change()
			}
			l := w.pulled("viewer", page.Request{Limit: limit, Cursor: cursor})
			for _, item := range l.Items {
				p := item.Post
				_, lives := living[p.ID]
				assert.Truef(t, lives && follows[p.AuthorID], "seed %d: %s of %s shows", seed, p.ID, p.AuthorID)
				assert.Truef(t, len(shown) == 0 || p.ID < shown[len(shown)-1], "seed %d: %s comes after %v", seed, p.ID, shown)
				shown = append(shown, p.ID)
				delete(stays, p.ID)
			}
			cursor, more = l.NextCursor, l.NextCursor != ""
		}
		forget(func(p feed.Post) bool { return !follows[p.AuthorID] })
		maps.DeleteFunc(stays, func(_ string, followed bool) bool { return !followed })
		assert.Emptyf(t, stays, "seed %d: posts never came", seed)
	}
}
