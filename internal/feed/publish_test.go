package feed_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// A like list gets more partitions if the author has more followers, up to a hundred partitions.
func TestAPostHasLikeShardsForItsAuthorsFollowers(t *testing.T) {
	for followers, want := range map[int64]int{0: 1, 9: 1, 10: 2, 25: 3, 980: 99, 990: 100, 1_000_000: 100} {
		w := newWorld(t, func(c *config) { c.FollowersPerLikeShard = 10 })
		w.users("ann")
		w.put(table.Item{Key: schema.FollowerCountKey("ann", "x"), Attrs: []table.Attr{{Name: schema.AttrN, Value: table.N(followers)}}})
		p := w.post("ann", "x")
		created, ok := w.published.take()[0].(*messages.PostCreated)
		require.True(t, ok)
		assert.Equal(t, want, created.LikeShards, followers)
		assert.Equal(t, want, w.ref(p.ID).LikeShards, followers)

		other := w.ids(1)[0] // other is the id in the event of another producer
		post, err := w.EnsurePost(t.Context(), &messages.PostCreated{
			Header: messages.Header{EventID: other, Time: w.clock.now()}, PostID: other, AuthorID: "ann", Content: messages.Content{Text: "x"},
		})
		require.NoError(t, err)
		assert.Equal(t, schema.PostRef{ID: other, Author: "ann", LikeShards: want}, w.ref(other))
		assert.Equal(t, want, post.LikeShards)
	}
}

// A post may be five minutes ahead of the clock. If a post is further ahead, its author has to wait
// until the post is close enough, for a minute at most.
func TestAPostThatIsTooFarAheadIsRefused(t *testing.T) {
	for ahead, wait := range map[time.Duration]time.Duration{
		messages.MaxAhead:                                  0,
		messages.MaxAhead + time.Millisecond:               time.Millisecond,
		messages.MaxAhead + time.Minute - time.Millisecond: time.Minute - time.Millisecond,
		messages.MaxAhead + time.Minute + time.Millisecond: time.Minute,
		messages.MaxAhead + time.Hour:                      time.Minute,
	} {
		w := newWorld(t)
		w.users("ann")
		newest := id.Floor(w.clock.now().Add(ahead - time.Millisecond)) // the next id is a millisecond later
		w.put(schema.Post{ID: newest, Author: "ann", Content: schema.Content{Text: "ahead"}, LikeShards: 1}.Item())
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x"}})
		if wait == 0 {
			require.NoError(t, err)
			assert.Greater(t, p.ID, newest)
			continue
		}
		var refused *fault.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, fault.Unavailable, refused.Kind)
		assert.Equal(t, wait, refused.RetryAfter)
		assert.EqualError(t, refused.Err, fmt.Sprintf("a new post would be of %s: set the clocks of the processes right", w.clock.now().Add(ahead).Format(time.RFC3339)))
		assert.Empty(t, w.published.take())
	}
}

// A worker waits a fifth of a second for the post that a call is writing, and then writes the post
// itself.
func TestAWorkerWaitsForThePostOfACall(t *testing.T) {
	const text = "from the event"
	for name, c := range map[string]struct {
		after  time.Duration // 0 for never
		shards int
		waits  time.Duration
	}{
		"the call failed":   {0, 1, 200 * time.Millisecond},
		"the call is slow":  {150 * time.Millisecond, 1, 200 * time.Millisecond},
		"the post is there": {-1, 1, 0},
		"no call wrote it":  {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, tp := tapped(t)
				w.users("ann")
				made := w.ids(1)[0]
				began, written := time.Now(), c.after == 0
				tp.set(func(call) failure {
					if !written && time.Since(began) >= c.after {
						written = true
						ref := schema.PostRef{ID: made, Author: "ann", LikeShards: 7}
						for _, it := range []table.Item{schema.Post{ID: made, Author: "ann", Content: schema.Content{Text: "from the call"}, LikeShards: 7}.Item(), ref.Item()} {
							_, err := tp.Store.Put(t.Context(), table.PutInput{Item: it})
							require.NoError(t, err)
						}
					}
					return works
				})
				post, err := w.EnsurePost(t.Context(), &messages.PostCreated{
					Header: messages.Header{EventID: made, Time: w.clock.now()}, PostID: made, AuthorID: "ann", Content: messages.Content{Text: text}, LikeShards: c.shards,
				})
				require.NoError(t, err)
				tp.set(nil)
				p, err := w.Post(t.Context(), access.Viewer{}, made)
				require.NoError(t, err)
				took := time.Since(began)
				if c.after == 0 {
					assert.Equal(t, schema.PostRef{ID: made, Author: "ann", LikeShards: 1}, w.ref(made))
					assert.Equal(t, 1, post.LikeShards)
					assert.Equal(t, text, p.Text)
					assert.Equal(t, c.waits, took)
					return
				}
				assert.Equal(t, 7, post.LikeShards)
				assert.Equal(t, "from the call", p.Text)
				assert.GreaterOrEqual(t, took, max(c.after, 0))
				assert.LessOrEqual(t, took, c.waits)
			})
		})
	}
}

// The id of another author's post, living or deleted, is refused permanently.
func TestAnEventWithTheIDOfAnothersPostIsRefused(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, shards := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.users("ann", "bob")
				p := w.post("bob", "his")
				if deleted {
					require.NoError(t, w.DeletePost(t.Context(), "bob", p.ID))
				}
				_, err := w.EnsurePost(t.Context(), &messages.PostCreated{
					Header: messages.Header{EventID: p.ID, Time: w.clock.now()}, PostID: p.ID, AuthorID: "ann", Content: messages.Content{Text: "x"}, LikeShards: shards,
				})
				var refused *messages.PermanentError
				require.ErrorAs(t, err, &refused)
				assert.Equal(t, fmt.Sprintf("post %s of ann: the id belongs to a post of bob", p.ID), refused.Detail)
				w.checkCounts("ann", "bob")
			})
		}
	}
}

func TestAnEventWithValuesOutsideTheDomainIsRefused(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	made := w.ids(1)[0]
	_, err := w.EnsurePost(t.Context(), &messages.PostCreated{
		Header: messages.Header{EventID: made, Time: w.clock.now()}, PostID: made, AuthorID: "ann", Content: messages.Content{Text: "x", Images: []feed.Image{{URL: "no URL"}}},
	})
	require.ErrorAs(t, err, new(*messages.PermanentError))
	w.checkCounts("ann")
	assert.Empty(t, w.partition(schema.PostsPK("ann")))
}

func TestAWorkerThatCannotReadOrWriteAPostTriesAgain(t *testing.T) {
	made := ""
	eachCallFails(t, func(w *world) { w.users("ann"); made = w.ids(1)[0] },
		func(w *world) error {
			_, err := w.EnsurePost(t.Context(), &messages.PostCreated{
				Header: messages.Header{EventID: made, Time: w.clock.now()}, PostID: made, AuthorID: "ann", Content: messages.Content{Text: "x"},
			})
			return err
		},
		func(w *world) {
			w.checkCounts("ann")
			assert.Equal(t, []string{"x"}, texts(w.home("ann", 3, home.Query{})))
		})
}
