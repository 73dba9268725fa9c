package feed_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// In these tests, homes by pull have more followees than one page of the list of followees.

// With up to pageLists followees, each page reads every list. With up to gatherLists followees, one
// request gathers the home.
const pageLists, gatherLists = 1000, 5000

// followees makes viewer follow n authors without a profile, and returns the authors.
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

// The first page reads each list once. The later pages contain the posts that the first page gathered.
func TestAHomeOfFiveThousandFolloweesByPullReadsEachListOnce(t *testing.T) {
	w, tp := tapped(t)
	names := w.followees("viewer", gatherLists)
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
	const followees, lists, items = 2 * (1 + gatherLists/pageLists), 1 + gatherLists, 6 // followees: with the mutes; lists: with the own list; items: posts by id, mutes, edges, posts, the rest, own likes
	assert.Equal(t, []int{followees + lists + items, items}, calls, "table calls")
	assert.Equal(t, []int{20, 10}, shown, "posts on the pages")
	assert.Equal(t, want, homeIDs(got), "by pull")
	assert.Equal(t, want, homeIDs(w.home("viewer", 100, home.Query{})), "by push")
}

// Requests of one reader that gather a home take turns, so that only one request's calls run at a
// time. Another reader does not wait for these requests.
func TestRequestsThatGatherAHomeTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t)
		tp.latency = time.Millisecond // in virtual time
		w.followees("viewer", pageLists+1)
		w.followees("other", pageLists+1)
		took := func(viewers ...string) time.Duration {
			began := time.Now()
			var requests sync.WaitGroup
			for _, viewer := range viewers {
				requests.Go(func() {
					_, err := w.Home(t.Context(), viewer, home.Query{Pull: true}, page.Request{})
					assert.NoError(t, err)
				})
			}
			requests.Wait()
			return time.Since(began)
		}
		const around = 2 * time.Millisecond // for the first followees, and finally the mutes
		alone := took("viewer")
		assert.Equal(t, alone, took("viewer", "other"))
		assert.Equal(t, around+3*(alone-around), took("viewer", "viewer", "viewer"))
	})
}

// The table takes a tenth of a second for each call, so one request has no time to read five thousand
// lists. The next request continues at the end of the first request.
func TestAGatheringOnASlowTableGetsFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapped(t)
		names := w.followees("viewer", gatherLists)
		w.users(names[0], names[gatherLists-1])
		want := []string{w.post(names[gatherLists-1], "x").ID, w.post(names[0], "x").ID}
		slices.Reverse(want)
		tp.latency = 100 * time.Millisecond // in virtual time
		var got []string
		in, requests := page.Request{}, 0
		for more := true; more; requests++ {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			l, err := w.Home(ctx, "viewer", home.Query{Pull: true}, in)
			cancel()
			require.NoError(t, err)
			got = append(got, homeIDs(l.Items)...)
			in.Cursor, more = l.NextCursor, l.NextCursor != ""
		}
		assert.Equal(t, want, got)
		assert.Equal(t, 2, requests)
	})
}

// One gathering fills pages of any size until all its 100 posts are shown.
func TestAGatheringFillsManyPages(t *testing.T) {
	w, tp := tapped(t)
	names := w.followees("viewer", 1001)
	w.users(names[:150]...)
	var want []string
	for i := range 150 {
		want = append([]string{w.post(names[149-i], fmt.Sprint(i)).ID}, want...)
	}
	for limit, pages := range map[int]int{20: 5 + 3, 100: 2} {
		requests, longest := 0, 0
		got := wholeList(t, tp, limit, 1100, pages, func(in page.Request) (page.List[feed.HomeItem], error) {
			requests, longest = requests+1, max(longest, len(in.Cursor))
			return w.Home(t.Context(), "viewer", home.Query{Pull: true}, in)
		})
		assert.Equal(t, want, homeIDs(got))
		assert.Equal(t, pages, requests)
		assert.Less(t, longest, 2300, "the longest cursor")
	}
}

// walk reads viewer's home by pull from cursor to the end, and returns the posts and the number of
// requests. If each is not nil, walk calls each with every page.
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

// One request reads the lists of five thousand followees. Each further five thousand followees take
// one more request.
func TestAHomeOfFiveThousandFolloweesByPullIsOneRequest(t *testing.T) {
	for followees, want := range map[int]int{pageLists: 1, pageLists + 1: 1, gatherLists: 1, gatherLists + 1: 2, 2*gatherLists + 1: 3} {
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

// gathered returns a world in which viewer follows more authors than each page reads. It also returns
// n posts of these authors, newest first, and the cursor of a gathering above the posts.
func gathered(t *testing.T, n int) (w *world, posts []feed.Post, cursor string) {
	t.Helper()
	w = newWorld(t)
	names := w.followees("viewer", pageLists+1)
	w.users(names[:n]...)
	for i := range n {
		posts = append(posts, w.post(names[i], fmt.Sprint(i)))
	}
	w.post("viewer", "newest")
	w.deliver()
	w.clock.add(2 * time.Minute)
	slices.Reverse(posts)
	l := w.pulled("viewer", page.Request{Limit: 1})
	require.Len(t, l.Items, 1)
	return w, posts, l.NextCursor
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

// Push and pull share their cursors, including cursors of a gathering.
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
	rest, _ := w.walk("viewer", push(page.Request{Limit: 5}).NextCursor, 3, nil)
	assert.Equal(t, ids(posts[4:]), homeIDs(rest), "by pull from a cursor of push")
	w.users("other")
	_, err := w.Home(t.Context(), "other", home.Query{Pull: true}, page.Request{Cursor: cursor})
	wantKind(t, err, fault.Malformed)
}

// The home of a returning reader is read by pull. The reader sees every post at once, with any number
// of followees: on pages of any size, with After, and in a live home (I1, I7).
func TestAReturningReaderOfThousandsOfFolloweesSeesEverythingAtOnce(t *testing.T) {
	for _, c := range []struct{ followees, pushed, skipped int }{{1001, 0, 30}, {2000, 30, 130}, {5000, 0, 25}, {5000, 15, 5}} {
		t.Run(fmt.Sprintf("%d followees, %d posts pushed and %d skipped", c.followees, c.pushed, c.skipped), func(t *testing.T) {
			w := newWorld(t, active(2))
			names := w.followees("viewer", c.followees)
			slices.Reverse(names) // the newest post is by the last author
			w.users(names[:50]...)
			var want []string
			for i := range c.pushed {
				want = append([]string{w.post(names[i%50], "pushed").ID}, want...)
			}
			w.deliver()
			for i := range c.skipped {
				want = append([]string{w.post(names[i%50], "skipped").ID}, want...)
			}
			w.published.take()
			w.put(schema.Presence{User: "viewer", State: schema.PresenceHere, Until: w.today() - 1}.Item())
			for _, limit := range []int{7, 20, 100} {
				w.shownFromTheFirstPageOn("viewer", limit, want)
			}
			assert.Equal(t, schema.PresenceReturning, w.presence("viewer").State)

			news := w.news("viewer", home.Query{After: want[len(want)-1]}, 20)
			assert.Equal(t, want[:min(20, len(want)-1)], homeIDs(news.Items), "after")
			assert.Equal(t, min(len(want)-1, home.MaxUnread), news.Unread)

			seen := w.watch("viewer", want[len(want)-1])
			live := w.arrivals("viewer", seen)
			slices.Reverse(live)
			assert.Equal(t, want[:len(want)-1], live, "live")
			newest := w.post(names[0], "new").ID
			assert.Equal(t, []string{newest}, w.arrivals("viewer", seen), "live")
		})
	}
}

// shownFromTheFirstPageOn reads viewer's home to the end. Only the last page may be empty.
func (w *world) shownFromTheFirstPageOn(viewer string, limit int, want []string) {
	w.t.Helper()
	var got []string
	for in := (page.Request{Limit: limit}); ; {
		l, err := w.Home(w.t.Context(), viewer, home.Query{}, in)
		require.NoError(w.t, err)
		require.Truef(w.t, len(l.Items) > 0 || l.NextCursor == "", "an empty page after %d posts", len(got))
		got = append(got, homeIDs(l.Items)...)
		if in.Cursor = l.NextCursor; in.Cursor == "" {
			break
		}
	}
	assert.Equalf(w.t, want, got, "pages of %d", limit)
}

// The entries above the gap of a return belong to deleted posts. The first page still shows the posts
// in the gap.
func TestAFirstPageThatBeginsInAGapIsNotEmpty(t *testing.T) {
	for _, deleted := range []int{1, 30, 150} {
		w := newWorld(t, active(2))
		names := w.followees("viewer", pageLists+1)
		w.users(names[0], names[pageLists])
		var want []string
		for range 3 {
			want = append([]string{w.post(names[pageLists], "in the gap").ID}, want...)
		}
		w.published.take()
		var gone []feed.Post
		for range deleted {
			gone = append(gone, w.post(names[0], "deleted"))
		}
		w.deliver()
		for _, p := range gone {
			require.NoError(t, w.DeletePost(t.Context(), p.AuthorID, p.ID))
		}
		w.put(schema.Presence{User: "viewer", State: schema.PresenceHere, Until: w.today() + 2, V: 1, Lo: id.Min, Hi: gone[0].ID}.Item())
		w.shownFromTheFirstPageOn("viewer", 20, want)
		assert.Equal(t, 3, w.news("viewer", home.Query{After: id.Min}, 2).Unread, "%d deleted", deleted)
	}
}

func ids(posts []feed.Post) (all []string) {
	for _, p := range posts {
		all = append(all, p.ID)
	}
	return all
}

func TestAGatheredPageOfLongTextsEndsAfterItsBytes(t *testing.T) {
	w := newWorld(t)
	w.followees("viewer", pageLists+1)
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

// The next gathering of a paging leaves out the originals of reposts that an earlier gathering showed (I16).
func TestTheNextGatheringRemembersReposts(t *testing.T) {
	w := newWorld(t)
	names := w.followees("viewer", pageLists+1)
	w.users(names[:2]...)
	original := w.post(names[0], "original")
	want := []string{}
	for range 110 { // more than a gathering holds
		want = append(want, w.post(names[0], "x").ID)
	}
	want = append(want, w.repost(names[1], original.ID).ID)
	w.clock.add(2 * time.Minute)
	slices.Reverse(want)
	for _, limit := range []int{20, 100} {
		got, _ := w.walk("viewer", "", limit, nil)
		assert.Equal(t, want, homeIDs(got))
	}
}

// Authors post and delete, and the reader follows and unfollows, while the reader's requests gather
// and show posts. A post that is in the home from the first request to the last request shows once. No
// post shows that was deleted or unfollowed before the request (I2, I7).
func TestAHomeByPullGathersWhileItChanges(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		names := w.followees("viewer", []int{pageLists + 1, 2500, gatherLists + 500}[seed])
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
				for _, p := range living { // one of the living posts, at random
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
