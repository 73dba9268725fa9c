package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table/tabletest"
)

// reposted makes a post of "user0", of whom only the homes of "ben" and of his followers hear, by a repost.
func reposted(t *testing.T, a *api, s *feed.Service, users ...string) (post, repost string) {
	t.Helper()
	p, err := s.CreatePost(t.Context(), "user0", feed.PostInput{Content: feed.Content{Text: "first"}})
	require.NoError(t, err)
	r, err := s.Repost(t.Context(), "ben", p.ID)
	require.NoError(t, err)
	a.deliver(t, "ben", r.ID, users...)
	return p.ID, r.ID
}

// ann follows only the author of a repost. user1 follows nobody, and user0 is the author of the original.
func TestChangesOfAReferredPostReachHomesWithoutItsAuthor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "ben")
		ann, stranger, author := a.client(t, "ann", ""), a.client(t, "user1", ""), a.client(t, "user0", "")
		pause(time.Second)
		alone, err := s.CreatePost(t.Context(), "user0", feed.PostInput{Content: feed.Content{Text: "alone"}})
		require.NoError(t, err)
		edit(t, s, "user0", alone.ID, "y")
		require.NoError(t, s.DeletePost(t.Context(), "user0", alone.ID))
		post, repost := reposted(t, a, s, "ann")
		pause(time.Second)
		require.Equal(t, []string{repost}, ann.posts)
		assert.Empty(t, ann.changed, "no post refers to it")
		assert.Empty(t, ann.deleted)
		a.used()
		edit(t, s, "user0", post, "second")
		synctest.Wait()
		assert.Equal(t, []string{post + " after 1"}, ann.changed)
		units, _ := a.used()
		assert.Zero(t, units, "an id needs no look")
		pause(time.Second)
		assert.Equal(t, post+" second", author.edited[len(author.edited)-1])
		assert.Empty(t, author.changed, "a home that has the post gets the post")
		require.NoError(t, s.DeletePost(t.Context(), "user0", post))
		synctest.Wait()
		assert.Equal(t, []string{post}, ann.deleted)
		assert.Equal(t, []string{post}, stranger.deleted, "a page further down may show it")
		assert.Zero(t, ann.stale.Load())
	})
}

func TestAQuotedPostIsReferredTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		s, _ := serviceOf(a.store)
		ann := a.client(t, "ann", "")
		pause(time.Second)
		post, err := s.CreatePost(t.Context(), "user0", feed.PostInput{Content: feed.Content{Text: "first"}})
		require.NoError(t, err)
		_, err = s.CreatePost(t.Context(), "ben", feed.PostInput{Content: feed.Content{Text: "so true"}, QuoteOf: post.ID})
		require.NoError(t, err)
		edit(t, s, "user0", post.ID, "second")
		_, err = s.TakeDown(t.Context(), "moderation", post.ID, "it is false")
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{post.ID + " after 0"}, ann.changed)
		assert.Equal(t, []string{post.ID}, ann.deleted)
	})
}

// A look that has read a repost with the former text sends the repost after the edit was told.
func TestAnEditDuringALookIsToldAfterTheLook(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			looks := &duringLook{}
			a := newAPI(t, tabletest.NewMemory(), rare, func(c *live.Config) { looks.Homes = c.Homes; c.Homes = looks })
			s, _ := serviceOf(a.store)
			follow(t, a.store, "ann", "ben")
			if listed {
				follow(t, a.store, "ann", "user0")
			}
			ann := a.client(t, "ann", "")
			pause(time.Second)
			p, err := s.CreatePost(t.Context(), "user0", feed.PostInput{Content: feed.Content{Text: "first"}})
			require.NoError(t, err)
			during := func(string) { edit(t, s, "user0", p.ID, "second") }
			looks.during.Store(&during)
			r, err := s.Repost(t.Context(), "ben", p.ID)
			require.NoError(t, err)
			a.deliver(t, "ben", r.ID, "ann")
			pause(time.Second)
			if listed {
				assert.Equal(t, []string{p.ID + " second"}, ann.edited)
				assert.Empty(t, ann.changed)
			} else {
				assert.Equal(t, []string{p.ID + " after 0", p.ID + " after 1"}, ann.changed)
			}
		})
	}
}

func TestAnEditBeforeAStreamJoinsIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, tabletest.NewMemory(), rare)
		s, _ := serviceOf(a.store)
		follow(t, a.store, "ann", "ben")
		first := a.client(t, "ann", "")
		pause(time.Second)
		post, repost := reposted(t, a, s, "ann")
		pause(time.Second)
		other := a.client(t, "ann", "")
		pause(time.Second)
		_, last := first.leave()
		edit(t, s, "user0", post, "second") // its page shows this text
		pause(time.Second)
		st, err := a.Open(t.Context(), live.Caller{User: "ann"}, last)
		require.NoError(t, err)
		edit(t, s, "user0", post, "third")
		ann := a.serve(t, st, last)
		pause(time.Second)
		assert.Equal(t, []string{post + " after 0"}, ann.changed)
		assert.Len(t, other.changed, 2, "it was told of both edits before")
		require.NoError(t, s.EndRepost(t.Context(), "ben", repost))
		synctest.Wait()
		assert.Equal(t, []string{repost}, ann.deleted)
		pause(time.Second)
		st, err = a.Open(t.Context(), live.Caller{User: "ann"}, ann.last)
		require.NoError(t, err)
		require.NoError(t, s.DeletePost(t.Context(), "user0", post))
		late := a.serve(t, st, ann.last)
		pause(time.Second)
		assert.Equal(t, []string{post}, late.deleted)
		assert.Equal(t, []string{repost, post}, other.deleted)
	})
}

// ann has unfollowed the author through another process, so this process still looks for the post.
func TestAnEditOfAPostThatAHomeHasOnlyAsARepostIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := tabletest.NewMemory()
		a := newAPI(t, raw, rare)
		s, _ := serviceOf(a.store)
		another, _ := serviceOf(raw)
		for _, author := range []string{"ben", "user0"} {
			require.NoError(t, another.Follow(t.Context(), "ann", author))
		}
		ann := a.client(t, "ann", "")
		pause(time.Second)
		post, _ := reposted(t, a, s, "ann")
		pause(time.Second)
		require.NoError(t, another.Unfollow(t.Context(), "ann", "user0"))
		edit(t, s, "user0", post, "second")
		pause(time.Second)
		assert.Equal(t, []string{post + " after 2"}, ann.changed)
		assert.Empty(t, ann.edited)
	})
}

func TestChangesOfReferredPostsByOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, ann := rules(t)
		change := func(deleted, referred bool) string {
			event, err := a.ids.New()
			require.NoError(t, err)
			post := id.Min[:len(id.Min)-1] + event[len(event)-1:]
			p.mu.Lock()
			defer p.mu.Unlock()
			p.made.Changes = append(p.made.Changes, schema.Change{Event: event, Post: post, Author: "stranger", Deleted: deleted, Referred: referred})
			return post
		}
		edited, deleted := change(false, true), change(true, true)
		change(false, false)
		change(true, false)
		pause(3 * time.Second)
		assert.Equal(t, []string{edited + " after 0"}, ann.changed)
		assert.Equal(t, []string{deleted}, ann.deleted)
	})
}
