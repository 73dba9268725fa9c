package feed_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"

	fanclock "fanfare/internal/clock"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// forget does the work of the worker: it repeats Forget until no record is left.
func (w *world) forget(user, event string, most int) (all removal.Forgotten) {
	w.t.Helper()
	for {
		done, err := w.Forget(w.t.Context(), user, event, most)
		require.NoError(w.t, err)
		require.LessOrEqual(w.t, done.Sum(), most, "%+v", done)
		for _, e := range w.published.take() {
			if like, kind, ok := messages.ActionOf(e); ok {
				w.count(*like, kind)
			}
		}
		if done.Sum() == 0 {
			return all
		}
		all.Posts, all.Follows, all.Comments, all.Likes = all.Posts+done.Posts, all.Follows+done.Follows, all.Comments+done.Comments, all.Likes+done.Likes
		all.Own, all.Blocks = all.Own+done.Own, all.Blocks+done.Blocks
	}
}

// full makes a network in which ann has a record of each kind. It returns a post by ann and a post by bob.
func full(t *testing.T) (w *world, own, others feed.Post) {
	t.Helper()
	w = newWorld(t)
	w.users("ann", "bob", "cid")
	w.follow("ann", "bob")
	w.follow("bob", "ann")
	w.follow("cid", "ann")
	own, others = w.post("ann", "mine"), w.post("bob", "his")
	w.post("ann", "mine, too")
	w.deliver()
	_, err := w.CreateComment(t.Context(), "ann", others.ID, "a word")
	require.NoError(t, err)
	for user, post := range map[string]string{"ann": others.ID, "bob": own.ID} {
		require.NoError(t, w.Like(t.Context(), user, post))
	}
	for _, e := range w.published.take() {
		if e, ok := e.(*messages.Liked); ok {
			w.count(e.Like, schema.KindLike)
		}
	}
	w.clock.add(time.Second)
	return w, own, others
}

func TestNothingIsLeftOfAForgottenUser(t *testing.T) {
	for _, most := range []int{1, 1000} {
		w, own, others := full(t)
		require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
		events := w.published.take()
		require.Len(t, events, 1, "durable before anything is removed")
		_, err := w.User(t.Context(), "ann")
		require.Error(t, err, "the profile is gone at once")
		_, err = w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "more"}})
		require.Error(t, err)
		require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
		require.Empty(t, w.published.take(), "it was asked for")

		all := w.forget("ann", events[0].Head().EventID, most)
		assert.Zero(t, w.comments(others.ID), "the post counts no comment that went")
		assert.Equal(t, removal.Forgotten{Posts: 2, Follows: 3, Comments: 1, Likes: 1}, all)
		for _, pk := range []string{schema.PostsPK("ann"), schema.FollowersPK("ann"), schema.FollowingPK("ann"), schema.CommentsPK(others.ID)} {
			assert.Empty(t, w.partition(pk), pk)
		}
		w.checkCounts("bob", "cid")
		w.homes("bob", "his")
		w.homes("cid")
		count, err := w.LikeCount(t.Context(), access.Viewer{}, others.ID)
		require.NoError(t, err)
		assert.Zero(t, count.Count)
		_, err = w.Post(t.Context(), access.Viewer{}, own.ID)
		assert.Error(t, err)
	}
}

func TestAUserWhoComesBackKeepsWhatCameAfter(t *testing.T) {
	w, _, others := full(t)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	event := w.published.take()[0].Head().EventID
	w.clock.add(time.Second)
	w.users("ann")
	w.follow("cid", "bob")
	w.follow("bob", "cid")
	again := w.post("ann", "I am back")
	require.NoError(t, w.Like(t.Context(), "ann", others.ID))
	for _, e := range w.published.take() {
		if e, ok := e.(*messages.Liked); ok {
			w.count(e.Like, schema.KindLike)
		}
	}
	w.forget("ann", event, 1000)
	ann, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, feed.Counts{Posts: 1}, ann.Counts)
	_, err = w.Post(t.Context(), access.Viewer{}, again.ID)
	require.NoError(t, err)
	count, err := w.LikeCount(t.Context(), access.Viewer{}, others.ID)
	require.NoError(t, err)
	assert.EqualValues(t, 1, count.Count)
}

// Ids never descend. So a process whose clock was set back makes ids that are ahead of the time. Such
// an id would be above the ids of the next life (I12).
func TestNoRemovalBeginsWithAnIDThatIsAhead(t *testing.T) {
	at := newClock()
	w := newWorldAt(t, at)
	w.users("ann")
	at.add(3 * time.Minute)
	w.post("ann", "its id is ahead soon")
	at.add(-3 * time.Minute)
	w.published.take()
	wantKind(t, w.DeleteProfile(t.Context(), "ann"), fault.Unavailable)
	assert.Empty(t, w.published.take())
	at.add(3 * time.Minute)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	assert.Len(t, w.published.take(), 1)
}

// A clock that is far ahead would make an id above the ids of the next life, and the removal would end
// the next life, too (I12).
func TestNoRemovalBeginsWhileTheClockIsInDoubt(t *testing.T) {
	at := newClock()
	clk := fanclock.New(at.now)
	w := newWorldAt(t, at, func(c *config) { c.Clock = clk })
	w.users("ann")
	w.published.take()
	clk.Observe(at.now().Add(-6*time.Minute), 0)
	_, err := w.AskToForget(t.Context(), "ann")
	wantKind(t, err, fault.Unavailable)
	wantKind(t, w.DeleteProfile(t.Context(), "ann"), fault.Unavailable)
	assert.Empty(t, w.published.take())
	clk.Observe(at.now(), 0)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	assert.Len(t, w.published.take(), 1)
}

// A purge may miss records, and leave the records without their post. A wrong clock may have the same
// effect.
func TestNothingIsLeftOfAForgottenUserUnderPostsThatAreGone(t *testing.T) {
	w, _, others := full(t)
	orphans := []table.Item{
		schema.Like{Post: others.ID, User: "ann", LikeShards: 1, Kind: schema.KindLike, Version: others.ID, Flush: schema.Flush{Inc: others.ID, Seq: 1}, Indexed: true}.Item(),
		schema.Comment{ID: others.ID, Post: others.ID, Author: "ann", Text: "a word"}.Item(),
	}
	require.NoError(t, w.DeletePost(t.Context(), "bob", others.ID))
	w.published.take()
	for _, it := range orphans {
		_, err := w.store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	events := w.published.take()
	w.forget("ann", events[0].Head().EventID, 1000)
	for _, it := range orphans {
		assert.Nil(t, w.item(it.Key))
	}
}

func TestTheSumOfForgottenThings(t *testing.T) {
	f := removal.Forgotten{Posts: 1, Follows: 2, Own: 4, Blocks: 8, Comments: 16, Likes: 32, Notices: 64}
	assert.Equal(t, 127, f.Sum())
}

// everything gives ann a record of each kind, requests her removal, and returns the event and a post by bob.
func everything(w *world) (event string, others feed.Post) {
	w.t.Helper()
	w.users("ann", "bob", "cid", "dan", "eve")
	w.follow("ann", "bob")
	w.follow("bob", "ann")
	w.post("ann", "mine")
	w.post("ann", "mine, too")
	others = w.post("bob", "his")
	w.comment("ann", others.ID)
	require.NoError(w.t, w.Like(w.t.Context(), "ann", others.ID))
	w.mute("ann", "cid")
	w.mute("cid", "ann")
	w.block("ann", "dan")
	w.block("eve", "ann")
	w.bookmark("ann", others)
	w.marker("ann", "home", others.ID, others.ID)
	w.deliver()
	w.clock.add(time.Second)
	event, err := w.AskToForget(w.t.Context(), "ann")
	require.NoError(w.t, err)
	w.published.take()
	w.clock.add(time.Second)
	return event, others
}

// nothingLeft lets the aggregator count, and checks that only other users' mute and block of ann are
// left.
func (w *world) nothingLeft(others feed.Post) {
	w.t.Helper()
	w.deliver()
	for _, pk := range []string{
		schema.PostsPK("ann"), schema.FollowersPK("ann"), schema.FollowingPK("ann"), schema.CommentsPK(others.ID),
		schema.BlocksPK("dan"), schema.MutersPK("cid"), schema.BookmarksPK("ann"), schema.MarkersPK("ann"),
	} {
		assert.Empty(w.t, w.partition(pk), pk)
	}
	assert.Nil(w.t, w.item(schema.MuteKey("ann", "cid")))
	for _, pk := range []string{schema.MutersPK("ann"), schema.BlocksPK("ann"), schema.BlocksPK("eve")} {
		assert.Len(w.t, w.partition(pk), 1, pk)
	}
	assert.NotNil(w.t, w.item(schema.MuteKey("cid", "ann")))
	assert.Nil(w.t, w.item(schema.ProfileKey("ann")))
	count, err := w.LikeCount(w.t.Context(), access.Viewer{}, others.ID)
	require.NoError(w.t, err)
	assert.Zero(w.t, count.Count)
	assert.Zero(w.t, w.comments(others.ID))
	w.checkCounts("bob", "cid", "dan", "eve")
}

func TestAFailedRemovalOfAUserMayBeRepeated(t *testing.T) {
	var event string
	var others feed.Post
	eachCallFails(t, func(w *world) { event, others = everything(w) },
		func(w *world) error { _, err := w.Forget(t.Context(), "ann", event, 1000); return err },
		func(w *world) { w.nothingLeft(others) })
}

// At each call of one worker to the table, another worker removes all records.
func TestTwoWorkersForgetAUserAtOnce(t *testing.T) {
	for nth, fired := 1, true; fired; nth++ {
		w, tp := tapped(t)
		event, others := everything(w)
		worker := newWorldAt(t, w.clock, func(c *config) { c.Store = tp.Store })
		calls := 0
		tp.set(func(call) failure {
			if calls++; calls == nth {
				done, err := worker.Forget(t.Context(), "ann", event, 1000)
				require.NoError(t, err)
				require.LessOrEqual(t, done.Sum(), 12)
			}
			return works
		})
		_, err := w.Forget(t.Context(), "ann", event, 1000)
		require.NoErrorf(t, err, "call %d", nth)
		tp.set(nil)
		fired = calls >= nth
		worker.deliver()
		w.nothingLeft(others)
	}
}

// One call removes at most its limit of records of a kind.
func TestOneCallForgetsNoMoreThanItsShare(t *testing.T) {
	names := []string{"bob", "cid", "dan"}
	for kind, add := range map[string]func(w *world, post feed.Post, other string){
		"posts":     func(w *world, _ feed.Post, other string) { w.post("ann", other) },
		"following": func(w *world, _ feed.Post, other string) { w.follow("ann", other) },
		"followers": func(w *world, _ feed.Post, other string) { w.follow(other, "ann") },
		"mutes":     func(w *world, _ feed.Post, other string) { w.mute("ann", other) },
		"blocks":    func(w *world, _ feed.Post, other string) { w.block("ann", other) },
		"comments":  func(w *world, post feed.Post, _ string) { w.comment("ann", post.ID) },
		"markers":   func(w *world, _ feed.Post, other string) { w.marker("ann", other, "1", "1") },
		"bookmarks": func(w *world, _ feed.Post, other string) { w.bookmark("ann", w.post(other, "x")) },
		"likes": func(w *world, _ feed.Post, other string) {
			require.NoError(t, w.Like(t.Context(), "ann", w.post(other, "x").ID))
		},
	} {
		for most := 1; most <= 4; most++ {
			w := newWorld(t)
			w.users(append(names, "ann")...)
			post := w.post("bob", "his")
			for _, other := range names {
				add(w, post, other)
			}
			w.deliver()
			event, err := w.AskToForget(t.Context(), "ann")
			require.NoError(t, err)
			done, err := w.Forget(t.Context(), "ann", event, most)
			require.NoError(t, err)
			assert.Equal(t, min(most, 3), done.Sum(), kind)
			w.published.take()
		}
	}
}

// Calls and events that are in flight when a user leaves have their effect afterwards. Without a new
// profile all their records are removed, and a post that is not in the table yet is never stored.
func TestWhatCameAfterTheEventGoesWithoutANewProfile(t *testing.T) {
	w := newWorld(t)
	event, others := everything(w)
	late := w.ids(2)
	w.clock.add(time.Second)
	post, err := w.EnsurePost(t.Context(), &messages.PostCreated{
		Header: messages.Header{EventID: late[0], Time: w.clock.now()}, PostID: late[0], AuthorID: "ann", Content: messages.Content{Text: "late"},
	})
	require.NoError(t, err)
	assert.True(t, post.Deleted)
	w.count(messages.Like{Header: messages.Header{EventID: late[1]}, PostID: others.ID, UserID: "ann", LikeShards: 1}, schema.KindLike)
	w.put(schema.FollowerItem("ann", "bob", w.clock.now()), schema.FollowingItem("bob", "ann", w.clock.now(), late[0]))
	w.clock.add(time.Second)
	all := w.forget("ann", event, 1000)
	assert.Equal(t, 2, all.Posts)
	assert.Equal(t, 1, all.Likes)
	assert.Empty(t, w.partition(schema.PostsPK("ann")))
	assert.Empty(t, w.partition(schema.FollowersPK("ann")))
}

// A user with a new profile loses the records up to the millisecond of the profile's After, and keeps
// the records of later milliseconds.
func TestAUserWhoComesBackLosesWhatIsAsOldAsTheFormerLife(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	event, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	asked := w.clock.now()
	w.users("ann")
	after := w.item(schema.ProfileKey("ann")).Str(schema.AttrAfter)
	old := access.TimeOf(after)
	assert.GreaterOrEqual(t, old, asked.Add(time.Minute), "calls that were under way made ids of that time")
	young := old.Add(time.Millisecond)
	want := 0
	for i, since := range []time.Time{{}, old, young} {
		for j, by := range []time.Time{{}, old, young} {
			if i == 0 && j == 0 {
				continue
			}
			other := numbered(9, "other")[3*i+j]
			w.users(other)
			w.put(schema.Block{User: "ann", Other: other, Since: since, By: by}.Item(), schema.Block{User: other, Other: "ann", Since: by, By: since}.Item())
			if since.Equal(old) {
				want++
			}
		}
	}
	for user, since := range map[string]time.Time{"bob": old, "cid": young} {
		w.users(user)
		for _, pair := range [][2]string{{"ann", user}, {user, "ann"}} {
			mute, muter := schema.Mute{User: pair[0], Author: pair[1], Since: since}.Items()
			w.put(mute, muter, schema.FollowerItem(pair[0], pair[1], since), schema.FollowingItem(pair[1], pair[0], since, id.Min))
		}
	}
	done, err := w.Forget(t.Context(), "ann", event, 1000)
	require.NoError(t, err)
	assert.Equal(t, removal.Forgotten{Follows: 2, Own: 1, Blocks: want, Left: asked}, done)
	assert.NotNil(t, w.item(schema.ProfileKey("ann")))
	for i, since := range []time.Time{{}, {}, young} {
		for j, by := range []time.Time{{}, old, young} {
			other := numbered(9, "other")[3*i+j]
			stored := w.item(schema.BlockKey("ann", other))
			if i < 2 && j == 0 {
				assert.Nil(t, stored, other)
				continue
			}
			left := schema.Block{User: "ann", Other: other, Since: since, By: by}.Item()
			assert.Equal(t, &left, stored)
		}
	}
	for _, pk := range []string{schema.FollowingPK("ann"), schema.FollowersPK("ann")} {
		assert.Len(t, w.partition(pk), 1, pk)
	}
	assert.Len(t, w.partition(schema.MutersPK("ann")), 2, "mutes by others are kept")
	assert.NotNil(t, w.item(schema.MuteKey("ann", "cid")))
	assert.Nil(t, w.item(schema.MuteKey("ann", "bob")))
}

// The event is durable before a record is removed. A worker removes the other records.
func TestTheRemovalOfAUserIsAskedForFirst(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	w.published.failWith(errors.New("queue down"))
	_, err := w.AskToForget(t.Context(), "ann")
	wantKind(t, err, fault.Unavailable)
	wantKind(t, w.DeleteProfile(t.Context(), "ann"), fault.Unavailable)
	_, err = w.User(t.Context(), "ann")
	require.NoError(t, err)
	w.published.failWith(nil)

	tp.set(func(call) failure { return lost })
	wantKind(t, w.DeleteProfile(t.Context(), "ann"), fault.Unavailable)
	assert.Empty(t, w.published.take())
	tp.set(func(c call) failure { return map[bool]failure{true: lost}[isWrite(c)] })
	event, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	tp.set(nil)
	asked := w.published.take()
	require.Len(t, asked, 1)
	assert.Equal(t, &messages.UserForgotten{Header: *asked[0].Head(), UserID: "ann"}, asked[0])
	assert.Equal(t, event, asked[0].Head().EventID)
	_, err = w.User(t.Context(), "ann")
	require.NoError(t, err)
	w.forget("ann", event, 1000)
	_, err = w.User(t.Context(), "ann")
	wantKind(t, err, fault.NotFound)
}

// The user makes a new profile between the read and the removal of the old profile.
func TestANewProfileIsNotRemoved(t *testing.T) {
	w, tp := tapped(t)
	event, _ := everything(w)
	w.put(schema.Profile{User: "ann", Name: "Old", CreatedAt: longAgo}.Item())
	again := schema.Profile{User: "ann", Name: "New", CreatedAt: w.clock.now()}.Item()
	tp.set(func(c call) failure {
		if c.op == table.OpTransact && c.key == schema.ForgottenKey("ann") {
			_, err := tp.Store.Put(t.Context(), table.PutInput{Item: again})
			require.NoError(t, err)
		}
		return works
	})
	_, err := w.Forget(t.Context(), "ann", event, 1000)
	require.NoError(t, err)
	tp.set(nil)
	assert.Equal(t, &again, w.item(again.Key))
}

// A removed user has the note of the newest removal instead of a profile, whichever call
// deleted the profile.
func TestARemovalLeavesANote(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	tp.set(func(c call) failure {
		assert.Falsef(t, c.op == table.OpDelete && c.key == schema.ProfileKey("ann"), "%s leaves no note", c)
		return works
	})
	noted := func() (event string) {
		t.Helper()
		it := w.item(schema.ForgottenKey("ann"))
		require.NotNil(t, it)
		assert.Equal(t, w.clock.now().UnixMilli(), it.Int(schema.AttrAsOf))
		assert.Equal(t, w.clock.now().Add(365*24*time.Hour).Unix(), it.Int(table.AttrTTL))
		assert.Nil(t, w.item(schema.ProfileKey("ann")))
		return it.Str(schema.AttrEvent)
	}
	require.Nil(t, w.item(schema.ForgottenKey("ann")))
	first, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, first, noted())

	_, err = w.store.Delete(t.Context(), table.DeleteInput{Key: schema.ForgottenKey("ann")}) // a lost profile, for example
	require.NoError(t, err)
	w.clock.add(time.Minute)
	_, err = w.Forget(t.Context(), "ann", first, 1)
	require.NoError(t, err)
	assert.Equal(t, first, noted())

	w.clock.add(time.Minute)
	w.users("ann")
	assert.Nil(t, w.item(schema.ForgottenKey("ann")), "the user came back")
	w.clock.add(time.Minute)
	second, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, second, noted())
	_, err = w.Forget(t.Context(), "ann", first, 1)
	require.NoError(t, err)
	assert.Equal(t, second, noted(), "the sweep of an earlier removal")
}

// The user returns between the read of a sweep and the sweep's write of the note.
func TestASweepWritesNoNoteBesideANewProfile(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	event, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	note := schema.ForgottenKey("ann")
	_, err = w.store.Delete(t.Context(), table.DeleteInput{Key: note}) // the sweep has to write the note
	require.NoError(t, err)
	w.clock.add(time.Minute)
	again := schema.Profile{User: "ann", Name: "New", CreatedAt: w.clock.now()}.Item()
	tp.set(func(c call) failure {
		if c.op == table.OpTransact && c.key == note {
			_, err := tp.Store.Put(t.Context(), table.PutInput{Item: again})
			require.NoError(t, err)
		}
		return works
	})
	_, err = w.Forget(t.Context(), "ann", event, 1000)
	require.NoError(t, err)
	tp.set(nil)
	assert.Equal(t, &again, w.item(again.Key))
	assert.Nil(t, w.item(note))
}

// The transaction of a removal is visible in part: the profile is deleted, but reads do not return the
// note yet. A profile that is made at this moment belongs to a new life (I12).
func TestAProfileIsMadeWhileTheNoteOfItsRemovalBecomesVisible(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	_, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	note := w.item(schema.ForgottenKey("ann"))
	require.NotNil(t, note)
	_, err = w.store.Delete(t.Context(), table.DeleteInput{Key: note.Key})
	require.NoError(t, err)
	visible := false
	tp.set(func(c call) failure {
		if c.key == schema.ProfileKey("ann") && (c.op == table.OpPut || c.op == table.OpTransact) && !visible {
			_, err := tp.Store.Put(t.Context(), table.PutInput{Item: *note})
			require.NoError(t, err)
			visible = true
		}
		return works
	})
	w.users("ann")
	tp.set(nil)
	made, err := schema.ParseProfile(*w.item(schema.ProfileKey("ann")))
	require.NoError(t, err)
	assert.NotEmpty(t, made.After, "the life that the profile begins")
	assert.Nil(t, w.item(note.Key))
}

func TestNobodyIsForgottenWhileTheClockIsInDoubt(t *testing.T) {
	at := newClock()
	clk := fanclock.New(at.now)
	w := newWorldAt(t, at, func(c *config) { c.Clock = clk })
	event, others := everything(w)
	clk.Observe(at.now().Add(-time.Hour), 0)
	done, err := w.Forget(t.Context(), "ann", event, 1000)
	wantKind(t, err, fault.Unavailable)
	assert.Zero(t, done)
	assert.Len(t, w.partition(schema.PostsPK("ann")), 2)
	clk.Observe(at.now(), 0)
	w.forget("ann", event, 1000)
	w.nothingLeft(others)
}
