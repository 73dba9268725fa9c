package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/notices"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// Each call that ends a follow takes the follow's notification back, so the number of unread notifications falls.
func TestTheEndOfAFollowTakesItsNotificationBack(t *testing.T) {
	for name, end := range map[string]func(e *whole) error{
		"an unfollow":             func(e *whole) error { return e.Unfollow(t.Context(), "bob", "ann") },
		"a block":                 func(e *whole) error { return e.Block(t.Context(), "ann", "bob") },
		"a block by the follower": func(e *whole) error { return e.Block(t.Context(), "bob", "ann") },
		"the removal of the follower": func(e *whole) error {
			require.NoError(t, e.DeleteProfile(t.Context(), "bob"))
			e.forget("bob", e.published.take()[0].Head().EventID, 100)
			return nil
		},
		"an unfollow and another follow": func(e *whole) error { e.follow("bob", "ann"); return e.Unfollow(t.Context(), "bob", "ann") },
	} {
		e := newWhole(t)
		e.users("ann", "bob")
		unread := func() int {
			n, err := e.domain.notices.Unread(t.Context(), "ann", notices.DefaultUnread)
			require.NoError(t, err)
			return n
		}
		e.follow("bob", "ann")
		e.rest()
		require.Equal(t, 1, unread(), name)
		e.clock.add(time.Second)
		require.NoError(t, end(e), name)
		e.rest()
		assert.Zero(t, unread(), "%s: the list is empty", name)

		e.clock.add(2 * time.Minute)
		e.users("bob")
		require.NoError(t, e.Unblock(context.Background(), "ann", "bob"))
		require.NoError(t, e.Unblock(context.Background(), "bob", "ann"))
		e.clock.add(time.Second)
		e.follow("bob", "ann")
		e.rest()
		assert.Equal(t, 1, unread(), "%s, and then a follow", name)
	}
}

// Each call that ends a repost takes the repost's notification back.
func TestTheEndOfARepostTakesItsNotificationBack(t *testing.T) {
	for name, end := range map[string]func(e *whole, post, repost string) error{
		"the end":      func(e *whole, post, _ string) error { return e.EndRepost(t.Context(), "bob", post) },
		"the deletion": func(e *whole, _, repost string) error { return e.DeletePost(t.Context(), "bob", repost) },
		"a take-down": func(e *whole, _, repost string) error {
			_, err := e.TakeDown(t.Context(), "moderation", repost, "spam")
			return err
		},
		"the removal of the user": func(e *whole, _, _ string) error {
			require.NoError(t, e.DeleteProfile(t.Context(), "bob"))
			e.forget("bob", e.published.take()[0].Head().EventID, 100)
			return nil
		},
	} {
		e := newWhole(t)
		e.users("ann", "bob", "cid")
		p := e.world.post("ann", "p")
		e.rest()
		repost := e.world.repost("bob", p.ID)
		e.world.repost("ann", p.ID)
		e.rest()
		require.Equal(t, []string{"repost by bob"}, e.noticed(), name)
		require.NoError(t, end(e, p.ID, repost.ID), name)
		e.rest()
		assert.Empty(t, e.noticed(), name)
		e.clock.add(time.Minute)
		e.world.repost("cid", p.ID)
		e.rest()
		assert.Equal(t, []string{"repost by cid"}, e.noticed(), name)
	}
}

// The follower's clock is slow in the process that ends the follow, and in the process that makes another one.
func TestTheVersionsOfAFollowGrowThoughClocksDiffer(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	version := func() string { return w.item(schema.MarkKey("bob", "ann")).Str(schema.AttrVersion) }
	w.follow("bob", "ann")
	first := version()
	slow := newWorldAt(t, &clock{at: w.clock.now().Add(-30 * time.Second)}, func(c *config) { c.Store = w.store })
	require.NoError(t, slow.Unfollow(t.Context(), "bob", "ann"))
	second := version()
	slow.follow("bob", "ann")
	third := version()
	assert.Less(t, first, second)
	assert.Less(t, second, third)
}

// The removal of an author deletes the author's notifications, and sends no event for each follower.
func TestTheRemovalOfAnAuthorSendsNothingForItsFollowers(t *testing.T) {
	e := newWhole(t)
	e.users("ann", "bob", "cid")
	e.follow("bob", "ann")
	e.follow("ann", "cid")
	e.rest()
	require.NoError(t, e.DeleteProfile(t.Context(), "ann"))
	e.forget("ann", e.published.take()[0].Head().EventID, 100)
	require.Len(t, e.notices, 1)
	assert.Equal(t, "cid", e.notices[0].(*messages.Unfollowed).AuthorID)
}

// An unfollow needs no queue.
func TestAnUnfollowNeedsNoQueueOfNotices(t *testing.T) {
	w := newWorld(t, func(c *config) {
		c.service.Notices = func(context.Context, ...messages.Event) error { return errors.New("planned") }
	})
	w.users("ann", "bob")
	w.follow("bob", "ann")
	require.NoError(t, w.Unfollow(t.Context(), "bob", "ann"))
	assert.Nil(t, w.item(schema.FollowingKey("bob", "ann")))
}

// A process with a slow clock makes a follow of a user who has just returned. The notifier must not take the follow for a follow of
// the user's former life.
func TestAFollowOfAReturnedUserIsOfTheNewLife(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
	removal := w.published.take()[0].Head().EventID
	w.users("ann")
	slow := newWorldAt(t, &clock{at: w.clock.now().Add(-30 * time.Second)}, func(c *config) { c.Store = w.store })
	slow.follow("bob", "ann")
	assert.Greater(t, w.item(schema.MarkKey("bob", "ann")).Str(schema.AttrVersion), removal)
}
