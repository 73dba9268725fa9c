package fanout_test

import (
	"errors"
	"fmt"

	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// discussed stores a post with comments, and with likes in all its shards. It returns the event of the post's
// deletion.
func (w *world) discussed(shards, n int) *messages.PostDeleted {
	w.Helper()
	e := w.post()
	e.LikeShards = shards
	_, err := w.EnsurePost(w.Context(), e)
	w.must(err)
	put := func(it table.Item) {
		_, err := w.mem.Put(w.Context(), table.PutInput{Item: it})
		w.must(err)
	}
	for i := range n {
		put(schema.Comment{ID: w.newID(), Post: e.PostID, Author: follower(i), Text: "x"}.Item())
		put(schema.Like{Post: e.PostID, User: follower(i), Kind: schema.KindLike, Version: w.newID(), LikeShards: shards, Flush: schema.Flush{Inc: "test", Seq: 1}, Indexed: true}.Item())
	}
	if n > 0 {
		put(table.Item{Key: schema.LikeCountKey(e.PostID), Attrs: []table.Attr{{Name: schema.AttrLikes, Value: table.N(int64(n))}}})
	}
	return &messages.PostDeleted{Header: w.header(), PostID: e.PostID, AuthorID: author}
}

// left returns the number of comments and likes of a post, and the expiry of its count.
func (w *world) left(post string, shards int) (items int, count time.Time) {
	w.Helper()
	lists := []string{schema.CommentsPK(post)}
	for shard := range shards {
		lists = append(lists, schema.LikesPK(post, shard, shards))
	}
	for _, pk := range lists {
		found, _, err := table.Collect(w.mem.Query(w.Context(), table.Query{PK: pk, Consistent: true}), 0)
		w.must(err)
		items += len(found)
	}
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.LikeCountKey(post), Consistent: true})
	w.must(err)
	if res.Item != nil && res.Item.Has(table.AttrTTL) {
		count = time.Unix(res.Item.Int(table.AttrTTL), 0)
	}
	return items, count
}

// purged reports whether the post by id has the note of its purge.
func (w *world) purged(post string) bool {
	w.Helper()
	res, err := w.mem.Get(w.Context(), table.GetInput{Key: schema.PostByIDKey(post), Consistent: true})
	w.must(err)
	ref, err := schema.ParsePostRef(*res.Item)
	w.must(err)
	return ref.Purged
}

func TestWhatIsLeftOfADeletedPostGoes(t *testing.T) {
	for _, shards := range []int{1, 30} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			const n = 120 // comments and likes each, so 60 pages or more
			w := newWorld(t, 0, small)
			other, e, bare := w.discussed(shards, 7), w.discussed(shards, n), w.discussed(shards, 0)
			calls := 0
			w.store.around = func(_ table.Op, _ []table.Key, do func() error) error { calls++; return do() }
			receive := func(e *messages.PostDeleted) *queue.Later {
				t.Helper()
				calls = 0
				err := w.worker.HandleBackfills(t.Context(), e)
				later, ok := errors.AsType[*queue.Later](err)
				if !ok {
					w.must(err)
				}
				require.LessOrEqualf(t, calls, 2*20+shards+4, "one receive made %d table calls", calls)
				return later
			}
			w.now = w.now.Add(30 * time.Second)
			later := receive(e)
			if later == nil || later.After <= 5*time.Minute || later.After > 6*time.Minute || calls > 0 {
				t.Fatalf("half a minute after the event: %v, %d calls", later, calls)
			}
			w.now = w.now.Add(later.After - 1)
			require.NotNil(t, receive(e))
			w.now = w.now.Add(1)
			require.Nil(t, receive(e))
			if items, count := w.left(e.PostID, shards); items != 2*n || !count.IsZero() {
				t.Fatalf("a deletion that never happened left %d items, and a count until %s", items, count)
			}
			w.deletePost(e.PostID)
			w.deletePost(bare.PostID)
			receives := 1
			for receive(e) != nil {
				receives++
			}
			assert.GreaterOrEqualf(t, receives, 3, "all was gone after %d receives", receives)
			// The count outlives each entry of the post, and so each view that reads the count.
			if items, count := w.left(e.PostID, shards); items > 0 || count.Before(w.now.Add(timelineTTL+schema.DeliveryKept).Truncate(time.Second)) {
				t.Errorf("%d items are left, the count until %s", items, count)
			}
			for range 2 { // the message may be redelivered
				assert.Nil(t, receive(bare))
			}
			for post, purged := range map[string]bool{e.PostID: true, bare.PostID: true, other.PostID: false} {
				assert.Equal(t, purged, w.purged(post))
			}
			if items, count := w.left(other.PostID, shards); items != 14 || !count.IsZero() {
				t.Errorf("of another post %d items are left, and its count until %s", items, count)
			}
		})
	}
}

func TestAFaultInAPurgeLeavesNothing(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			at := 0
			for fired := true; fired; at++ {
				w := newWorld(t, 0, small)
				e := w.discussed(2, 50)
				w.deletePost(e.PostID)
				w.now = w.now.Add(10 * time.Minute)
				fired = w.drainWithFault(at, f.done, f.dies, e)
				if items, count := w.left(e.PostID, 2); items > 0 || count.IsZero() || !w.purged(e.PostID) {
					t.Fatalf("with the fault at call %d %d items are left, the count until %s", at, items, count)
				}
			}
			require.GreaterOrEqualf(t, at, 50, "only %d calls", at)
		})
	}
}

func TestADeletionOfNoSuchPostIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a missing post is looked for twice
		w := newWorld(t, 0)
		e := w.discussed(1, 1)
		w.now = w.now.Add(time.Hour)
		for _, forged := range []*messages.PostDeleted{
			{Header: e.Header, PostID: w.newID(), AuthorID: author},
			{Header: e.Header, PostID: e.PostID, AuthorID: "another"},
		} {
			err := w.worker.HandleBackfills(t.Context(), forged)
			assert.ErrorAsf(t, err, new(*messages.PermanentError), "%+v", forged)
		}
	})
}

// The comments of one post are in one partition, which takes few writes.
func TestAThrottledPurgeSlowsNoFanOut(t *testing.T) {
	w := newWorld(t, 400, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.Writers = 401, 400, 8 })
	e := w.discussed(1, 120)
	w.deletePost(e.PostID)
	w.now = w.now.Add(10 * time.Minute)
	w.store.short = table.MaxBatchWrite
	w.must(w.worker.HandleBackfills(t.Context(), e))
	w.store.short = 0
	var writes atomic.Int32
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		if op == table.OpBatchWrite {
			writes.Add(1)
		}
		return do()
	}
	w.must(w.worker.HandlePosts(t.Context(), w.post()))
	assert.Equal(t, int32(8), writes.Load(), "parts of the page of followers")
}
