package audit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// If the TTL was longer before, an entry may stay longer than the mark or the tombstone that hid it. No home
// shows such an entry, so the entry is no damage. A delivered post that no home shows needs no entry.
func TestEntriesOfALongerTTLAreNoDamage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "fan")
		made := w.now().Add(-40 * 24 * time.Hour)
		post, err := id.NewGenerator(func() time.Time { return made }).New()
		require.NoError(t, err)
		ref := schema.PostRef{ID: post, Author: "ann", LikeShards: 1}
		year := made.Add(365 * 24 * time.Hour)
		for _, it := range []table.Item{
			{Key: table.Key{PK: schema.TimelinePK("fan"), SK: schema.EntrySK(post, "ann")}, Attrs: schema.EntryAttrs(year, 1)},
			schema.Plan{Post: post, Author: "ann", Planned: 1, Started: made, Attempts: 1, TTL: year.Add(schema.DeliveryKept)}.Item(),
		} {
			_, err := w.store.Put(t.Context(), table.PutInput{Item: it})
			require.NoError(t, err)
		}
		all, _ := w.walk(false)
		assert.Empty(t, all)

		_, err = w.store.Put(t.Context(), table.PutInput{Item: ref.Item()})
		require.NoError(t, err)
		all, _ = w.walk(false)
		for _, f := range all {
			assert.Equal(t, audit.PostMissing, f.Kind, "%+v", f) // the post is lost, but the entries are no findings
		}
		w.cfg.Lifetimes = lifetime.Fixed(365 * 24 * time.Hour)
		w.audit = audit.New(w.cfg)
		all, _ = w.walk(false)
		assert.Contains(t, kinds(all), audit.EntryUnfollowed)
	})
}

// A worker omits the entries of a post that is too old by its own clock, which may be half a day ahead. Then
// the chunk is done or the backfill has ended, but no reader misses the post.
func TestAPostThatSoonLeavesOwesNoEntry(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration][]audit.Kind{
		3 * time.Hour:                nil,
		12*time.Hour - time.Minute:   nil,
		13*time.Hour + 2*time.Minute: {audit.EntryMissing, audit.EntryMissing},
	} {
		t.Run(left.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tabletest.NewMemory())
				w.people("ann", "bob", "carl")
				w.must(w.Follow(t.Context(), "bob", "ann"))
				w.quiet()
				w.drop(schema.MarkKey("bob", "ann")) // the mark has expired
				_, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: "carl", Author: "ann", From: id.Min, Since: w.now().Add(-timelineTTL)})
				require.NoError(t, err)

				made := w.now().Add(left - timelineTTL)
				post, err := id.NewGenerator(func() time.Time { return made }).New()
				require.NoError(t, err)
				kept := made.Add(timelineTTL + schema.DeliveryKept)
				for _, it := range []table.Item{
					schema.Post{ID: post, Author: "ann", Content: schema.Content{Text: "hello"}, LikeShards: 1}.Item(),
					schema.PostRef{ID: post, Author: "ann", LikeShards: 1}.Item(),
					{Key: entryKey("ann", post, "ann"), Attrs: schema.EntryAttrs(made.Add(timelineTTL), 1)},
					schema.Plan{Post: post, Author: "ann", Planned: 3, Started: made, Attempts: 1, TTL: kept}.Item(),
					schema.Chunk{Post: post, End: "carl", TTL: kept}.Item(),
					schema.Chunk{Post: post, First: "carl", Done: made, TTL: kept}.Item(),
					{Key: schema.CountsKey("ann"), Attrs: []table.Attr{attr(schema.AttrPosts, table.N(1))}},
				} {
					w.put(it)
				}

				worker := fanout.New(fanout.Config{
					Store: w.store, Posts: w.Service, Publisher: w.broker, IDs: w.cfg.IDs, Lifetimes: w.cfg.Lifetimes,
					Now: func() time.Time { return w.now().Add(12 * time.Hour) },
				})
				head := messages.Header{EventID: post, Time: w.now()}
				require.NoError(t, worker.HandleChunks(t.Context(), &messages.FanoutChunk{Header: head, PostID: post, AuthorID: "ann", End: "carl"}))
				require.NoError(t, worker.HandleBackfills(t.Context(), &messages.Followed{Header: head, FollowerID: "carl", AuthorID: "ann", From: id.Min, MarkVersion: post}))
				require.NotZero(t, w.item(schema.DeliveryChunkKey(post, "")).Int(schema.AttrDone))
				for _, follower := range []string{"bob", "carl"} {
					key := entryKey(follower, post, "ann")
					require.Equal(t, len(want) > 0, w.item(key) != nil)
					if want != nil {
						w.drop(key)
					}
				}
				all, _ := w.walk(false)
				assert.Equal(t, want, kinds(all), "%+v", all)
			})
		})
	}
}

func kinds(all []audit.Finding) (of []audit.Kind) {
	for _, f := range all {
		of = append(of, f.Kind)
	}
	return of
}
