package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// knowing returns a world that remembers authors, and the calls to the world's table.
func knowing(t *testing.T) (*world, *tap, *feed.Authors) {
	t.Helper()
	calls, known := &tap{Store: tabletest.NewMemory()}, feed.NewAuthors()
	w := newWorld(t, func(c *config) { c.Store, c.Local, c.Authors = calls, true, known })
	return w, calls, known
}

func TestAPostOfAKnownAuthorReadsNothing(t *testing.T) {
	w, calls, _ := knowing(t)
	w.users("ann")
	first := w.post("ann", "first")
	calls.take()
	second := w.post("ann", "second")
	assert.Greater(t, second.ID, first.ID)
	made := calls.take()
	if assert.Len(t, made, 1, "%v", made) {
		assert.Equal(t, table.OpTransact, made[0].op)
	}

	w.clock.add(time.Minute)
	w.post("ann", "third")
	assert.Greater(t, len(calls.take()), 1, "the number of like shards is read again after a minute")
}

func TestAnUnknownAuthorIsReadUntilItHasAProfile(t *testing.T) {
	w, _, _ := knowing(t)
	for range 2 {
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "hello"}})
		wantKind(t, err, fault.ProfileMissing)
	}
	w.users("ann")
	w.post("ann", "hello")
}

// The ids of an author's posts grow. New ids are above the ids of deleted posts. New ids are also
// above the ids of an earlier process whose clock was ahead, even while the posts of that process are
// still in the queue.
func TestPostsOfAKnownAuthorAreAboveThoseOfAnEarlierProcess(t *testing.T) {
	w, _, known := knowing(t)
	w.users("ann")
	before := w.post("ann", "in the table")
	ahead := id.Floor(w.clock.now().Add(time.Minute))
	// The workers have a separate Service.
	worker := newDomain(config{way: way{
		Store: w.store, Publisher: w.published, IDs: id.NewGenerator(w.clock.now), Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL), Local: true,
	}, service: service{Authors: known}})
	_, err := worker.EnsurePost(t.Context(), &messages.PostCreated{
		Header: messages.Header{EventID: ahead, Time: w.clock.now()}, PostID: ahead, AuthorID: "ann", Content: messages.Content{Text: "in the queue"},
	})
	require.NoError(t, err)
	after := w.post("ann", "after")
	assert.Greater(t, after.ID, ahead)
	require.NoError(t, w.DeletePost(t.Context(), "ann", after.ID))
	assert.Greater(t, w.post("ann", "above a deleted one").ID, after.ID)
	assert.Less(t, before.ID, ahead)
}

func TestTheMemoryOfAuthorsIsBounded(t *testing.T) {
	const most = 4 << 20
	known := feed.NewAuthors()
	w := newWorld(t, func(c *config) { c.Local, c.Authors = true, known })
	worst := int64(0)
	for i := range 20_000 {
		// If the post already exists, the write takes one read.
		author, post := fmt.Sprintf("a%063d", i), id.Floor(w.clock.now().Add(-time.Duration(i)*time.Millisecond))
		p := schema.Post{ID: post, Author: author, Content: schema.Content{Text: "x"}, LikeShards: 1}
		_, err := w.store.Put(t.Context(), table.PutInput{Item: p.Item()})
		require.NoError(t, err)
		_, err = w.EnsurePost(t.Context(), &messages.PostCreated{
			Header: messages.Header{EventID: post, Time: w.clock.now()}, PostID: post, AuthorID: author, Content: messages.Content{Text: "x"}, LikeShards: 1,
		})
		require.NoError(t, err)
		worst = max(worst, known.Bytes())
	}
	assert.LessOrEqual(t, worst, int64(most))
	assert.Greater(t, worst, int64(most/2), "it was full")
}

// The number of like shards is read again after a minute, and also after the clock was set back.
func TestAnAuthorIsKnownForAMinute(t *testing.T) {
	w, calls, _ := knowing(t)
	w.users("ann")
	calledBy := func(later time.Duration) int {
		w.clock.add(later)
		calls.take()
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
		require.NoError(t, err)
		return len(calls.take())
	}
	require.Greater(t, calledBy(0), 1)
	assert.Equal(t, 1, calledBy(time.Minute-1), "the post's own transaction")
	assert.Greater(t, calledBy(1), 1, "the minute is over")
	assert.Equal(t, 1, calledBy(time.Second))
	assert.Greater(t, calledBy(-2*time.Second), 1, "the clock was set back")
}

// An author of many posts takes the memory of one author, including its id and its byline. An author
// without a profile takes no memory.
func TestTheMemoryOfAnAuthor(t *testing.T) {
	var none *feed.Authors
	assert.Zero(t, none.Bytes())
	sizes := map[string]int64{}
	for _, author := range []string{"ann", "annabelle"} {
		w, _, known := knowing(t)
		w.users(author)
		w.post(author, "first")
		sizes[author] = known.Bytes()
		for range 10 {
			w.post(author, "x")
		}
		assert.Equal(t, sizes[author], known.Bytes())
		require.NoError(t, w.DeleteProfile(t.Context(), author))
		assert.Zero(t, known.Bytes())
		_, err := w.CreatePost(t.Context(), author, feed.PostInput{Content: feed.Content{Text: "x"}})
		wantKind(t, err, fault.ProfileMissing)
	}
	assert.Equal(t, int64(2*(len("annabelle")-len("ann"))), sizes["annabelle"]-sizes["ann"], "its id, and its name with the id in it")
}
