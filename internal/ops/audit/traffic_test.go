package audit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// delivered makes posts of ann, and waits for their deliveries.
func (w *world) delivered(n int) (posts []string) {
	w.t.Helper()
	for range n {
		posts = append(posts, w.post("ann"))
	}
	for _, post := range posts {
		w.until("a delivery", func() bool {
			d, err := w.AnyDelivery(w.t.Context(), post)
			return err == nil && d.State == delivery.Complete
		})
	}
	w.quiet()
	return posts
}

// backfill requests the backfill of a follow, and waits until no message is left.
func (w *world) backfill(follower, author string) {
	w.t.Helper()
	w.must(w.askForBackfill(w.t.Context(), follower, author))
	w.quiet()
}

func (w *world) askForBackfill(ctx context.Context, follower, author string) error {
	next, err := w.cfg.IDs.New()
	if err != nil {
		return err
	}
	msg, err := queue.Message(ctx, &messages.Followed{
		Header: messages.Header{EventID: next, Time: w.now()}, FollowerID: follower, AuthorID: author, From: id.Min, MarkVersion: next,
	})
	if err != nil {
		return err
	}
	return w.broker.Publish(queue.TopicBackfills, msg)
}

// An import, which runs beside the daemons, adds a follow from years ago after the author's
// posts were delivered. The backfill copies the posts later, beginning with the first post
// that the follow shows.
func TestAnImportedFollowIsOwedNoEntryBeforeItsBackfillAndBelowItsFirstPost(t *testing.T) {
	t.Parallel()
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, open(t))
				w.people("ann", "carl", "dora")
				posts := w.delivered(3)
				longAgo := time.Now().Add(-2 * 365 * 24 * time.Hour)
				for follower, from := range map[string]string{"carl": posts[1], "dora": id.Min} {
					pending, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: follower, Author: "ann", From: from, Since: longAgo})
					w.must(err)
					require.True(t, pending)
				}
				all, _ := w.walk(false)
				assert.Empty(t, all, "before the backfill")
				w.backfill("carl", "ann")
				w.backfill("dora", "ann")
				list, err := w.Home(t.Context(), "carl", home.Query{}, page.Request{})
				w.must(err)
				assert.Len(t, list.Items, 2)
				all, _ = w.walk(false)
				assert.Empty(t, all, "after the backfill")
				w.drop(schema.MarkKey("carl", "ann"))
				all, _ = w.walk(false)
				assert.Empty(t, all, "after the mark has expired")

				w.drop(entryKey("carl", posts[1], "ann"))
				w.drop(entryKey("dora", posts[0], "ann"))
				found := map[table.Key]bool{}
				for range 1 + staleWalks[name] {
					all, _ = w.walk(false)
					for _, f := range all {
						assert.Equal(t, audit.EntryMissing, f.Kind)
						found[table.Key{PK: f.PK, SK: f.SK}] = true
					}
				}
				assert.Len(t, found, 2, "lost entries of imported follows")
				w.mended()
				assert.True(t, atHome(w, "carl", posts[1]))
				assert.True(t, atHome(w, "dora", posts[0]))
			})
		})
	}
}

// A pulled author's posts from a certain post on are merged into a home, which needs no entry for these
// posts. Older posts are in the home by their entries, or hidden.
func TestOnlyPostsThatNoMarkMergesAreOwed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "bob")
		w.must(w.Follow(t.Context(), "bob", "ann"))
		w.quiet()
		w.ahead.Store(int64(time.Hour))
		posts := w.delivered(4)
		for _, post := range posts {
			w.drop(entryKey("bob", post, "ann"))
		}
		lost := func() (missing []string) {
			all, _ := w.walk(false)
			for _, f := range all {
				require.Equal(t, audit.EntryMissing, f.Kind)
				post, _, _ := schema.ParseEntrySK(f.SK)
				missing = append(missing, post)
			}
			return missing
		}
		mark := schema.Mark{User: "bob", Author: "ann", Version: posts[0]}
		for name, c := range map[string]struct {
			change func(*schema.Mark)
			want   []string
		}{
			"a walk's":             {func(m *schema.Mark) { m.Kind, m.V, m.Pull = schema.MarkPulled, 1, posts[2] }, posts[:2]},
			"a backfill's, pulled": {func(m *schema.Mark) { m.Kind, m.V, m.From = schema.MarkPulled, 1, posts[1] }, posts[:0]},
			"hides and merges":     {func(m *schema.Mark) { m.Kind, m.V, m.From, m.Pull = schema.MarkPulled, 1, posts[1], posts[3] }, posts[1:3]},
			"a backfill's":         {func(m *schema.Mark) { m.Kind, m.From = schema.MarkBackfill, id.Min }, posts[:0]},
			"an ended backfill's": {func(m *schema.Mark) {
				m.Kind, m.From, m.Until, m.TTL = schema.MarkBackfill, posts[1], w.now(), w.now().Add(time.Hour)
			}, posts[1:]},
			"none": {func(*schema.Mark) {}, posts},
		} {
			m := mark
			if c.change(&m); m.Kind == "" {
				_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: schema.MarkKey("bob", "ann")})
				w.must(err)
			} else {
				w.put(m.Item())
			}
			assert.ElementsMatchf(t, c.want, lost(), "with a mark that is %s", name)
		}
	})
}

// A fan-out skips an away follower. The delivery record does not have the names of skipped followers, so no
// entry is required for a chunk that skipped a follower.
func TestAFollowerThatWasSkippedIsOwedNoEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "bob", "carl")
		w.must(w.Follow(t.Context(), "bob", "ann"))
		w.must(w.Follow(t.Context(), "carl", "ann"))
		w.quiet()
		w.change(schema.FollowerKey("ann", "bob"), []table.Attr{attr(schema.AttrUntil, table.N(1))}, nil)
		post := w.delivered(1)[0]
		require.Nil(t, w.item(entryKey("bob", post, "ann")))
		w.drop(schema.MarkKey("bob", "ann"))
		all, _ := w.walk(true)
		assert.Empty(t, all)
	})
}

// refollowed is a table in which a follow ends and is made again with the same time. This happens after the
// cheap read of an entry, which finds no entry, and before the transaction that confirms the loss.
type refollowed struct {
	table.Store
	do func()
}

func (s *refollowed) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if !in.Consistent && strings.HasSuffix(in.Keys[0].PK, "#timeline") {
		return table.BatchGetResult{}, nil
	}
	return s.Store.BatchGet(ctx, in)
}

func (s *refollowed) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	once(&s.do)
	return s.Store.Transact(ctx, in)
}

func TestAFollowThatComesAgainMeanwhileIsOwedNothingYet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann", "carl")
		longAgo := time.Now().Add(-2 * 365 * 24 * time.Hour)
		imported := func() {
			_, err := w.ImportFollow(t.Context(), feed.PastFollow{Follower: "carl", Author: "ann", From: id.Min, Since: longAgo})
			w.must(err)
		}
		imported()
		w.backfill("carl", "ann")
		post := w.delivered(1)[0]
		cfg := w.cfg
		store := &refollowed{w.store, func() {
			w.must(w.Unfollow(t.Context(), "carl", "ann"))
			w.drop(entryKey("carl", post, "ann")) // as the removal after an unfollow does
			imported()
		}}
		cfg.Store = store
		_, err := audit.New(cfg).Run(t.Context(), audit.Walk{Repair: true, Found: func(f audit.Finding) error {
			assert.Failf(t, "a finding", "%+v", f)
			return nil
		}})
		w.must(err)
		assert.Nil(t, store.do)
	})
}
