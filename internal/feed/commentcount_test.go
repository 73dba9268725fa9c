package feed_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func (w *world) comment(user, post string) feed.Comment {
	w.t.Helper()
	w.clock.add(time.Millisecond)
	c, err := w.CreateComment(w.t.Context(), user, post, "a comment")
	require.NoError(w.t, err)
	return c
}

// comments returns the comment count of a post as its view shows it.
func (w *world) comments(post string) int64 {
	w.t.Helper()
	view, err := w.PostView(w.t.Context(), "ann", post)
	require.NoError(w.t, err)
	return view.CommentCount
}

// uncount makes a post one of an earlier version.
func (w *world) uncount(p feed.Post) {
	w.t.Helper()
	_, err := w.store.Update(w.t.Context(), table.UpdateInput{Key: schema.PostKey(p.AuthorID, p.ID), Remove: []string{schema.AttrComments}})
	require.NoError(w.t, err)
}

func TestACommentIsCountedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	first := w.comment("ann", p.ID)
	w.comment("bob", p.ID)
	assert.Equal(t, int64(2), w.comments(p.ID))
	require.NoError(t, w.DeleteComment(t.Context(), "bob", p.ID, first.ID))
	wantKind(t, w.DeleteComment(t.Context(), "bob", p.ID, first.ID), feed.NotFound)
	assert.Equal(t, int64(1), w.comments(p.ID))
	text := "edited"
	_, err := w.EditPost(t.Context(), "bob", p.ID, feed.PostEdit{Text: &text})
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.comments(p.ID))
	w.checkCounts("bob")
}

func TestAnImportedCommentIsCountedOnce(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	c := feed.Comment{ID: w.ids(1)[0], PostID: p.ID, AuthorID: "ann", Text: "of years ago"}
	for range 2 {
		require.NoError(t, w.ImportComment(t.Context(), c))
	}
	assert.Equal(t, int64(1), w.comments(p.ID))
	require.NoError(t, w.DeletePost(t.Context(), "bob", p.ID))
	c.ID = w.ids(1)[0]
	require.NoError(t, w.ImportComment(t.Context(), c), "a comment of a deleted post has no place to go")
}

// A post of an earlier version has no count. The first call that needs it counts the comments, once.
func TestCommentsFromBeforeAreCountedOnce(t *testing.T) {
	for name, first := range map[string]func(w *world, p feed.Post, c feed.Comment) int64{
		"view":    func(*world, feed.Post, feed.Comment) int64 { return 3 },
		"comment": func(w *world, p feed.Post, _ feed.Comment) int64 { w.comment("ann", p.ID); return 4 },
		"delete": func(w *world, p feed.Post, c feed.Comment) int64 {
			require.NoError(w.t, w.DeleteComment(w.t.Context(), "ann", p.ID, c.ID))
			return 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapped(t)
			w.users("ann", "bob")
			p := w.post("bob", "x")
			var c feed.Comment
			for range 3 {
				c = w.comment("ann", p.ID)
			}
			w.uncount(p)
			want := first(w, p, c)
			assert.Equal(t, want, w.comments(p.ID))
			w.checkCounts("bob")
			tp.take()
			assert.Equal(t, want, w.comments(p.ID))
			for _, c := range tp.take() {
				assert.NotContains(t, []table.Op{table.OpQuery, table.OpUpdate}, c.op, "the comments are counted again")
			}
		})
	}
}

// A request reads 13,000 comments of a post at most. It stores how far it came, and the next
// one goes on.
func TestAPostOfManyCommentsFromBeforeIsCountedInParts(t *testing.T) {
	const many = 13_500
	w, tp := tapped(t)
	w.users("ann", "bob")
	p, few := w.post("bob", "x"), w.post("bob", "y")
	var writes []table.BatchWrite
	ids := id.NewGenerator(w.clock.now)
	for range many {
		comment, err := ids.New()
		require.NoError(t, err)
		it := schema.Comment{ID: comment, Post: p.ID, Author: "ann", Text: "x"}.Item()
		writes = append(writes, table.BatchWrite{Put: &it})
	}
	_, err := w.store.BatchWrite(t.Context(), writes)
	require.NoError(t, err)
	w.uncount(p)
	w.uncount(few)
	tp.take()
	_, err = w.PostView(t.Context(), "ann", p.ID)
	wantKind(t, err, feed.Unavailable)
	assert.LessOrEqual(t, len(tp.take()), 20)
	w.comment("ann", p.ID)
	assert.Equal(t, int64(many+1), w.comments(p.ID))
	w.checkCounts("ann")
	assert.Equal(t, int64(0), w.comments(few.ID))
}

// Comments, deletions and views of a post of an earlier version, all at once, in four
// processes whose transactions conflict.
func TestCommentsAtOnceEndExact(t *testing.T) {
	const crowd = 60
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("from before %v", before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
				processes := make([]*world, 4)
				for i := range processes {
					processes[i] = newWorld(t, func(c *feed.Config) { c.Store, c.Jitter = store, nil })
				}
				w := processes[0]
				w.users("ann", "bob")
				p := w.post("bob", "x")
				var old []feed.Comment
				for range crowd / 2 {
					old = append(old, w.comment("ann", p.ID))
				}
				if before {
					w.uncount(p)
				}
				var all sync.WaitGroup
				for i := range crowd {
					all.Go(func() {
						// As people come: a comment each 50 ms.
						assert.NoError(t, backoff.Wait(t.Context(), time.Duration(i)*50*time.Millisecond))
						process := processes[i%len(processes)]
						_, err := process.CreateComment(t.Context(), "ann", p.ID, "new")
						assert.NoError(t, err)
						if i < len(old) {
							assert.NoError(t, process.DeleteComment(t.Context(), "ann", p.ID, old[i].ID))
						}
						_, err = process.PostView(t.Context(), "ann", p.ID)
						assert.NoError(t, err)
					})
				}
				all.Wait()
				assert.Equal(t, int64(crowd), w.comments(p.ID))
				w.checkCounts("bob")
			})
		})
	}
}

// The comments of one post take turns in a process, so a crowd's do not conflict.
func TestACrowdCommentsOnOnePost(t *testing.T) {
	const crowd = 300
	synctest.Test(t, func(t *testing.T) {
		store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
		w := newWorld(t, func(c *feed.Config) { c.Store = store })
		w.users("ann", "bob")
		p := w.post("bob", "x")
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				_, err := w.CreateComment(t.Context(), "ann", p.ID, "x")
				assert.NoError(t, err)
			})
		}
		all.Wait()
		for key, n := range store.sent {
			assert.Equal(t, 1, n, "%v", key)
		}
		assert.Equal(t, int64(crowd), w.comments(p.ID))
	})
}

func TestACommentThatMeetsTheDeletionOfItsPostIsNotFound(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	old := w.comment("ann", p.ID)
	// The post goes after both calls have seen it.
	tp.set(func(c call) fault {
		if c.op == table.OpTransact && c.key.PK == schema.CommentsPK(p.ID) {
			_, err := tp.Store.Delete(t.Context(), table.DeleteInput{Key: schema.PostKey("bob", p.ID)})
			assert.NoError(t, err)
		}
		return works
	})
	_, err := w.CreateComment(t.Context(), "ann", p.ID, "x")
	wantKind(t, err, feed.NotFound)
	wantKind(t, w.DeleteComment(t.Context(), "ann", p.ID, old.ID), feed.NotFound)
	assert.Len(t, w.partition(schema.CommentsPK(p.ID)), 1)
}

// During an upgrade processes of the version before write comments that nobody counts. Whoever
// draws the post sees it, and has them counted anew.
func TestCommentsThatWereNotCountedAreFoundByAPageThatShowsAll(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	c := w.comment("ann", p.ID)
	page := func() {
		_, err := w.CommentViews(t.Context(), "ann", p.ID, feed.PageRequest{})
		require.NoError(t, err)
	}
	tp.take()
	page()
	for _, c := range tp.take() {
		assert.False(t, isWrite(c), "%v", c)
	}
	it := schema.Comment{ID: id.Min, Post: p.ID, Author: "ann", Text: "x"}.Item()
	_, err := w.store.Put(t.Context(), table.PutInput{Item: it})
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.comments(p.ID))
	page()
	assert.Equal(t, int64(2), w.comments(p.ID))
	for _, key := range []table.Key{it.Key, schema.CommentKey(p.ID, c.ID)} {
		_, err = w.store.Delete(t.Context(), table.DeleteInput{Key: key})
		require.NoError(t, err)
	}
	page()
	assert.Equal(t, int64(0), w.comments(p.ID))
	w.checkCounts("bob")
	// A comment between two reads makes no number wrong.
	tp.take()
	var late sync.Once
	tp.set(func(c call) fault {
		if c.op == table.OpGet && c.key == schema.PostKey("bob", p.ID) {
			late.Do(func() {
				_, err := tp.Store.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{
					{Put: &table.PutInput{Item: it}},
					{Update: &table.UpdateInput{Key: c.key, Add: []table.Attr{{Name: schema.AttrComments, Value: table.N(1)}}}},
				}})
				assert.NoError(t, err)
			})
		}
		return works
	})
	page()
	for _, c := range tp.take() {
		assert.False(t, isWrite(c), "%v", c)
	}
	w.checkCounts("bob")
}

// onNth runs change just before the nth call that is like c, by another process.
func onNth(tp *tap, nth int, c call, change func()) {
	met := 0
	tp.set(func(now call) fault {
		if now.op == c.op && now.key == c.key {
			if met++; met == nth {
				change()
			}
		}
		return works
	})
}

// setComments stores a number of comments, and -1 takes it away.
func setComments(t *testing.T, tp *tap, p feed.Post, n int64) {
	t.Helper()
	up := table.UpdateInput{Key: schema.PostKey(p.AuthorID, p.ID), Set: []table.Attr{{Name: schema.AttrComments, Value: table.N(n)}}}
	if n < 0 {
		up.Set, up.Remove = nil, []string{schema.AttrComments}
	}
	_, err := tp.Store.Update(t.Context(), up)
	require.NoError(t, err)
}

// A post whose count goes each time that it is there is tried three times.
func TestACommentOfAPostThatIsNeverCountedIsUnavailable(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	sent := 0
	tp.set(func(c call) fault {
		if c.op == table.OpTransact {
			if sent++; sent <= 10 {
				setComments(t, tp, p, -1)
			}
		}
		return works
	})
	_, err := w.CreateComment(t.Context(), "ann", p.ID, "x")
	wantKind(t, err, feed.Unavailable)
	assert.Equal(t, 3, sent)
	assert.Empty(t, w.partition(schema.CommentsPK(p.ID)))
}

func TestACommentThatIsDeletedMeanwhileIsNotFoundAndNothingIsCounted(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	c := w.comment("ann", p.ID)
	w.uncount(p)
	key := schema.CommentKey(p.ID, c.ID)
	onNth(tp, 1, call{op: table.OpTransact, key: key}, func() {
		_, err := tp.Store.Delete(t.Context(), table.DeleteInput{Key: key})
		assert.NoError(t, err)
	})
	tp.take()
	err := w.DeleteComment(t.Context(), "ann", p.ID, c.ID)
	wantKind(t, err, feed.NotFound)
	assert.ErrorContains(t, err, "comment "+c.ID+" was deleted")
	for _, c := range tp.take() {
		assert.NotContains(t, []table.Op{table.OpQuery, table.OpUpdate}, c.op)
	}
}

func TestAPostThatAnotherCallCountsMeanwhileHasItsNumber(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	w.comment("ann", p.ID)
	w.uncount(p)
	update := call{op: table.OpUpdate, key: schema.PostKey("bob", p.ID)}
	onNth(tp, 1, update, func() { setComments(t, tp, p, 1) })
	assert.Equal(t, int64(1), w.comments(p.ID))
	w.uncount(p)
	tp.set(func(c call) fault {
		if c.op == update.op {
			return lost
		}
		return works
	})
	_, err := w.PostView(t.Context(), "ann", p.ID)
	wantKind(t, err, feed.Unavailable)
}

// A page that shows all comments finds the number wrong. What others do with the number
// meanwhile decides about it.
func TestAWrongNumberOfCommentsIsForgottenUnlessOthersChangeIt(t *testing.T) {
	const get, update = table.OpGet, table.OpUpdate
	for name, c := range map[string]struct {
		stored int64
		// meanwhile is what another process stores, just before the nth such call.
		op              table.Op
		nth             int
		meanwhile, left int64
		updates         int
	}{
		"nobody changes it":            {5, update, 9, 0, -1, 1},
		"it grows before the second":   {5, get, 2, 6, 6, 0},
		"it goes before the second":    {0, get, 2, -1, -1, 0},
		"it is right before the first": {5, get, 1, 1, 1, 0},
		"it goes before the first":     {5, get, 1, -1, -1, 0},
		"it changes at last":           {5, update, 1, 6, 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapped(t)
			w.users("ann", "bob")
			p := w.post("bob", "x")
			w.comment("ann", p.ID)
			setComments(t, tp, p, c.stored)
			key := schema.PostKey("bob", p.ID)
			onNth(tp, c.nth, call{op: c.op, key: key}, func() { setComments(t, tp, p, c.meanwhile) })
			tp.take()
			list, err := w.CommentViews(t.Context(), "ann", p.ID, feed.PageRequest{})
			require.NoError(t, err)
			assert.Len(t, list.Items, 1)
			updates := 0
			for _, c := range tp.take() {
				if isWrite(c) {
					updates++
				}
			}
			assert.Equal(t, c.updates, updates)
			tp.set(nil)
			it := w.item(key)
			require.NotNil(t, it)
			left := int64(-1)
			if it.Has(schema.AttrComments) {
				left = it.Int(schema.AttrComments)
			}
			assert.Equal(t, c.left, left)
		})
	}
}

// Nobody needs to check a number that is not there, and a check that fails says so.
func TestACheckOfTheNumberOfComments(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	w.comment("ann", p.ID)
	w.uncount(p)
	page := func() error { return pageOf(w.CommentViews(t.Context(), "ann", p.ID, feed.PageRequest{})) }
	tp.take()
	require.NoError(t, page())
	queries := 0
	for _, c := range tp.take() {
		assert.False(t, isWrite(c), "%v", c)
		if c.op == table.OpQuery && c.key.PK == schema.CommentsPK(p.ID) {
			queries++
		}
	}
	assert.Equal(t, 1, queries)
	setComments(t, tp, p, 5)
	for _, key := range []call{
		{op: table.OpGet, key: schema.PostKey("bob", p.ID)}, {op: table.OpUpdate, key: schema.PostKey("bob", p.ID)},
	} {
		tp.set(func(c call) fault {
			if c.op == key.op && c.key == key.key {
				return lost
			}
			return works
		})
		wantKind(t, page(), feed.Unavailable)
	}
}
