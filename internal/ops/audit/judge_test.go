package audit_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// racing is a table that changes while the audit judges a count: just before the audit reads the list, and
// again before the next transaction. The cheap read of the list returns no items, as a stale read may, so the
// audit also judges sound counts.
type racing struct {
	table.Store
	pk                string
	beforeList, after func()
}

func (s *racing) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if q.PK == s.pk && !q.Consistent {
		return func(yield func(table.Page, error) bool) { yield(table.Page{}, nil) }
	}
	if q.PK == s.pk {
		once(&s.beforeList)
	}
	return s.Store.Query(ctx, q)
}

func (s *racing) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if s.beforeList == nil {
		once(&s.after)
	}
	return s.Store.Transact(ctx, in)
}

func once(do *func()) {
	if now := *do; now != nil {
		*do = nil
		now()
	}
}

// walkBeside walks with repairs over a table that changes during the walk.
func (w *world) walkBeside(store *racing) (all []audit.Finding) {
	w.t.Helper()
	cfg := w.cfg
	store.Store, cfg.Store = w.store, store
	_, err := audit.New(cfg).Run(w.t.Context(), audit.Walk{Repair: true, Found: func(f audit.Finding) error { all = append(all, f); return nil }})
	w.must(err)
	assert.Nil(w.t, store.beforeList, "nothing has happened meanwhile")
	assert.Nil(w.t, store.after, "nothing has happened meanwhile")
	return all
}

// The audit reads a count, and then reads the list, which has changed since. The audit judges the count
// only if neither the count nor the list changes until the second read of the list.
func TestACountIsJudgedWhileNeitherItNorItsListChanges(t *testing.T) {
	t.Parallel()
	var post feed.Post
	var comment feed.Comment
	for name, c := range map[string]struct {
		pk         func(post string) string
		make, undo func(w *world, post string) error
	}{
		"followers": {
			func(string) string { return schema.FollowersPK("ann") },
			func(w *world, _ string) error { return w.Follow(w.t.Context(), "eve", "ann") },
			func(w *world, _ string) error { return w.Unfollow(w.t.Context(), "eve", "ann") },
		},
		"followees": {
			func(string) string { return schema.FollowingPK("fan1") },
			func(w *world, _ string) error { return w.Follow(w.t.Context(), "fan1", "eve") },
			func(w *world, _ string) error { return w.Unfollow(w.t.Context(), "fan1", "eve") },
		},
		"posts": {
			func(string) string { return schema.PostsPK("ann") },
			func(w *world, _ string) (err error) {
				post, err = w.CreatePost(w.t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "new"}})
				return err
			},
			func(w *world, _ string) error { return w.DeletePost(w.t.Context(), "ann", post.ID) },
		},
		"comments": {
			schema.CommentsPK,
			func(w *world, on string) (err error) {
				comment, err = w.CreateComment(w.t.Context(), "eve", on, "new")
				return err
			},
			func(w *world, on string) error { return w.DeleteComment(w.t.Context(), "eve", on, comment.ID) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, posts := town(t, tabletest.NewMemory())
				w.quiet()
				makes, undoes := func() { w.must(c.make(w, posts[6])) }, func() { w.must(c.undo(w, posts[6])) }
				assert.Empty(t, w.walkBeside(&racing{pk: c.pk(posts[6]), beforeList: makes, after: undoes}), "the list changed back")
				assert.Empty(t, w.walkBeside(&racing{pk: c.pk(posts[6]), beforeList: makes}), "the count changed")
				w.quiet()
				all, _ := w.walk(false)
				assert.Empty(t, all, "a repair changed something")
			})
		})
	}
}

// likesRead is a table that changes after the audit has read the ledger of a post, and just before the audit
// reads the likes.
type likesRead struct {
	table.Store
	pk string
	do func()
}

func (s *likesRead) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if q.PK == s.pk {
		once(&s.do)
	}
	return s.Store.Query(ctx, q)
}

// A user takes a like back and likes again. Both actions are flushed between the read of the ledger and the
// read of the likes. Then the like's flush is not in the ledger that was read, so the audit judges the count
// by the next ledger.
func TestALikeCountIsJudgedByALedgerThatDoesNotChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, posts := town(t, tabletest.NewMemory())
		w.quiet()
		store := &likesRead{w.store, schema.LikesPK(posts[4], 0, 1), func() {
			for _, c := range []struct {
				do    func(context.Context, string, string) error
				count int64
			}{{w.Unlike, 1}, {w.Like, 2}} {
				w.must(c.do(t.Context(), "fan0", posts[4]))
				w.until("a flush", func() bool {
					n, err := w.LikeCount(t.Context(), access.Viewer{}, posts[4])
					return err == nil && n.Count == c.count
				})
			}
		}}
		cfg := w.cfg
		cfg.Store = store
		var all []audit.Finding
		_, err := audit.New(cfg).Run(t.Context(), audit.Walk{Repair: true, Found: func(f audit.Finding) error { all = append(all, f); return nil }})
		w.must(err)
		assert.Nil(t, store.do, "nothing has happened meanwhile")
		assert.Empty(t, all)
		w.quiet()
		n, err := w.LikeCount(t.Context(), access.Viewer{}, posts[4])
		w.must(err)
		assert.EqualValues(t, 2, n.Count, "a repair changed the count")
	})
}

// If an item expires within ten minutes, it may already be deleted by another clock. So may be the items
// that depend on it.
func TestAnItemThatExpiresSoonIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, posts := town(t, tabletest.NewMemory())
		w.quiet()
		for expires, want := range map[time.Duration]int{9 * time.Minute: 0, 11 * time.Minute: 1, -time.Minute: 0} {
			key := entryKey("fan1", madeUp(posts[3]), "ann")
			w.put(table.Item{Key: key, Attrs: schema.EntryAttrs(w.now().Add(expires), 1)})
			all, _ := w.walk(false)
			assert.Lenf(t, all, want, "an entry without a post that expires in %s", expires)
			mark := schema.Mark{User: "fan5", Author: "ann", Kind: schema.MarkUnfollowed, Version: "0", TTL: w.now().Add(expires)}
			w.put(mark.Item())
			all, _ = w.walk(false)
			assert.Lenf(t, all, 2*want, "and a mark that hides a followee for as long")
			w.drop(key)
			w.drop(mark.Item().Key)
		}
	})
}

// A repair beside a block ends a follow that has only one edge, and does not complete the follow.
func TestARepairOfAFollowLooksAtTheBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "bob")
		w.must(w.Block(t.Context(), "bob", "ann"))
		w.put(schema.FollowerItem("ann", "bob", w.now()))
		w.mended()
		assert.Nil(t, w.item(schema.FollowerKey("ann", "bob")))
		assert.Nil(t, w.item(schema.FollowingKey("bob", "ann")))
	})
}
