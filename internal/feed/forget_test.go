package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// forget stands in for the worker: it repeats Forget until nothing is left.
func (w *world) forget(user, event string, most int) (all feed.Forgotten) {
	w.t.Helper()
	for {
		done, err := w.Forget(w.t.Context(), user, event, most)
		require.NoError(w.t, err)
		for _, e := range w.published.take() {
			if e, ok := e.(*messages.Unliked); ok {
				w.count(e.Like, false)
			}
		}
		if done.Sum() == 0 {
			return all
		}
		all.Posts, all.Follows, all.Comments, all.Likes = all.Posts+done.Posts, all.Follows+done.Follows, all.Comments+done.Comments, all.Likes+done.Likes
		all.Mutes, all.Blocks = all.Mutes+done.Mutes, all.Blocks+done.Blocks
	}
}

// full makes a network in which ann has something of everything, and returns ann's post and
// bob's.
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
			w.count(e.Like, true)
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
		_, err = w.CreatePost(t.Context(), "ann", feed.PostInput{Text: "more"})
		require.Error(t, err)
		require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
		require.Empty(t, w.published.take(), "it was asked for")

		all := w.forget("ann", events[0].Head().EventID, most)
		assert.Zero(t, w.comments(others.ID), "the post counts no comment that went")
		assert.Equal(t, feed.Forgotten{Posts: 2, Follows: 3, Comments: 1, Likes: 1}, all)
		for _, pk := range []string{schema.PostsPK("ann"), schema.FollowersPK("ann"), schema.FollowingPK("ann"), schema.CommentsPK(others.ID)} {
			assert.Empty(t, w.partition(pk), pk)
		}
		w.checkCounts("bob", "cid")
		w.homes("bob", "his")
		w.homes("cid")
		count, err := w.LikeCount(t.Context(), others.ID)
		require.NoError(t, err)
		assert.Zero(t, count.Count)
		_, err = w.Post(t.Context(), own.ID)
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
			w.count(e.Like, true)
		}
	}
	w.forget("ann", event, 1000)
	ann, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, feed.Counts{Posts: 1}, ann.Counts)
	_, err = w.Post(t.Context(), again.ID)
	require.NoError(t, err)
	count, err := w.LikeCount(t.Context(), others.ID)
	require.NoError(t, err)
	assert.EqualValues(t, 1, count.Count)
}

// A purge that missed things, or the clock of a process, leaves them without their post.
func TestNothingIsLeftOfAForgottenUserUnderPostsThatAreGone(t *testing.T) {
	w, _, others := full(t)
	orphans := []table.Item{
		schema.Like{Post: others.ID, User: "ann", LikeShards: 1, Liked: true, Version: others.ID, Flush: schema.Flush{Inc: others.ID, Seq: 1}, Indexed: true}.Item(),
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
