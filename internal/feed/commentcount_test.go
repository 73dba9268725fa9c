package feed_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
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

// comments returns the comment count in the view of a post.
func (w *world) comments(post string) int64 {
	w.t.Helper()
	view, err := w.PostView(w.t.Context(), access.As("ann"), post)
	require.NoError(w.t, err)
	return view.CommentCount
}

func TestACommentIsCountedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	first := w.comment("ann", p.ID)
	w.comment("bob", p.ID)
	assert.Equal(t, int64(2), w.comments(p.ID))
	require.NoError(t, w.DeleteComment(t.Context(), "bob", p.ID, first.ID))
	wantKind(t, w.DeleteComment(t.Context(), "bob", p.ID, first.ID), fault.NotFound)
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

// Four processes, whose transactions conflict, comment on a post, delete comments and read views at
// the same time.
func TestCommentsAtOnceEndExact(t *testing.T) {
	const crowd = 60
	synctest.Test(t, func(t *testing.T) {
		store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
		processes := make([]*world, 4)
		for i := range processes {
			processes[i] = newWorld(t, func(c *config) { c.Store, c.Jitter = store, nil })
		}
		w := processes[0]
		w.users("ann", "bob")
		p := w.post("bob", "x")
		var old []feed.Comment
		for range crowd / 2 {
			old = append(old, w.comment("ann", p.ID))
		}
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() {
				// The comments arrive one by one, 50 ms apart.
				assert.NoError(t, backoff.Wait(t.Context(), time.Duration(i)*50*time.Millisecond))
				process := processes[i%len(processes)]
				_, err := process.CreateComment(t.Context(), "ann", p.ID, "new")
				assert.NoError(t, err)
				if i < len(old) {
					assert.NoError(t, process.DeleteComment(t.Context(), "ann", p.ID, old[i].ID))
				}
				_, err = process.PostView(t.Context(), access.As("ann"), p.ID)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, int64(crowd), w.comments(p.ID))
		w.checkCounts("bob")
	})
}

// The comments on one post take turns in a process, so the comments of a crowd do not conflict.
func TestACrowdCommentsOnOnePost(t *testing.T) {
	const crowd = 300
	synctest.Test(t, func(t *testing.T) {
		store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
		w := newWorld(t, func(c *config) { c.Store = store })
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
	// The post is deleted after both calls have read it.
	tp.set(func(c call) failure {
		if c.op == table.OpTransact && c.key.PK == schema.CommentsPK(p.ID) {
			_, err := tp.Store.Delete(t.Context(), table.DeleteInput{Key: schema.PostKey("bob", p.ID)})
			assert.NoError(t, err)
		}
		return works
	})
	_, err := w.CreateComment(t.Context(), "ann", p.ID, "x")
	wantKind(t, err, fault.NotFound)
	wantKind(t, w.DeleteComment(t.Context(), "ann", p.ID, old.ID), fault.NotFound)
	assert.Len(t, w.partition(schema.CommentsPK(p.ID)), 1)
}

// onNth calls change just before the nth call that equals c, as a concurrent call of another process.
func onNth(tp *tap, nth int, c call, change func()) {
	met := 0
	tp.set(func(now call) failure {
		if now.op == c.op && now.key == c.key {
			if met++; met == nth {
				change()
			}
		}
		return works
	})
}

func TestACommentThatIsDeletedMeanwhileIsNotFoundAndNothingIsCounted(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("bob", "x")
	c := w.comment("ann", p.ID)
	key := schema.CommentKey(p.ID, c.ID)
	onNth(tp, 1, call{op: table.OpTransact, key: key}, func() {
		_, err := tp.Store.Delete(t.Context(), table.DeleteInput{Key: key})
		assert.NoError(t, err)
	})
	tp.take()
	err := w.DeleteComment(t.Context(), "ann", p.ID, c.ID)
	wantKind(t, err, fault.NotFound)
	assert.ErrorContains(t, err, "comment "+c.ID+" was deleted")
	for _, c := range tp.take() {
		assert.NotContains(t, []table.Op{table.OpQuery, table.OpUpdate}, c.op)
	}
}

// One user sends 32 comments on a post at once, and deletes other comments. A comment of another user
// waits only for the running transaction and for its own transaction, not for all comments of the
// first user.
func TestOneCommenterHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &contended{Store: tabletest.NewMemory(), busy: map[table.Key]bool{}, sent: map[table.Key]int{}}
		w := newWorld(t, func(c *config) { c.Store = store })
		w.users("ann", "bob", "cid")
		post := w.post("ann", "a post")
		old := w.comment("cid", post.ID)
		var crowd sync.WaitGroup
		for range 32 {
			crowd.Go(func() { _, err := w.CreateComment(t.Context(), "cid", post.ID, "me"); assert.NoError(t, err) })
		}
		crowd.Go(func() { assert.NoError(t, w.DeleteComment(t.Context(), "cid", post.ID, old.ID)) })
		synctest.Wait()
		<-time.After(transactTakes / 2)
		for range 3 {
			began := time.Now()
			theirs := w.comment("bob", post.ID)
			assert.LessOrEqual(t, time.Since(began), 2*transactTakes)
			began = time.Now()
			require.NoError(t, w.DeleteComment(t.Context(), "ann", post.ID, theirs.ID))
			assert.LessOrEqual(t, time.Since(began), 2*transactTakes)
		}
		crowd.Wait()
		assert.EqualValues(t, 32, w.comments(post.ID))
	})
}
