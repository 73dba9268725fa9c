package likeagg

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// lovable configures the kinds love and wow.
func lovable(c *Config) { c.Kinds = []string{"love", "wow"} }

// The latest action of each user counts, whether the user changes the kind within a window or
// between two windows.
func TestEachUserCountsForTheLatestKind(t *testing.T) {
	step(t, func(w *world) {
		w.tune = lovable
		w.run()
		for _, kind := range []string{"love", "like", "wow"} {
			w.react("ann", kind)
		}
		w.react("bob", "love")
		w.react("cat", "like")
		w.settle()
		w.wantKinds(map[string]int64{"wow": 1, "love": 1, "like": 1})
		w.wantWrites(3, 1)
		w.react("ann", "like") // replaces wow
		w.react("bob", "")
		w.react("cat", "love")
		w.settle()
		w.wantKinds(map[string]int64{"like": 1, "love": 1})
		w.react("ann", "")
		w.react("cat", "")
		w.settle()
		w.wantKinds(map[string]int64{})
		for _, l := range w.likes(1) {
			assert.Equal(t, l.Base == "", !l.TTL.IsZero(), "%+v", l)
		}
	})
}

// The stamp decides whether the kind of a dead aggregator's flush counts. Otherwise the kind in base counts.
func TestAKindThatWasNeverCountedKeepsTheCountedOne(t *testing.T) {
	for _, counted := range []bool{true, false} {
		t.Run(fmt.Sprint("flushed: ", counted), func(t *testing.T) {
			step(t, func(w *world) {
				w.tune = lovable
				g := others(1)
				w.store(schema.Like{User: "ann", Kind: "love", Base: "wow", Version: w.newID(), Flush: g})
				attrs := []table.Attr{{Name: schema.AttrCount("wow"), Value: table.N(1)}}
				if counted {
					attrs = []table.Attr{{Name: schema.AttrCount("love"), Value: table.N(1)}, {Name: schema.AttrFlushed(g.Inc), Value: table.N(g.Seq)}}
				}
				w.setCount(attrs...)
				w.run()
				w.react("ann", "like")
				w.settle()
				w.wantKinds(map[string]int64{"like": 1})
			})
		})
	}
}

// A repost counts by its own id until its end, in whatever order their events come. Nobody is told, and no index has it.
func TestARepostCountsUntilItsEnd(t *testing.T) {
	step(t, func(w *world) {
		var out listener
		w.tune = func(c *Config) { c.Events, c.IndexLikes = out.listen, true }
		w.run()
		ids := []string{w.newID(), w.newID(), w.newID()}
		end := w.newID()
		send := func(repost, version string, deleted bool) {
			w.queue.publish(encodeEvent(&messages.Reposted{Header: messages.Header{EventID: version, Time: time.Now()}, PostID: w.post, AuthorID: "author", RepostID: repost, UserID: "ann", Deleted: deleted}))
		}
		w.send("ann", true)
		send(ids[0], ids[0], false)
		send(ids[1], ids[1], false)
		send(ids[2], end, true)
		w.settle()
		w.wantKinds(map[string]int64{"like": 1, messages.KindRepost: 2})
		send(ids[2], ids[2], false)
		send(ids[0], ids[0], false)
		send(ids[1], w.newID(), true)
		w.settle()
		w.wantKinds(map[string]int64{"like": 1, messages.KindRepost: 1})
		for _, l := range w.likes(1) {
			it := l.Item()
			assert.Equal(t, l.User == "ann", it.Has(table.AttrGSI1PK), l.User)
		}
		require.Len(t, out.sent, 1)
		assert.Equal(t, "ann", out.sent[0].UserID)
		w.queue.publish(encodeEvent(&messages.Reposted{Header: messages.Header{EventID: w.newID(), Time: time.Now()}, PostID: w.newID(), RepostID: ids[0], Deleted: true}))
		w.settle()
		assert.Empty(t, w.queue.dead, "the original is gone for good")
	})
}

// A reaction of an unknown kind waits, because the setting with this kind may not have reached the process.
// Later it becomes a dead letter with a reason.
func TestAKindThatIsNotConfiguredWaits(t *testing.T) {
	step(t, func(w *world) {
		w.run() // knows no kind but like
		w.react("ann", "love")
		w.react("bob", "like")
		pass(10 * time.Second)
		w.wantKinds(map[string]int64{"like": 1})
		w.wantDead(0, "")
		w.procs[0].stop()
		<-w.procs[0].ended
		w.tune = lovable
		w.run()
		w.settle()
		w.wantKinds(map[string]int64{"like": 1, "love": 1})
		w.react("ann", "shrug")
		pass(23 * time.Hour)
		w.wantDead(0, "")
		w.settle()
		w.wantDead(1, `its values are refused: kind "shrug" is not in FANFARE_REACTIONS`)
		w.wantKinds(map[string]int64{"like": 1, "love": 1})
	})
}

// Reactions of a kind that is removed from the setting stay counted, even if another aggregator has
// left them uncounted. Users can take such reactions back or replace them.
func TestReactionsSwitchedOffAndOnLoseNothing(t *testing.T) {
	step(t, func(w *world) {
		w.tune = lovable
		on := w.run()
		w.react("ann", "love")
		w.react("bob", "love")
		w.react("cat", "like")
		w.settle()
		on.stop()
		<-on.ended
		w.store(schema.Like{User: "dan", Kind: "wow", Version: w.newID(), Flush: others(1)}) // its aggregator died
		w.tune = nil
		off := w.run()
		w.react("ann", "like")
		w.settle()
		w.wantKinds(map[string]int64{"like": 2, "love": 1})
		w.react("dan", "")
		w.react("bob", "")
		w.settle()
		w.wantKinds(map[string]int64{"like": 2})
		off.stop()
		<-off.ended
		w.tune = lovable
		w.run()
		w.react("ann", "love")
		w.settle()
		w.wantKinds(map[string]int64{"like": 1, "love": 1})
		w.wantDead(0, "")
	})
}

// Imports and repairs apply kinds that are not configured, too, because the operator
// requested them.
func TestDirectCountsEachKind(t *testing.T) {
	step(t, func(w *world) {
		err := Direct(w.t.Context(), Config{Store: w.mem, Window: time.Second}, nil, func(_ context.Context, add func(UserAction) error) error {
			for i, kind := range []string{"like", "love", "love", ""} {
				if err := add(UserAction{Post: w.post, User: fmt.Sprint("u", i), Kind: kind, Version: w.newID()}); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(w.t, err)
		w.wantKinds(map[string]int64{"like": 1, "love": 2})
	})
}

// A producer's wrong hint that the item exists costs a read, and changes no count.
func TestAWrongHintCountsOnce(t *testing.T) {
	step(t, func(w *world) {
		w.tune, w.hint = lovable, true
		w.run()
		w.react("ann", "love")
		w.settle()
		w.wantKinds(map[string]int64{"love": 1})
		w.wantWrites(1, 1)
		assert.Equal(t, 1, w.requested["like"])
	})
}

// Each write of a change of kind, and the flush, may lose its answer, take effect late or fail.
func TestAChangeOfKindIsExactAfterEachFault(t *testing.T) {
	for _, met := range []fault{failed, lost, late, slow, crashed, panicked, short} {
		for _, op := range []string{"like1", "put2", "put3", "flush2", "fence1", "ledger1"} {
			t.Run(fmt.Sprint(op, " ", met), func(t *testing.T) {
				step(t, func(w *world) {
					w.tune = lovable
					w.faults = map[string]fault{op: met}
					w.run()
					w.react("ann", "love")
					pass(5 * time.Second)
					w.run()
					w.react("ann", "wow")
					w.settle()
					w.wantKinds(map[string]int64{"wow": 1})
				})
			})
		}
	}
}

// The window sums each kind separately: users who swap their kinds leave all counts unchanged,
// and the flush still happens.
func TestKindsThatChangePlacesAreFlushed(t *testing.T) {
	step(t, func(w *world) {
		w.tune = lovable
		w.run()
		w.react("ann", "love")
		w.react("bob", "wow")
		w.settle()
		before := w.count()
		w.react("ann", "wow")
		w.react("bob", "love")
		w.settle()
		w.wantKinds(map[string]int64{"love": 1, "wow": 1})
		after := w.count()
		assert.NotEqual(t, before.Done, after.Done)
		for _, l := range w.likes(1) {
			assert.Contains(t, after.Done, l.Flush.Inc)
		}
	})
}

func TestAnActionOfAReactionIsReadBack(t *testing.T) {
	for _, kind := range []string{"", messages.KindLike, "love"} {
		like, got, ok := messages.ActionOf(messages.Action(messages.Like{UserID: "ann"}, kind))
		assert.True(t, ok)
		assert.Equal(t, kind, got)
		assert.Equal(t, "ann", like.UserID)
	}
}

// slowStore is a table whose writes take time, and fail if their context ends before the write.
type slowStore struct{ table.Store }

func (s slowStore) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if err := backoff.Wait(ctx, 10*time.Millisecond); err != nil {
		return table.WriteResult{}, err
	}
	return s.Store.Put(ctx, in)
}

// Without the note of the end, the ledger entries of each repair would stay in the like counts forever.
func TestDirectNotesTheEndOfItsIncarnation(t *testing.T) {
	step(t, func(w *world) {
		const random = 7
		err := Direct(w.t.Context(), Config{Store: slowStore{w.mem}, Random: func() uint64 { return random }}, nil, func(_ context.Context, add func(UserAction) error) error {
			return add(UserAction{Post: w.post, User: "u", Kind: schema.KindLike, Version: w.newID()})
		})
		require.NoError(t, err)
		res, err := w.mem.Get(t.Context(), table.GetInput{Key: schema.LikeCountKey(w.post), Consistent: true})
		require.NoError(t, err)
		for inc := range schema.ParseLikeCount(res.Item).Done {
			end, err := w.mem.Get(t.Context(), table.GetInput{Key: schema.LikeEndKey(inc), Consistent: true})
			require.NoError(t, err)
			assert.NotNil(t, end.Item, inc)
		}
		assert.NotEmpty(t, schema.ParseLikeCount(res.Item).Done)
	})
}
