package feed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In these tests a look at a live home may take any time. A look ends after a bounded number of table
// calls, and each look makes progress.

// lookCalls is the maximum number of table calls of a look. One further call is allowed for each list
// that the look merges.
const lookCalls = 500

// slowed advances the clock by latency at each call of tp. A round of reads of post lists counts as
// one call.
func (w *world) slowed(tp *tap, latency time.Duration) {
	lists := 0
	tp.set(func(c call) failure {
		if c.op == table.OpQuery && strings.HasSuffix(c.key.PK, "#post") {
			if lists++; lists%100 != 1 {
				return works
			}
		}
		w.clock.add(latency)
		return works
	})
}

// returning makes viewer a reader whose home is read by pull.
func (w *world) returning(viewer string) {
	w.put(schema.Presence{User: viewer, State: schema.PresenceReturning, Until: w.today() - 1, V: 1}.Item())
}

// The reader returns after a while. The home of a returning reader is read by pull.
func TestASlowLookSendsEachPost(t *testing.T) {
	for _, latency := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 90 * time.Millisecond, 110 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
		for _, followees := range []int{2, 900} {
			t.Run(fmt.Sprint(latency, followees), func(t *testing.T) {
				w, tp := tapped(t)
				names := w.followees("viewer", followees)
				posts := w.ids(1601)
				for i, post := range posts {
					w.stored("viewer", names[i%followees], post)
				}
				lists := 0
				if followees == 900 {
					w.returning("viewer")
					lists = followees + 1
				}
				w.clock.add(time.Minute)
				seen := w.watch("viewer", posts[0])
				w.slowed(tp, latency)
				var got []string
				looks := 0
				for more := true; more; looks++ {
					require.Less(t, looks, 81, "looks, of 20 posts at least")
					tp.take()
					for items, err := range w.Arrivals(t.Context(), "viewer", seen) {
						require.NoError(t, err)
						got = append(got, homeIDs(items)...)
					}
					assert.LessOrEqual(t, len(tp.take()), lookCalls+lists, "table calls of a look")
					more = seen.Behind()
					seen = w.watch("viewer", seen.Position("viewer"))
				}
				assert.Equal(t, posts[1:], got)
			})
		}
	}
}

// A client may be cut off after any part of a look, and resumes at its position. Between two parts,
// the client's user unfollows and mutes authors, and other users make and delete posts.
func TestLooksOfAnySpeedSendEachPostOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, tp := tapped(t)
		names := w.crowd("ann", rapid.IntRange(1, 5).Draw(rt, "authors"), 0)
		watching := &watching{w: w, names: names, seen: w.watch("ann", ""), hidden: map[string]time.Time{}, deleted: map[string]bool{}, sent: map[string]bool{}}
		for range rapid.IntRange(0, 150).Draw(rt, "posts") {
			watching.post(rt)
		}
		lists := len(names) + 1
		if rapid.Bool().Draw(rt, "by pull") {
			w.returning("ann")
		}
		w.slowed(tp, rapid.SampledFrom([]time.Duration{0, 5 * time.Millisecond, 110 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}).Draw(rt, "latency"))
		for looks, more := 0, true; more; looks++ {
			tp.take()
			sent := len(watching.sent)
			cut := watching.look(rt)
			assert.LessOrEqual(rt, len(tp.take()), lookCalls+lists, "table calls of a look")
			require.Less(rt, looks, 200, "looks")
			if more = watching.seen.Behind() || len(watching.sent) > sent; cut {
				watching.seen = w.watch("ann", watching.seen.Position("ann"))
			}
		}
		for _, p := range watching.posts {
			if _, hidden := watching.hidden[p.AuthorID]; !hidden && !watching.deleted[p.ID] {
				assert.True(rt, watching.sent[p.ID], "a post was not sent")
			}
		}
	})
}

// watching is a client of ann's live home, with the calls of ann and of the authors.
type watching struct {
	w     *world
	names []string
	seen  *home.Streamed
	posts []feed.Post
	// hidden holds, for each author, the time from which the home shows no post of the author.
	hidden        map[string]time.Time
	deleted, sent map[string]bool
}

func (c *watching) post(rt *rapid.T) {
	c.posts = append(c.posts, c.w.post(rapid.SampledFrom(c.names).Draw(rt, "author"), "x"))
	c.w.deliver()
}

// look makes one look, and reports whether the client was cut off.
func (c *watching) look(rt *rapid.T) (cut bool) {
	last, asked := "", c.w.clock.now()
	deleted := map[string]bool{}
	for items, err := range c.w.Arrivals(rt.Context(), "ann", c.seen) {
		require.NoError(rt, err)
		for _, item := range items {
			post, author := item.Post.ID, item.Post.AuthorID
			assert.Greater(rt, post, last, "oldest first")
			assert.False(rt, c.sent[post], "sent twice")
			assert.False(rt, deleted[post], "a deleted post")
			at, hidden := c.hidden[author]
			assert.Falsef(rt, hidden && at.Before(asked.Add(-time.Second)), "a post of %s", author)
			c.sent[post], last = true, post
		}
		if c.act(rt) {
			return true
		}
		asked = c.w.clock.now()
		for post := range c.deleted {
			deleted[post] = true
		}
	}
	return false
}

// act makes the calls between two parts of a look, and reports whether the client is cut off.
func (c *watching) act(rt *rapid.T) (cut bool) {
	author := rapid.SampledFrom(c.names).Draw(rt, "whose")
	switch rapid.IntRange(0, 7).Draw(rt, "act") {
	case 0:
		require.NoError(rt, c.w.Unfollow(rt.Context(), "ann", author))
		c.hidden[author] = c.w.clock.now()
	case 1:
		require.NoError(rt, c.w.Mute(rt.Context(), "ann", author))
		c.hidden[author] = c.w.clock.now()
	case 2:
		if p := rapid.SampledFrom(c.posts).Draw(rt, "deleted"); !c.deleted[p.ID] {
			require.NoError(rt, c.w.DeletePost(rt.Context(), p.AuthorID, p.ID))
			c.deleted[p.ID] = true
		}
	case 3:
		c.post(rt)
	case 4:
		return true
	}
	c.w.clock.add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
	return false
}

// A home has twelve thousand entries of an unfollowed author, more than a look reads.
func TestALookPassesHiddenEntriesByPositionToo(t *testing.T) {
	w, tp := tapped(t)
	names := w.crowd("ann", 2, 0)
	seen := w.watch("ann", "")
	low := w.post(names[1], "below them")
	w.entries("ann", names[0], 12_000)
	high := w.post(names[1], "above them")
	w.deliver()
	require.NoError(t, w.Unfollow(t.Context(), "ann", names[0]))
	var got []string
	looks := 0
	for more := true; more; looks++ {
		require.Less(t, looks, 3)
		tp.take()
		for items, err := range w.Arrivals(t.Context(), "ann", seen) {
			require.NoError(t, err)
			got = append(got, homeIDs(items)...)
		}
		assert.LessOrEqual(t, len(tp.take()), lookCalls)
		more = seen.Behind()
		seen = w.watch("ann", seen.Position("ann"))
	}
	assert.Equal(t, []string{low.ID, high.ID}, got)
	tp.take()
	w.watch("ann", "")
	assert.LessOrEqual(t, len(tp.take()), tableCalls+1, "table calls of a stream's start")
}

// The posts of most entries are removed, including their tombstones. At five seconds a call, a look
// has time for one or two parts.
func TestALookPassesEntriesWithoutPosts(t *testing.T) {
	for latency, most := range map[time.Duration]int{0: 2, 5 * time.Second: 100} {
		w, tp := tapped(t)
		author := w.crowd("ann", 1, 0)[0]
		seen := w.watch("ann", "")
		var got, want []string
		for i, post := range w.ids(1500) {
			if i > 60 && i%3 == 0 {
				want = append(want, post)
				w.stored("ann", author, post)
				continue
			}
			w.entry("ann", author, post, 1)
		}
		w.slowed(tp, latency)
		for looks, more := 0, true; more; looks++ {
			require.Less(t, looks, most)
			for items, err := range w.Arrivals(t.Context(), "ann", seen) {
				require.NoError(t, err)
				got = append(got, homeIDs(items)...)
			}
			more = seen.Behind()
			seen = w.watch("ann", seen.Position("ann"))
		}
		assert.Equal(t, want, got)
	}
}

// The newest posts of an author are shared. The author has more posts than the shared head.
func TestALookReadsOnBelowASharedHead(t *testing.T) {
	for _, posts := range []int{99, 100, 101, 250} {
		w := newWorld(t, sharingHeads)
		w.crowd("ann", 1, 0)
		w.users("bob")
		w.pull("ann", w.ids(1)[0], "bob")
		seen := w.watch("ann", "")
		var want []string
		for range posts {
			want = append(want, w.post("bob", "x").ID)
		}
		w.clock.add(time.Second) // the head that the stream's start read is not shared any more
		assert.Equal(t, want, w.arrivals("ann", seen), "%d posts", posts)
	}
}

// A look sends its posts in parts of a bounded number of bytes.
func TestALookThatBreaksOffIsContinued(t *testing.T) {
	w := newWorld(t)
	author := w.crowd("ann", 1, 0)[0]
	seen := w.watch("ann", "")
	want := w.ids(1300)
	w.stored("ann", author, want...)
	var got []string
	for more := true; more; more = seen.Behind() {
		for items, err := range w.Arrivals(t.Context(), "ann", seen) {
			require.NoError(t, err)
			got = append(got, homeIDs(items)...)
			if len(got)%60 == 0 {
				break
			}
		}
	}
	assert.True(t, slices.Equal(want, got), "%d posts of %d", len(got), len(want))
}
