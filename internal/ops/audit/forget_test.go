package audit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/ops/audit"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// forget sweeps until nothing of a user is left, and sweeps once more two hours later.
func (w *world) forget(user, event string) {
	w.t.Helper()
	w.until("the end of the removal of "+user, func() bool {
		done, err := w.Forget(w.t.Context(), user, event, 500)
		w.must(err)
		return done.Sum() == 0
	})
	w.ahead.Add(int64(2 * time.Hour))
	_, err := w.Forget(w.t.Context(), user, event, 500)
	w.must(err)
}

// mended walks with repairs until a walk finds nothing.
func (w *world) mended() {
	w.t.Helper()
	w.until("a walk without a finding", func() bool {
		all, _ := w.walk(true)
		w.quiet()
		return len(all) == 0
	})
}

// A removal deletes the profile of a user before the user's other items. This is no damage, and a walk with
// repairs does not restore the user.
func TestAWalkDuringARemovalFindsNothingAndBringsNobodyBack(t *testing.T) {
	t.Parallel()
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, open(t))
				w.people("ann", "bob", "eve")
				w.must(w.Follow(t.Context(), "bob", "ann"))
				w.must(w.Follow(t.Context(), "ann", "eve"))
				w.must(w.Block(t.Context(), "eve", "bob"))
				post := w.post("ann")
				w.quiet()
				all, _ := w.walk(true)
				require.Empty(t, all, "sound before")

				event, err := w.AskToForget(t.Context(), "ann")
				w.must(err)
				w.ahead.Add(int64(time.Second)) // the removal would also delete a profile from the millisecond of its event
				for most := 1; most <= 3; most++ {
					all, _ = w.walk(true)
					assert.Empty(t, all, "a finding although nothing is damaged")
					_, err = w.Forget(t.Context(), "ann", event, most)
					w.must(err)
				}
				w.forget("ann", event)
				all, _ = w.walk(true)
				assert.Empty(t, all)
				_, err = w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "I am back"}})
				require.Error(t, err)
				_, err = w.User(t.Context(), "ann")
				require.Error(t, err)
				_, err = w.Post(t.Context(), access.Viewer{}, post)
				require.Error(t, err)
			})
		})
	}
}

// A repair deletes an incomplete record of a removed user, and does not complete the record.
func TestNoRepairBringsBackAPartOfARemovedUser(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(w *world, post *table.Item){
		"the edge under an author": func(w *world, _ *table.Item) { w.put(schema.FollowerItem("eve", "ann", w.now())) },
		"the edge under the removed author": func(w *world, _ *table.Item) {
			w.put(schema.FollowerItem("ann", "bob", w.now()))
		},
		"the edge under a follower": func(w *world, _ *table.Item) {
			w.put(table.Item{Key: schema.FollowingKey("bob", "ann"), Attrs: schema.FollowerItem("ann", "bob", w.now()).Attrs})
		},
		"a side of a block by the user": func(w *world, _ *table.Item) { w.put(schema.Block{User: "bob", Other: "ann", By: w.now()}.Item()) },
		"a post in the list":            func(w *world, post *table.Item) { w.put(*post) },
	} {
		for _, during := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, tabletest.NewMemory())
					w.people("ann", "bob", "eve")
					post := w.post("ann")
					listed := w.item(schema.PostKey("ann", post))
					w.quiet()
					event, err := w.AskToForget(t.Context(), "ann")
					w.must(err)
					w.forget("ann", event)
					w.drop(schema.PostByIDKey(post)) // the tombstone has expired
					if during {
						_, err := w.AskToForget(t.Context(), "ann")
						w.must(err)
					}
					plant(w, listed)
					w.mended()
					for _, pk := range []string{
						schema.FollowersPK("ann"), schema.FollowingPK("ann"), schema.BlocksPK("ann"), schema.PostsPK("ann"),
						schema.FollowersPK("eve"), schema.FollowingPK("bob"), schema.BlocksPK("bob"),
					} {
						items, _, err := table.Collect(w.store.Query(t.Context(), table.Query{PK: pk, Consistent: true}), 0)
						w.must(err)
						assert.Empty(t, items, pk)
					}
					assert.Nil(t, w.item(schema.PostByIDKey(post)))
					_, err = w.User(t.Context(), "ann")
					require.Error(t, err)
				})
			})
		}
	}
}

// A user who has returned is not removed. If the new profile is lost later, a walk finds the loss, and no
// repair treats the user's items as remains of the removal.
func TestALostProfileOfAUserWhoCameBackIsDamage(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]func(w *world){
		"by a call":    func(w *world) { w.people("ann") },
		"by an import": func(w *world) { w.must(w.ImportUser(w.t.Context(), "ann", feed.ProfileInput{Name: "Ann"}, w.now())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tabletest.NewMemory())
				w.people("ann", "bob", "eve")
				event, err := w.AskToForget(t.Context(), "ann")
				w.must(err)
				w.forget("ann", event)
				comesBack(w)
				w.must(w.Follow(t.Context(), "bob", "ann"))
				w.must(w.Block(t.Context(), "ann", "eve"))
				post := w.post("ann")
				w.quiet()
				w.drop(schema.ProfileKey("ann"))
				w.drop(schema.FollowerKey("ann", "bob"))
				w.drop(schema.BlockKey("eve", "ann"))
				w.drop(schema.PostByIDKey(post))

				all, _ := w.walk(true)
				kinds := map[audit.Kind]bool{}
				for _, f := range all {
					kinds[f.Kind] = true
				}
				assert.True(t, kinds[audit.ProfileMissing], "the lost profile is not found")
				assert.Nil(t, w.item(schema.FollowerKey("ann", "bob")), "a repair made a follow of a user without a profile")
				assert.Nil(t, w.item(schema.BlockKey("eve", "ann")), "a repair made a block of a user without a profile")
				w.people("ann")
				w.mended()
				for _, key := range []table.Key{
					schema.FollowerKey("ann", "bob"), schema.FollowingKey("bob", "ann"), schema.BlockKey("ann", "eve"), schema.BlockKey("eve", "ann"),
					schema.PostKey("ann", post), schema.PostByIDKey(post),
				} {
					assert.NotNil(t, w.item(key), "%v is gone", key)
				}
			})
		})
	}
}

// Other producers may post for users without a profile (docs/PRODUCERS.md).
func TestAPostOfAUserWithoutAProfileIsNoDamage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.produced("nobody")
		all, _ := w.walk(true)
		assert.Empty(t, all)
	})
}

// produced makes a post in the way of another producer.
func (w *world) produced(author string) string {
	w.t.Helper()
	next := func() string { made, err := w.cfg.IDs.New(); w.must(err); return made }
	e := &messages.PostCreated{Header: messages.Header{EventID: next(), Time: w.now()}, PostID: next(), AuthorID: author, Content: messages.Content{Text: "hello"}}
	msg, err := queue.Message(w.t.Context(), e)
	w.must(err)
	w.must(w.broker.Publish(queue.TopicPosts, msg))
	w.quiet()
	require.NotNil(w.t, w.item(schema.PostKey(author, e.PostID)))
	return e.PostID
}

// The sweep of a removal ends follows after it has deleted the profile. In between, a walk may find that an
// entry of a follow is lost. No repair writes this entry.
func TestNoRepairWritesAnEntryOfAUserWithoutAProfile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ of, removed string }{
		"of a removed follower": {"bob", "bob"},
		"of a removed author":   {"bob", "ann"},
		"of its own author":     {"ann", "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tabletest.NewMemory())
				w.people("ann", "bob")
				w.must(w.Follow(t.Context(), "bob", "ann"))
				w.quiet()
				key := entryKey(c.of, w.delivered(1)[0], "ann")
				_, err := w.AskToForget(t.Context(), c.removed)
				w.must(err)
				w.quiet()
				w.drop(key)
				all, sum := w.walk(true)
				require.Len(t, all, 1)
				assert.Equal(t, audit.EntryMissing, all[0].Kind)
				assert.Equal(t, 1, sum.Left)
				assert.Nil(t, w.item(key))
				w.people(c.removed)
				w.mended()
				assert.NotNil(t, w.item(key), "of a user who came back")
			})
		})
	}
}

// An author of another producer has no profile, and was not removed.
func TestTheOwnEntryOfAnAuthorWithoutAProfileIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		post := w.produced("nobody")
		w.drop(entryKey("nobody", post, "nobody"))
		w.mended()
		assert.NotNil(t, w.item(entryKey("nobody", post, "nobody")))
	})
}

// The note of the previous removal stays beside the new profile for a while.
func TestTheOwnEntryOfAUserWhoCameBackIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tabletest.NewMemory())
		w.people("ann")
		event, err := w.cfg.IDs.New()
		w.must(err)
		w.put(schema.Removal{User: "ann", Event: event, At: w.now()}.NewItem(event))
		post := w.post("ann")
		w.quiet()
		w.drop(entryKey("ann", post, "ann"))
		w.mended()
		assert.NotNil(t, w.item(entryKey("ann", post, "ann")))
	})
}
