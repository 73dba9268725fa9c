package feed_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// repeat is a call that a client makes in a user's first life and repeats in the second life.
type repeat struct {
	name string
	do   func(w *world, others feed.Post) error
	// there reports whether the table has the record of the last call.
	there func(w *world, others feed.Post) bool
}

// repeats returns the idempotent calls that make a record of ann.
func repeats(t *testing.T) []repeat {
	t.Helper()
	ctx, keyed := t.Context(), map[*world]string{}
	has := func(keys ...table.Key) func(*world, feed.Post) bool {
		return func(w *world, _ feed.Post) bool {
			for _, key := range keys {
				if w.item(key) == nil {
					return false
				}
			}
			return true
		}
	}
	follow := func(follower, author string) func(*world, feed.Post) bool {
		return has(schema.FollowingKey(follower, author), schema.FollowerKey(author, follower))
	}
	mute := func(user, author string) func(*world, feed.Post) bool {
		return has(schema.MuteKey(user, author), schema.MuterKey(author, user))
	}
	block := func(user, other string) func(*world, feed.Post) bool {
		return func(w *world, _ feed.Post) bool {
			side, back := w.item(schema.BlockKey(user, other)), w.item(schema.BlockKey(other, user))
			return side != nil && side.Has(schema.AttrSince) && back != nil && back.Has(schema.AttrBlockedBy)
		}
	}
	bookmarked := func(w *world, others feed.Post) bool {
		l, err := w.Bookmarks(ctx, "ann", page.Request{})
		return err == nil && len(l.Items) == 1 && l.Items[0].PostID == others.ID && len(w.partition(schema.BookmarksPK("ann"))) == 2
	}
	return []repeat{
		{"a follow", func(w *world, _ feed.Post) error { return w.Follow(ctx, "ann", "bob") }, follow("ann", "bob")},
		{"a follow of the user", func(w *world, _ feed.Post) error { return w.Follow(ctx, "bob", "ann") }, follow("bob", "ann")},
		{"a mute", func(w *world, _ feed.Post) error { return w.Mute(ctx, "ann", "bob") }, mute("ann", "bob")},
		{"a mute of the user", func(w *world, _ feed.Post) error { return w.Mute(ctx, "bob", "ann") }, mute("bob", "ann")},
		{"a block", func(w *world, _ feed.Post) error { return w.Block(ctx, "ann", "bob") }, block("ann", "bob")},
		{"a block of the user", func(w *world, _ feed.Post) error { return w.Block(ctx, "bob", "ann") }, block("bob", "ann")},
		{"a bookmark", func(w *world, others feed.Post) error { return w.Bookmark(ctx, "ann", others.ID) }, bookmarked},
		{"an imported bookmark", func(w *world, others feed.Post) error { return w.ImportBookmark(ctx, "ann", others.ID, longAgo) }, bookmarked},
		{"a read marker", func(w *world, _ feed.Post) error { _, err := w.SetMarker(ctx, "ann", "home", "1"); return err }, has(schema.MarkerKey("ann", "home"))},
		{"an imported read marker", func(w *world, _ feed.Post) error { return w.ImportMarker(ctx, "ann", "home", "1", longAgo) }, has(schema.MarkerKey("ann", "home"))},
		{"a like", func(w *world, others feed.Post) error { return w.Like(ctx, "ann", others.ID) }, func(w *world, others feed.Post) bool {
			_, err := w.LikeOf(ctx, access.Viewer{}, others.ID, "ann")
			count, err2 := w.LikeCount(ctx, access.Viewer{}, others.ID)
			return err == nil && err2 == nil && count.Count == 1
		}},
		{"a post with an Idempotency-Key", func(w *world, _ feed.Post) error {
			p, err := w.CreatePost(ctx, "ann", feed.PostInput{Content: feed.Content{Text: "hello"}, IdempotencyKey: "k"})
			keyed[w] = p.ID
			return err
		}, func(w *world, _ feed.Post) bool { return w.item(schema.PostKey("ann", keyed[w])) != nil }},
		{"an imported follow", func(w *world, _ feed.Post) error {
			_, err := w.ImportFollow(ctx, feed.PastFollow{Follower: "ann", Author: "bob", From: id.Min, Since: longAgo})
			return err
		}, follow("ann", "bob")},
		{"an imported follow of the user", func(w *world, _ feed.Post) error {
			_, err := w.ImportFollow(ctx, feed.PastFollow{Follower: "bob", Author: "ann", From: id.Min, Since: longAgo})
			return err
		}, follow("bob", "ann")},
		{"an imported mute", func(w *world, _ feed.Post) error { return w.ImportMute(ctx, "ann", "bob", longAgo) }, mute("ann", "bob")},
		{"an imported mute of the user", func(w *world, _ feed.Post) error { return w.ImportMute(ctx, "bob", "ann", longAgo) }, mute("bob", "ann")},
		{"an imported block", func(w *world, _ feed.Post) error { return w.ImportBlock(ctx, "ann", "bob", longAgo) }, block("ann", "bob")},
		{"an imported block of the user", func(w *world, _ feed.Post) error { return w.ImportBlock(ctx, "bob", "ann", longAgo) }, block("bob", "ann")},
	}
}

// A user is removed and makes a new profile at any call of a sweep. In the end the record of each
// later answered call exists, even if the call found the record of the former life.
func TestARepeatAfterANewProfileOutlivesTheRemoval(t *testing.T) {
	for _, r := range repeats(t) {
		for _, at := range []time.Duration{0, time.Second, 2 * time.Hour} {
			t.Run(fmt.Sprintf("%s, %s later", r.name, at), func(t *testing.T) {
				for nth, fired := 1, true; fired; nth++ {
					w, tp := tapped(t)
					w.users("ann", "bob")
					others := w.post("bob", "his")
					require.NoError(t, r.do(w, others))
					w.deliver()
					w.clock.add(time.Second)
					event, err := w.AskToForget(t.Context(), "ann")
					require.NoError(t, err)
					w.published.take()
					other := newWorldAt(t, w.clock, func(c *config) { c.Store = tp.Store })
					comesBack := func() {
						w.clock.add(at)
						other.users("ann")
						require.NoError(t, r.do(other, others))
						other.deliver()
					}
					calls := 0
					tp.set(func(call) failure {
						if calls++; calls == nth {
							comesBack()
						}
						return works
					})
					_, err = w.Forget(t.Context(), "ann", event, 1000)
					require.NoErrorf(t, err, "call %d", nth)
					tp.set(nil)
					if fired = calls >= nth; !fired {
						comesBack()
					}
					w.deliver()
					w.clock.add(2 * time.Hour)
					w.forget("ann", event, 1000)
					if !assert.Truef(t, r.there(other, others), "call %d: %s was answered after the new profile and is gone", nth, r.name) {
						return
					}
					w.checkCounts("ann", "bob")
				}
			})
		}
	}
}

// The versions of a new life are above the versions that calls of the former life may still write,
// even if the user returns at once.
func TestEverythingOfANewLifeIsAboveItsAfter(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, time.Hour} {
		t.Run(wait.String(), func(t *testing.T) { everythingOfANewLife(t, wait) })
	}
}

// everythingOfANewLife makes a user return wait after the removal.
func everythingOfANewLife(t *testing.T, wait time.Duration) {
	t.Helper()
	w := newWorld(t)
	w.users("ann", "bob")
	others := w.post("bob", "his")
	event, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	w.clock.add(wait + 300*time.Microsecond) // a record in the millisecond of the profile is above the profile's After, too
	w.users("ann")
	profile := w.item(schema.ProfileKey("ann"))
	after := profile.Str(schema.AttrAfter)
	assert.Greater(t, after, event)
	assert.False(t, access.TimeOf(after).Before(access.TimeOf(event).Add(time.Minute)), "calls that were under way made ids of the minute")
	assert.Greater(t, profile.Int(schema.AttrBylineV), access.TimeOf(after).UnixMilli())
	w.published.take()

	w.follow("ann", "bob")
	w.follow("bob", "ann")
	w.mute("ann", "bob")
	w.mute("bob", "ann")
	w.bookmark("ann", others)
	w.marker("ann", "home", "1", "1")
	assert.Greater(t, w.item(schema.MarkerKey("ann", "home")).Int(schema.AttrAsOf), access.TimeOf(after).UnixMilli())
	assert.Greater(t, w.item(schema.BookmarkOfKey("ann", others.ID)).Str(schema.AttrVersion), after)
	assert.Greater(t, w.post("ann", "mine").ID, after)
	assert.Greater(t, w.comment("ann", others.ID).ID, after)
	require.NoError(t, w.Like(t.Context(), "ann", others.ID))
	for _, e := range w.published.take() {
		if like, ok := e.(*messages.Liked); ok {
			assert.Greater(t, like.EventID, after)
		}
	}
	for _, key := range []table.Key{
		schema.FollowingKey("ann", "bob"), schema.FollowingKey("bob", "ann"), schema.MuteKey("ann", "bob"), schema.MuteKey("bob", "ann"),
	} {
		assert.Greater(t, w.item(key).Int(schema.AttrSince), access.TimeOf(after).UnixMilli(), key)
	}
	w.block("ann", "bob")
	assert.Greater(t, w.item(schema.BlockKey("ann", "bob")).Int(schema.AttrSince), access.TimeOf(after).UnixMilli())

	w.clock.add(time.Minute)
	second, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	assert.Greater(t, second, after, "a removal is above the life that it ends")
}

// A DELETE whose event was sent must not remove the profile that its user has made after the event.
// The worker may be late, and the DELETE's own transaction may be late, too.
func TestARemovalTakesNoLaterLife(t *testing.T) {
	for name, old := range map[string]func(w *world, again func()) error{
		"a message that comes late": func(w *world, again func()) error {
			event, err := w.AskToForget(t.Context(), "ann")
			if err == nil {
				again()
				_, err = w.Forget(t.Context(), "ann", event, 1000)
			}
			return err
		},
		"a message of a removal before the newest one": func(w *world, again func()) error {
			event, err := w.AskToForget(t.Context(), "ann")
			if err == nil {
				again()
				_, err = w.AskToForget(t.Context(), "ann")
			}
			if err == nil {
				again()
				var done removal.Forgotten
				done, err = w.Forget(t.Context(), "ann", event, 1000)
				assert.True(t, done.Overtaken)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.users("ann", "bob")
			require.NoError(t, old(w, func() { w.users("ann"); w.follow("ann", "bob") }))
			assert.NotNil(t, w.item(schema.ProfileKey("ann")))
			assert.NotNil(t, w.item(schema.FollowingKey("ann", "bob")))
			w.checkCounts("ann", "bob")
		})
	}
	t.Run("a transaction that comes late", func(t *testing.T) {
		w, tp := tapped(t)
		w.users("ann")
		other := newWorldAt(t, w.clock, func(c *config) { c.Store = tp.Store })
		tp.set(func(c call) failure {
			if c.op == table.OpTransact {
				_, err := other.AskToForget(t.Context(), "ann")
				require.NoError(t, err)
				other.users("ann")
			}
			return works
		})
		_, err := w.AskToForget(t.Context(), "ann")
		require.NoError(t, err)
		assert.NotNil(t, w.item(schema.ProfileKey("ann")))
	})
}

// A removal lasts long if its message waits in a backlog, so the event of the removal may be old.
// Calls that read the former life just before its profile was deleted made ids of the present, by
// clocks that are a little ahead. A new life is above these ids, too.
func TestANewLifeIsAboveCallsUnderWayThoughItsRemovalIsOld(t *testing.T) {
	removal := func(t *testing.T, ahead *world, _ feed.Post) string {
		t.Helper()
		event, err := ahead.AskToForget(t.Context(), "ann")
		require.NoError(t, err)
		return event
	}
	comment := func(_ *testing.T, ahead *world, others feed.Post) string { return ahead.comment("ann", others.ID).ID }
	for name, do := range map[string]func(t *testing.T, ahead *world, others feed.Post) (made string){"a DELETE": removal, "a comment": comment} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapped(t)
			w.users("ann", "bob")
			others := w.post("bob", "his")
			tp.set(func(c call) failure {
				if c.op == table.OpTransact {
					return lost
				}
				return works
			})
			old := removal(t, w, others) // the transaction of this removal is lost, and the message of the removal waits
			tp.set(nil)
			w.clock.add(29 * time.Hour)

			ahead, goes := newWorldAt(t, &clock{at: w.clock.now().Add(2 * time.Second)}, func(c *config) {
				c.Store = &tap{Store: tp.Store}
			}), true
			ahead.store.(*tap).set(func(c call) failure {
				if c.op == table.OpTransact && goes {
					goes = false
					_, err := w.Forget(t.Context(), "ann", old, 1000)
					require.NoError(t, err)
				}
				return works
			})
			made := do(t, ahead, others)
			require.False(t, goes)
			w.users("ann")
			assert.Greater(t, w.item(schema.ProfileKey("ann")).Str(schema.AttrAfter), made)

			w.forget("ann", old, 1000)
			if name == "a DELETE" {
				w.forget("ann", made, 1000)
			}
			assert.NotNil(t, w.item(schema.ProfileKey("ann")), "no old DELETE takes a new profile")
			assert.Nil(t, w.item(schema.CommentKey(others.ID, made)), "nothing of the former life is there")
			w.checkCounts("ann", "bob")
		})
	}
}

// Two calls make a profile at the same time as a removal. Each call has the condition that the note is
// the note that the call has read, so only one call succeeds.
func TestANewProfileNeedsTheNoteThatWasRead(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	_, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	other := newWorldAt(t, w.clock, func(c *config) { c.Store = tp.Store })
	var second string
	tp.set(func(c call) failure {
		if c.op == table.OpTransact && second == "" {
			w.clock.add(2 * time.Minute)
			second, err = other.AskToForget(t.Context(), "ann")
			require.NoError(t, err)
		}
		return works
	})
	w.users("ann")
	tp.set(nil)
	profile := w.item(schema.ProfileKey("ann"))
	assert.Equal(t, second, profile.Str(schema.AttrEvent))
	assert.Greater(t, profile.Str(schema.AttrAfter), second)
	assert.Nil(t, w.item(schema.ForgottenKey("ann")))
}

// A change of the name keeps the After and the Former of the profile.
func TestAChangeOfAProfileStaysInItsLife(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	_, err := w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	w.users("ann")
	before, err := schema.ParseProfile(*w.item(schema.ProfileKey("ann")))
	require.NoError(t, err)
	_, err = w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Anna"})
	require.NoError(t, err)
	after, err := schema.ParseProfile(*w.item(schema.ProfileKey("ann")))
	require.NoError(t, err)
	assert.Equal(t, "Anna", after.Name)
	assert.Equal(t, before.After, after.After)
	assert.Equal(t, before.Former, after.Former)
}

// The id of the withdrawal of a like is above the like's id, and below all ids of the new life.
func TestALikeIsTakenBackByAnIDBelowTheNewLife(t *testing.T) {
	for name, late := range map[string]bool{"a like before the removal": false, "a like by a call that was under way": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.users("ann", "bob")
			others := w.post("bob", "his")
			version := w.ids(1)[0]
			w.clock.add(time.Second)
			event, err := w.AskToForget(t.Context(), "ann")
			require.NoError(t, err)
			w.published.take()
			if late {
				w.clock.add(time.Second)
				version = w.ids(1)[0]
				assert.Greater(t, version, event)
			}
			w.count(messages.Like{Header: messages.Header{EventID: version}, PostID: others.ID, UserID: "ann", LikeShards: 1}, schema.KindLike)
			taken := map[string]bool{}
			for range 3 {
				_, err = w.Forget(t.Context(), "ann", event, 1000)
				require.NoError(t, err)
				w.clock.add(time.Minute) // until the take-backs are sent again
				for _, e := range w.published.take() {
					taken[e.Head().EventID] = true
					assert.Greater(t, e.Head().EventID, version)
					if !late {
						assert.Less(t, e.Head().EventID, event)
					}
				}
			}
			assert.Len(t, taken, map[bool]int{false: 3, true: 1}[late], "each is new, or the like's successor")
			w.users("ann")
			after := w.item(schema.ProfileKey("ann")).Str(schema.AttrAfter)
			for id := range taken {
				assert.Less(t, id, after)
			}
		})
	}
}

// A user has one removal in progress: while a note exists, a call sends no event. A user who has
// returned is removed again at the earliest a minute after the last removal. The command always sends
// an event.
func TestAUserIsRemovedOnceAMinute(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	w.published.take()
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	require.Len(t, w.published.take(), 1)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	require.Empty(t, w.published.take())
	w.clock.add(10 * time.Second)
	w.users("ann")
	w.published.take()
	err := w.DeleteProfile(t.Context(), "ann")
	wantKind(t, err, fault.TooSoon)
	soon, _ := errors.AsType[*fault.Error](err)
	assert.Equal(t, 50*time.Second, soon.RetryAfter)
	_, err = w.User(t.Context(), "ann")
	require.NoError(t, err)
	w.clock.add(50 * time.Second)
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	require.Len(t, w.published.take(), 1)
	_, err = w.AskToForget(t.Context(), "ann")
	require.NoError(t, err)
	require.Len(t, w.published.take(), 1)
	require.NoError(t, w.DeleteProfile(t.Context(), "nobody"), "without a profile and a note")
	require.Len(t, w.published.take(), 1)
}

// A message from a backlog never restores a post of a former life, whether its author is removed or
// has returned.
func TestAPostOutOfABacklogBringsNothingOfAFormerLifeBack(t *testing.T) {
	for name, back := range map[string]bool{"gone": false, "back": true} {
		for _, shards := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, func(c *config) { c.Local = true })
				w.users("ann")
				post := w.ids(1)[0]
				w.clock.add(time.Second)
				_, err := w.AskToForget(t.Context(), "ann")
				require.NoError(t, err)
				if back {
					w.users("ann")
				}
				w.clock.add(2 * time.Hour)
				made, err := w.EnsurePost(t.Context(), &messages.PostCreated{
					Header: messages.Header{EventID: post, Time: w.clock.now()}, PostID: post, AuthorID: "ann", Content: messages.Content{Text: "late"}, LikeShards: shards,
				})
				require.NoError(t, err)
				assert.True(t, made.Deleted)
				assert.Empty(t, w.partition(schema.PostsPK("ann")))
				assert.Nil(t, w.item(schema.PostByIDKey(post)))
			})
		}
	}
}

// An import waits for the end of a removal: the records of the import have the times of the file, so a
// sweep would remove these records.
func TestAnImportRefusesAUserWhoIsBeingRemoved(t *testing.T) {
	for name, back := range map[string]bool{"gone": false, "back": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.users("ann")
			_, err := w.AskToForget(t.Context(), "ann")
			require.NoError(t, err)
			if back {
				w.users("ann")
			}
			in := feed.ProfileInput{Name: "Ann"}
			w.clock.add(time.Hour)
			wantKind(t, w.ImportUser(t.Context(), "ann", in, longAgo), fault.Invalid)
			w.clock.add(16 * time.Minute)
			require.NoError(t, w.ImportUser(t.Context(), "ann", in, longAgo))
			ann, err := w.User(t.Context(), "ann")
			require.NoError(t, err)
			assert.Equal(t, back, ann.Name == "Name of ann")
		})
	}
}

// A process that slept between the read and the event of a removal must not end a life that began in
// the meantime.
func TestARemovalThatSleptSendsNothing(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	tp.set(func(c call) failure {
		if c.op == table.OpBatchGet {
			w.clock.add(31 * time.Second)
		}
		return works
	})
	sent := len(w.published.events)
	wantKind(t, w.DeleteProfile(t.Context(), "ann"), fault.Unavailable)
	_, err := w.AskToForget(t.Context(), "ann")
	wantKind(t, err, fault.Unavailable)
	assert.Len(t, w.published.events, sent)
	assert.NotNil(t, w.item(schema.ProfileKey("ann")))
}
