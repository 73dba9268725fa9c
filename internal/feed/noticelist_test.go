package feed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/notices"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// acted returns a present action with a new place.
func (w *world) acted(user string, kind schema.NoticeKind) schema.Act {
	w.t.Helper()
	w.clock.add(time.Millisecond)
	place, err := id.Named(w.clock.now(), user)
	require.NoError(w.t, err)
	state := schema.ActHolds
	if kind == schema.NoticeLike {
		state = "like"
	}
	return schema.Act{Version: place, Place: place, State: state, User: user}
}

// notify does the work of the notifier: it writes ann's notification with these actions, the newest
// action first.
func (w *world) notify(kind schema.NoticeKind, target string, acts ...schema.Act) {
	w.t.Helper()
	n := schema.Notice{User: "ann", Kind: kind, Target: target, Acts: acts, Revision: 1, TTL: w.clock.now().Add(90 * 24 * time.Hour)}
	_, err := w.store.Put(w.t.Context(), table.PutInput{Item: n.Item()})
	require.NoError(w.t, err)
}

// notified writes a notification with one action.
func (w *world) notified(kind schema.NoticeKind, target, user string) {
	w.t.Helper()
	w.notify(kind, target, w.acted(user, kind))
}

func (w *world) notices(in page.Request) notices.Page[notices.Notice] {
	w.t.Helper()
	list, err := w.domain.notices.List(w.t.Context(), "ann", in)
	require.NoError(w.t, err)
	return list
}

// noticed returns ann's first page, each notification in words.
func (w *world) noticed() (words []string) {
	w.t.Helper()
	list, unread := w.notices(page.Request{}), 0
	for _, of := range list.Items {
		words = append(words, worded(of))
		if of.Unread {
			unread++
		}
	}
	if list.NextCursor == "" {
		require.Equal(w.t, min(unread, notices.DefaultUnread), *list.Unread, "the list has each notification that its number promises")
	}
	return words
}

func worded(of notices.Notice) string {
	var users []string
	for _, actor := range of.Actors {
		users = append(users, actor.UserID)
	}
	words := string(of.Kind) + " by " + strings.Join(users, ",")
	if of.Count != nil {
		words += fmt.Sprint(" of ", *of.Count)
	}
	return words
}

func (w *world) unread(want int) {
	w.t.Helper()
	got, err := w.domain.notices.Unread(w.t.Context(), "ann", notices.DefaultUnread)
	require.NoError(w.t, err)
	assert.Equal(w.t, want, got, "unread")
}

func (w *world) markRead(token string) {
	w.t.Helper()
	_, err := w.domain.notices.MarkRead(w.t.Context(), "ann", token)
	require.NoError(w.t, err)
}

// likes makes users like a post, and counts their likes.
func (w *world) likes(post string, users ...string) {
	w.t.Helper()
	for _, user := range users {
		require.NoError(w.t, w.Like(w.t.Context(), user, post))
	}
	w.deliver()
	w.clock.add(time.Minute)
}

func TestAListOfNotificationsShowsWhoActedLastAndTheCountThatExists(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cat", "dan", "eve")
	p, other := w.post("ann", "mine"), w.post("dan", "of another")
	w.likes(p.ID, "ann", "bob", "cat", "dan", "eve")
	w.comment("ann", p.ID)
	w.comment("bob", p.ID)
	w.follow("eve", "ann")
	bob := w.acted("bob", schema.NoticeLike)
	w.notify(schema.NoticeLike, p.ID, w.acted("eve", schema.NoticeLike), w.acted("dan", schema.NoticeLike), w.acted("cat", schema.NoticeLike), bob)
	w.notified(schema.NoticeComment, p.ID, "bob")
	w.notified(schema.NoticeFollow, "", "eve")
	w.notified(schema.NoticeMention, other.ID, "dan")
	assert.Equal(t, []string{"mention by dan", "follow by eve of 1", "comment by bob of 1", "like by eve,dan,cat of 4"}, w.noticed())
	list := w.notices(page.Request{})
	like := list.Items[3]
	assert.Equal(t, "like:"+p.ID, like.ID)
	assert.Equal(t, "like", like.Actors[0].Reaction)
	assert.Equal(t, p.ID, like.On.Post.ID)
	assert.Equal(t, "follow:", list.Items[1].ID)
	assert.Equal(t, 4, *list.Unread)
	w.unread(4)
	w.markRead(list.ReadTo)
	w.unread(0)
	list = w.notices(page.Request{})
	assert.Equal(t, 0, *list.Unread)
	assert.False(t, slices.ContainsFunc(list.Items, func(of notices.Notice) bool { return of.Unread }))
	views, err := w.NoticeViews(t.Context(), "ann", list)
	require.NoError(t, err)
	assert.Equal(t, "Name of dan", views.Items[0].Users[0].Name)
	assert.True(t, views.Items[1].Users[0].FollowedBy)
}

func TestTwoNotificationsOfAPostOnBothSidesOfAHiddenOne(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cat")
	p, hidden := w.post("ann", "mine"), w.post("ann", "liked by a muted user")
	w.notified(schema.NoticeComment, p.ID, "bob")
	w.notified(schema.NoticeLike, hidden.ID, "cat")
	w.notified(schema.NoticeLike, p.ID, "bob")
	require.NoError(t, w.Mute(t.Context(), "ann", "cat"))
	var got []string
	for _, of := range w.notices(page.Request{Limit: 2}).Items {
		got = append(got, of.ID)
	}
	assert.Equal(t, []string{"like:" + p.ID, "comment:" + p.ID}, got)
}

func TestTheNumberOfANotificationOfLikesHasAllReactions(t *testing.T) {
	w := newWorld(t, withKinds)
	w.users("ann", "bob", "cat", "dan")
	p := w.post("ann", "mine")
	for user, kind := range map[string]string{"ann": "love", "bob": "love", "cat": schema.KindLike} {
		require.NoError(t, w.React(t.Context(), user, p.ID, kind))
	}
	w.deliver()
	w.clock.add(time.Minute)
	w.notified(schema.NoticeLike, p.ID, "bob")
	assert.Equal(t, []string{"like by bob of 2"}, w.noticed())
}

// I13: a hidden user or post hides its notifications at the next read. The notifications show again
// when the user or post is no longer hidden.
func TestNotificationsHideAtOnce(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.users("ann", "bob", "cat", "dan")
	first, second := w.post("ann", "first"), w.post("ann", "second")
	w.likes(first.ID, "bob", "cat")
	w.notified(schema.NoticeLike, second.ID, "bob")
	w.notify(schema.NoticeLike, first.ID, w.acted("cat", schema.NoticeLike), w.acted("bob", schema.NoticeLike))
	require.Equal(t, []string{"like by cat,bob of 2", "like by bob of 0"}, w.noticed())

	require.NoError(t, w.Mute(ctx, "ann", "bob"))
	assert.Equal(t, []string{"like by cat of 2"}, w.noticed())
	w.unread(2) // the number of unread notifications does not depend on mutes
	list := w.notices(page.Request{})
	require.NoError(t, w.Unmute(ctx, "ann", "bob"))
	assert.Len(t, w.noticed(), 2)
	for _, block := range [][2]string{{"ann", "bob"}, {"bob", "ann"}} {
		require.NoError(t, w.Block(ctx, block[0], block[1]))
		assert.Equal(t, []string{"like by cat of 2"}, w.noticed())
		require.NoError(t, w.Unblock(ctx, block[0], block[1]))
		assert.Len(t, w.noticed(), 2)
	}
	w.notified(schema.NoticeFollow, "", "dan")
	assert.NotContains(t, w.noticed(), "follow by dan of 0", "of a user who does not follow")
	w.follow("dan", "ann")
	assert.Contains(t, w.noticed(), "follow by dan of 1")
	require.NoError(t, w.Unfollow(ctx, "dan", "ann"))
	assert.Len(t, w.noticed(), 2)
	require.NoError(t, w.FollowSilently(ctx, "dan", "ann"))
	assert.Len(t, w.noticed(), 2, "a silent follow takes no notification over")
	require.NoError(t, w.Unfollow(ctx, "dan", "ann"))

	w.deletePosts(first)
	assert.Equal(t, []string{"like by bob of 0"}, w.noticed())
	require.NoError(t, w.DeleteProfile(ctx, "bob"))
	w.clock.add(2 * time.Minute)
	assert.Empty(t, w.noticed())
	w.unread(3)
	assert.Greater(t, w.notices(page.Request{}).ReadTo, list.ReadTo[:1])
	w.markRead(w.notices(page.Request{}).ReadTo)
	w.unread(0) // I14: the mark includes hidden notifications, too
}

// The number of a first page leaves out an unread notification that the page hides, and counts no read one in its place.
func TestAHiddenNotificationMakesNoReadNotificationUnread(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("ann", "x")
	w.likes(p.ID, "bob")
	w.notified(schema.NoticeLike, p.ID, "bob")
	w.markRead(w.notices(page.Request{}).ReadTo)
	w.notified(schema.NoticeFollow, "", "bob")
	assert.Equal(t, []string{"like by bob of 1"}, w.noticed(), "bob does not follow")
	w.unread(1)
}

// A notification whose only action was taken back names no user. If a full list of actors names no
// user, the count decides whether the notification shows.
func TestAFullListWithoutNamesShowsItsNumber(t *testing.T) {
	w := newWorld(t)
	users := []string{"b0", "b1", "b2", "b3", "b4"}
	w.users(append(users, "ann", "old")...)
	p := w.post("ann", "x")
	var acts []schema.Act
	for _, user := range users {
		act := w.acted(user, schema.NoticeLike)
		act.State = ""
		acts = append(acts, act)
	}
	w.notify(schema.NoticeLike, p.ID, acts[:4]...)
	assert.Empty(t, w.noticed(), "unlisted")
	w.notify(schema.NoticeLike, p.ID, acts...)
	assert.Empty(t, w.noticed(), "the number is 0")
	w.likes(p.ID, "old")
	assert.Equal(t, []string{"like by  of 1"}, w.noticed())
	acts[0].State = "like"
	w.likes(p.ID, users[0])
	w.notify(schema.NoticeLike, p.ID, acts...)
	assert.Equal(t, []string{"like by b0 of 2"}, w.noticed())
	require.NoError(t, w.Mute(t.Context(), "ann", "b0"))
	assert.Equal(t, []string{"like by  of 2"}, w.noticed())
	require.NoError(t, w.Unlike(t.Context(), "old", p.ID))
	w.likes(p.ID)
	assert.Empty(t, w.noticed(), "only a muted user's action is left")
}

func TestTheNumberOfCommentsLeavesOutTheReadersOwn(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("ann", "x")
	w.comment("bob", p.ID)
	for range 100 {
		w.comment("ann", p.ID)
	}
	w.notified(schema.NoticeComment, p.ID, "bob")
	assert.Equal(t, []string{"comment by bob of 1"}, w.noticed())
	w.comment("ann", p.ID)
	assert.Equal(t, []string{"comment by bob"}, w.noticed(), "more own comments than a page reads")
	w.clock.add(20 * time.Minute)
	late := w.post("ann", "y")
	w.comment("bob", late.ID)
	w.comment("ann", late.ID)
	w.notified(schema.NoticeComment, late.ID, "bob")
	assert.Contains(t, w.noticed(), "comment by bob of 1")
}

// I7 for lists that move: items of the list move while its pages are read. An item that stays is shown
// once. An item that moves up is shown at most once, or is above the last cursor.
func TestPagingThroughNotificationsThatMove(t *testing.T) {
	for _, limit := range []int{1, 3, 7} {
		w := newWorld(t)
		w.users("ann", "bob", "cat")
		const all = 24
		var posts []string
		kept := map[string]schema.Act{}
		for i := range all {
			p := w.post("ann", fmt.Sprint(i))
			posts = append(posts, p.ID)
			kept[p.ID] = w.acted("bob", schema.NoticeLike)
			w.notify(schema.NoticeLike, p.ID, kept[p.ID])
		}
		shown, moved := map[string]int{}, map[string]bool{}
		cursor, pages := "", 0
		for {
			list := w.notices(page.Request{Limit: limit, Cursor: cursor})
			for _, of := range list.Items {
				shown[of.Target]++
			}
			if cursor = list.NextCursor; cursor == "" {
				break
			}
			up := posts[(pages*5)%all]
			moved[up] = true
			w.notify(schema.NoticeLike, up, w.acted("cat", schema.NoticeLike), kept[up])
			pages++
		}
		first := map[string]bool{}
		for _, of := range w.notices(page.Request{Limit: page.MaxLimit}).Items {
			first[of.Target] = true
		}
		for _, p := range posts {
			if moved[p] {
				assert.LessOrEqual(t, shown[p], 1, "limit %d", limit)
				assert.True(t, first[p])
			} else {
				assert.Equal(t, 1, shown[p], "limit %d", limit)
			}
		}
	}
}

// If many notifications are hidden, pages are short, but no page misses an item, and each page takes a
// bounded number of calls.
func TestNotificationsBehindManyHiddenOnes(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob", "cat")
	var posts []feed.Post
	for i := range 450 {
		p := w.post("ann", fmt.Sprint(i))
		user := "cat"
		if i%50 == 0 {
			user = "bob"
			posts = append(posts, p)
		}
		w.notified(schema.NoticeLike, p.ID, user)
	}
	require.NoError(t, w.Mute(t.Context(), "ann", "cat"))
	var got []string
	for cursor := ""; ; {
		tp.take()
		list := w.notices(page.Request{Cursor: cursor})
		assert.LessOrEqual(t, len(tp.take()), 20)
		for _, of := range list.Items {
			got = append(got, of.Target)
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	slices.Reverse(got)
	require.Len(t, got, len(posts))
	for i, p := range posts {
		assert.Equal(t, p.ID, got[i])
	}
}

// I14: the mark only grows, whatever the order of the devices' calls, and the mark of an empty page
// works, too.
func TestTheMarkOfTwoDevicesOnlyGrows(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	empty := w.notices(page.Request{})
	assert.Equal(t, 0, *empty.Unread)
	w.markRead(empty.ReadTo)
	p, q := w.post("ann", "x"), w.post("ann", "y")
	w.notified(schema.NoticeLike, p.ID, "bob")
	w.unread(1)
	first := w.notices(page.Request{})
	w.notified(schema.NoticeLike, q.ID, "bob")
	second := w.notices(page.Request{})
	w.unread(2)
	for range 2 {
		w.markRead(second.ReadTo)
		w.unread(0)
		w.markRead(first.ReadTo)
		w.unread(0)
		w.markRead(empty.ReadTo)
		w.unread(0)
	}
	assert.Equal(t, second.ReadTo, w.notices(page.Request{}).ReadTo)
	last := w.notices(page.Request{Limit: 1})
	assert.NotEmpty(t, last.NextCursor)
	assert.Nil(t, w.notices(page.Request{Limit: 1, Cursor: last.NextCursor}).Unread)
}

func TestUnreadCountsUpToItsMost(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	for i := range 12 {
		w.notified(schema.NoticeLike, w.post("ann", fmt.Sprint(i)).ID, "bob")
	}
	for most, want := range map[int]int{1: 1, 10: 10, 11: 11, 12: 12, notices.MaxUnread: 12} {
		got, err := w.domain.notices.Unread(t.Context(), "ann", most)
		require.NoError(t, err)
		assert.Equal(t, want, got, "most %d", most)
	}
	for _, limit := range []int{1, 9, 20} {
		assert.Equal(t, 10, *w.notices(page.Request{Limit: limit}).Unread, "limit %d", limit)
	}
	// Expired notifications at the top do not count.
	w.clock.add(91 * 24 * time.Hour)
	w.unread(0)
	w.notified(schema.NoticeLike, w.post("ann", "late").ID, "bob")
	w.unread(1)
}

// The call for the number, the call for the mark, and streams read the number with one counted read. A
// page that shows the number counts its own keys.
func TestReadsOfTheUnreadNumberAreCounted(t *testing.T) {
	reads := 0
	w := newWorld(t, func(c *config) { c.unreadRead = func() { reads++ } })
	w.users("ann")
	_, err := w.domain.notices.Unread(t.Context(), "ann", 10)
	require.NoError(t, err)
	assert.Equal(t, 1, reads)
	list := w.notices(page.Request{})
	assert.Equal(t, 1, reads)
	w.markRead(list.ReadTo)
	assert.Equal(t, 2, reads)
}

// Tokens and cursors belong to one user, one list and one use. No token moves a mark far ahead.
func TestForeignTokensOfNotificationsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cat")
	for i := range 3 {
		w.notified(schema.NoticeLike, w.post("ann", fmt.Sprint(i)).ID, "bob")
	}
	list := w.notices(page.Request{Limit: 1})
	for _, user := range []string{"bob", "cat", "nobody", "an"} {
		_, err := w.domain.notices.MarkRead(t.Context(), user, list.ReadTo)
		wantKind(t, err, fault.Malformed)
		_, err = w.domain.notices.List(t.Context(), user, page.Request{Cursor: list.NextCursor})
		wantKind(t, err, fault.Malformed)
	}
	refused := []string{"", " ", list.NextCursor, list.ReadTo + "A", list.ReadTo[1:], strings.ToUpper(list.ReadTo), strings.Repeat("A", 1<<16)}
	for i := range list.ReadTo {
		if list.ReadTo[i] != 'B' {
			refused = append(refused, list.ReadTo[:i]+"B"+list.ReadTo[i+1:])
		}
	}
	ahead := id.Floor(w.clock.now().Add(2 * time.Hour))
	for _, place := range []string{id.Max, ahead, "01H", "u#ann"} { // each place has the right checksum
		refused = append(refused, page.ListByID("notifications-read", "ann", "").Cursor(place))
	}
	for _, token := range refused {
		_, err := w.domain.notices.MarkRead(t.Context(), "ann", token)
		wantKind(t, err, fault.Malformed)
	}
	w.unread(3)
	_, err := w.domain.notices.List(t.Context(), "ann", page.Request{Cursor: list.ReadTo})
	wantKind(t, err, fault.Malformed)
	_, err = w.domain.notices.List(t.Context(), "ann", page.Request{Cursor: page.ListByID("home", "ann", "").Cursor(id.Max)})
	wantKind(t, err, fault.Malformed)

	// A device can mark a place that came from a worker with a wrong clock.
	act := w.acted("bob", schema.NoticeLike)
	act.Place = ahead
	w.notify(schema.NoticeLike, w.post("ann", "ahead").ID, act)
	w.markRead(w.notices(page.Request{}).ReadTo)
	w.unread(0)
}

func TestAMarkNeedsAProfile(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.notified(schema.NoticeLike, w.post("ann", "x").ID, "bob")
	list := w.notices(page.Request{})
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	_, err := w.domain.notices.MarkRead(t.Context(), "ann", list.ReadTo)
	wantKind(t, err, fault.ProfileMissing)
	assert.Empty(t, slices.DeleteFunc(w.partition(schema.NoticesPK("ann")), func(it table.Item) bool { return it.Key != schema.NoticeMarkKey("ann") }))
}

func TestNotificationsThatAreOff(t *testing.T) {
	w := newWorld(t, func(c *config) { c.noNotices = true })
	w.users("ann")
	assert.False(t, w.domain.notices.On())
	_, err := w.domain.notices.List(t.Context(), "ann", page.Request{})
	wantKind(t, err, fault.NotificationsOff)
	_, err = w.domain.notices.Unread(t.Context(), "ann", 1)
	wantKind(t, err, fault.NotificationsOff)
	_, err = w.domain.notices.MarkRead(t.Context(), "ann", "x")
	wantKind(t, err, fault.NotificationsOff)
}

// A failed read or write returns an error, and never an empty list or an unchanged mark.
func TestEachCallOfNotificationsMayFail(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob", "cat")
	p := w.post("ann", "x")
	w.comment("bob", p.ID)
	require.NoError(t, w.Block(t.Context(), "ann", "cat"))
	w.follow("bob", "ann")
	w.notified(schema.NoticeComment, p.ID, "bob")
	w.notified(schema.NoticeFollow, "", "bob")
	w.notified(schema.NoticeMention, p.ID, "bob")
	w.clock.add(2 * time.Minute)
	readTo := w.notices(page.Request{}).ReadTo
	for name, do := range map[string]func() error{
		"list":   func() error { _, err := w.domain.notices.List(t.Context(), "ann", page.Request{}); return err },
		"unread": func() error { _, err := w.domain.notices.Unread(t.Context(), "ann", 10); return err },
		"mark":   func() error { _, err := w.domain.notices.MarkRead(t.Context(), "ann", readTo); return err },
	} {
		w.clock.add(2 * time.Minute)
		tp.take()
		require.NoError(t, do(), name)
		calls := len(tp.take())
		for at := range calls {
			w.clock.add(2 * time.Minute)
			made := -1
			tp.set(func(call) failure {
				if made++; made == at {
					return lost
				}
				return works
			})
			require.Error(t, do(), "%s: call %d of %d", name, at, calls)
			tp.set(nil)
		}
	}
}
