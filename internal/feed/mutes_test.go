package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/view"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func (w *world) mute(user, author string) {
	w.t.Helper()
	require.NoError(w.t, w.Mute(w.t.Context(), user, author))
}

func (w *world) unmute(user, author string) {
	w.t.Helper()
	require.NoError(w.t, w.Unmute(w.t.Context(), user, author))
}

// A mute hides the entries of an author, and also the posts that a home merges in for a new follow or
// a pulled author. A mute changes no stored item of the home, so all posts show again after the mute.
func TestAMuteHidesAtOnceWhileItLasts(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid", "big", "new")
	w.follow("ann", "bob")
	w.follow("ann", "cid")
	b1, c1 := w.post("bob", "b1"), w.post("cid", "c1")
	w.deliver()
	w.clock.add(2 * time.Minute)
	w.pull("ann", id.Min, "big")
	w.post("big", "large")
	w.post("new", "merged")
	w.follow("ann", "new")
	w.homes("ann", "merged", "large", "c1", "b1")
	for _, author := range []string{"bob", "big", "new"} {
		w.mute("ann", author)
		w.mute("ann", author)
	}
	w.homes("ann", "c1")
	w.post("bob", "b2")
	w.deliver()
	w.homes("ann", "c1")
	w.homes("bob", "b2", "b1")
	for _, pull := range []bool{false, true} {
		news := w.news("ann", home.Query{Pull: pull, After: b1.ID}, 20)
		assert.Equal(t, []string{c1.ID}, homeIDs(news.Items))
		assert.Equal(t, 1, news.Unread)
	}
	r, err := w.Relationship(t.Context(), "ann", "ann", "bob")
	require.NoError(t, err)
	assert.True(t, r.Following, "a mute ends no follow")
	for _, author := range []string{"bob", "big", "new"} {
		w.unmute("ann", author)
		w.unmute("ann", author)
	}
	w.homes("ann", "b2", "merged", "large", "c1", "b1")
	assert.Empty(t, w.partition(schema.MutersPK("bob")))
	w.mute("ann", "bob")
	require.NoError(t, w.Unfollow(t.Context(), "ann", "bob"))
	w.unmute("ann", "bob")
	w.homes("ann", "merged", "large", "c1")
}

// A stream sends no post of a muted author. After the mute, the stream sends the posts that it has
// left out.
func TestAStreamSendsTheHiddenPostsAfterTheMute(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 2, 0)
	seen := w.watch("ann", "")
	w.mute("ann", names[0])
	hidden, shown := w.post(names[0], "hidden"), w.post(names[1], "shown")
	w.deliver()
	assert.Equal(t, []string{shown.ID}, w.arrivals("ann", seen))
	w.unmute("ann", names[0])
	assert.Equal(t, []string{hidden.ID}, w.arrivals("ann", seen))
	assert.Empty(t, w.arrivals("ann", seen))
}

// The home of a returning reader, and pages in a gap, are read by pull.
func TestAMuteHidesDuringAReturn(t *testing.T) {
	w := newWorld(t, active(2))
	names := w.crowd("ann", 2, 0)
	w.post(names[0], "hidden")
	w.post(names[1], "shown")
	w.mute("ann", names[0])
	w.put(schema.Presence{User: "ann", State: schema.PresenceHere, Until: w.today() - 1}.Item())
	w.homes("ann", "shown")
	require.Equal(t, schema.PresenceReturning, w.presence("ann").State)
	w.unmute("ann", names[0])
	w.homes("ann", "shown", "hidden")
}

func TestRefusedMutes(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	wantKind(t, w.Mute(t.Context(), "ann", "ann"), fault.Invalid)
	wantKind(t, w.Unmute(t.Context(), "ann", "ann"), fault.Invalid)
	wantKind(t, w.Mute(t.Context(), "ann", "nobody"), fault.NotFound)
	wantKind(t, w.Unmute(t.Context(), "ann", "nobody"), fault.NotFound)
	wantKind(t, w.Mute(t.Context(), "new", "ann"), fault.ProfileMissing)
	var items []table.Item
	for _, name := range numbered(feed.MaxMutes, "muted") {
		mute, muter := schema.Mute{User: "ann", Author: name, Since: w.clock.now()}.Items()
		items = append(items, mute, muter)
	}
	w.put(items...)
	wantKind(t, w.Mute(t.Context(), "ann", "bob"), fault.Limit)
	w.mute("bob", "ann")
	w.users("muted0007") // only this muted user has a profile
	w.unmute("ann", "muted0007")
	w.mute("ann", "bob")
}

func TestMutesAreListedByUserID(t *testing.T) {
	w := newWorld(t)
	names := w.crowd("ann", 7, 0)
	var want []feed.Edge
	for _, name := range names {
		w.clock.add(time.Second)
		w.mute("ann", name)
		w.mute(name, "ann")
		want = append(want, feed.Edge{UserID: name, Since: w.clock.now()})
	}
	for _, limit := range []int{1, 3, 7, 100} {
		assert.Equal(t, want, list(t, limit, func(in page.Request) (page.List[feed.Edge], error) { return w.Mutes(t.Context(), "ann", in) }))
		views := list(t, limit, func(in page.Request) (page.List[view.WithUser[feed.Edge]], error) {
			return viewed(t.Context(), w.EdgeViews, "ann")(w.Mutes(t.Context(), "ann", in))
		})
		require.Len(t, views, 7)
		assert.Equal(t, want[6], views[6].Item)
		assert.Equal(t, view.User{HomeAuthor: feed.HomeAuthor{ID: names[6], Name: "Name of " + names[6]}, Following: true}, views[6].User)
	}
	l, err := w.Mutes(t.Context(), "ann", page.Request{Limit: 1})
	require.NoError(t, err)
	_, err = w.Mutes(t.Context(), names[0], page.Request{Cursor: l.NextCursor})
	wantKind(t, err, fault.Malformed)
}

// Nearly all entries of the home belong to muted authors. A page skips these entries in large steps,
// and ends with its budget (I11).
func TestHomeBehindThousandsOfEntriesOfMutedAuthors(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 3, 0)
	w.post(names[2], "old")
	for range 2 {
		w.entries("ann", names[0], 3000)
		w.entries("ann", names[1], 3000)
	}
	w.post(names[2], "new")
	w.deliver()
	w.mute("ann", names[0])
	w.mute("ann", names[1])
	var items []table.Item
	for _, name := range numbered(feed.MaxMutes-2, "muted") {
		mute, _ := schema.Mute{User: "ann", Author: name}.Items()
		items = append(items, mute)
	}
	w.put(items...)
	for _, limit := range skippedLimits {
		got := wholeList(t, tp, limit, tableCalls+1, 12_000/5000+3, func(in page.Request) (page.List[feed.HomeItem], error) {
			return w.Home(t.Context(), "ann", home.Query{}, in)
		})
		wantSame(t, limit, texts(got), []string{"new", "old"})
	}
}

// Mutes are below the marks in the partition, so one Query reads mutes and marks. A home makes the
// same number of calls with mutes and without mutes.
func TestAHomeReadsTheMutesWithTheMarks(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 3, 9)
	calls := func() int {
		tp.take()
		w.page("ann", 3)
		return len(tp.take())
	}
	without := calls()
	for _, name := range numbered(100, "other") {
		w.users(name)
		w.mute("ann", name)
	}
	w.put(schema.Mark{User: "ann", Author: "other0000", Kind: schema.MarkUnfollowed, Version: id.Min}.Item())
	assert.Equal(t, without, calls())
	w.mute("ann", names[2])
	assert.Equal(t, []string{"post 7", "post 6", "post 4"}, texts(w.page("ann", 3)))
}

// The muted followees are more than one request reads. The posts of muted followees are not gathered,
// and a mute hides posts that were gathered before the mute.
func TestMutesOfThousandsOfFolloweesByPull(t *testing.T) {
	w := newWorld(t)
	names := w.followees("ann", 1500)
	var items []table.Item
	var want []string
	for i, name := range names {
		if i < feed.MaxMutes {
			mute, _ := schema.Mute{User: "ann", Author: name}.Items()
			items = append(items, mute)
		}
		if i%100 == 0 {
			w.users(name)
			if p := w.post(name, fmt.Sprint(i)); i >= feed.MaxMutes {
				want = append([]string{p.ID}, want...)
			}
		}
	}
	w.put(items...)
	require.Len(t, want, 5)
	got, _ := w.walk("ann", "", 2, nil)
	assert.Equal(t, want, homeIDs(got))
}

func TestNothingIsLeftOfTheMutesByAForgottenUser(t *testing.T) {
	for _, most := range []int{1, 1000} {
		w, _, _ := full(t)
		w.mute("ann", "bob")
		w.mute("cid", "ann")
		w.mute("cid", "bob")
		w.clock.add(time.Second)
		require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
		events := w.published.take()
		all := w.forget("ann", events[0].Head().EventID, most)
		assert.Equal(t, 1, all.Own)
		for _, user := range []string{"ann", "bob"} {
			assert.Len(t, w.partition(schema.MutersPK(user)), 1, "another user's")
		}
		for _, user := range []string{"ann", "cid"} {
			mutes, err := w.Mutes(t.Context(), user, page.Request{})
			require.NoError(t, err)
			assert.Len(t, mutes.Items, map[string]int{"ann": 0, "cid": 2}[user])
		}
	}
}

func TestAMuteThatIsNotThereIsEndedWithoutAWrite(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	for range 2 {
		tp.take()
		w.unmute("ann", "bob")
		for _, c := range tp.take() {
			assert.False(t, isWrite(c), "%v", c)
		}
		w.mute("ann", "bob")
		w.unmute("ann", "bob")
	}
	assert.Empty(t, w.partition(schema.MutersPK("bob")))
}
