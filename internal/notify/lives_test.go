package notify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// zeros makes a generator whose random bits are 0.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// returned makes ann return now: her life begins a minute ahead, at after.
func (w *world) returned() (after string) {
	w.t.Helper()
	event := w.newID()
	after = id.Floor(w.now().Add(time.Minute))
	w.put(schema.Profile{User: "ann", CreatedAt: time.Now(), After: after, Former: schema.Removal{User: "ann", Event: event, At: time.Now()}}.Item())
	var err error
	w.post, err = w.ids.After(after)
	require.NoError(w.t, err)
	w.put(schema.PostRef{ID: w.post, Author: "ann", LikeShards: 1}.Item())
	w.ids = id.NewSeededGenerator(w.now, zeros{})
	w.cfg.IDs = w.ids // another process than the one that made the post
	<-time.After(time.Second)
	return after
}

// A removal takes a mark that is not above the life's after for a mark of a former life (I12, I14).
func TestAllPlacesOfANewLifeAreAboveItsAfter(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		after := w.returned()
		w.run(func() {
			comment := schema.Comment{ID: w.newID(), Post: w.post, Author: "bob", Text: "!"}
			w.put(comment.Item())
			w.like("bob", true)
			w.send(&messages.Commented{PostID: w.post, AuthorID: "ann", CommentID: comment.ID, UserID: "bob"},
				&messages.Mentioned{UserID: "ann", ActorID: "bob", PostID: w.post, CommentID: comment.ID},
				&messages.Followed{FollowerID: "bob", AuthorID: "ann", From: id.Min, MarkVersion: w.newID()})
			w.settle()
		})
		for _, kind := range []schema.NoticeKind{schema.NoticeLike, schema.NoticeComment, schema.NoticeMention, schema.NoticeFollow} {
			target := w.post
			if kind == schema.NoticeFollow {
				target = ""
			}
			n := w.notice(kind, target)
			require.Len(t, n.Acts, 1, kind)
			assert.Greater(t, n.Acts[0].Place, after, kind)
		}
	})
}

// Bob mentions ann and follows her, and then ann is removed and returns. The events come late.
func TestAnActionFromBeforeARemovalIsNotInTheNewLife(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		post, comment := w.newID(), w.newID()
		w.put(schema.PostRef{ID: post, Author: "bob", LikeShards: 1}.Item())
		w.put(schema.Comment{ID: comment, Post: post, Author: "bob", Text: "!"}.Item())
		follow := w.newID()
		w.returned()
		w.run(func() {
			w.send(&messages.Mentioned{UserID: "ann", ActorID: "bob", PostID: post},
				&messages.Mentioned{UserID: "ann", ActorID: "bob", PostID: post, CommentID: comment},
				&messages.Followed{FollowerID: "bob", AuthorID: "ann", From: id.Min, MarkVersion: follow})
			w.settle()
		})
		assert.Empty(t, w.notice(schema.NoticeMention, post).Acts)
		assert.Empty(t, w.notice(schema.NoticeFollow, "").Acts)
	})
}

// A post from a clock that is far ahead leads no place ahead.
func TestAPostFromFarAheadLeadsNoPlaceAhead(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		post, err := id.Named(time.Now().Add(time.Hour), "ahead")
		require.NoError(t, err)
		w.post = post
		w.put(schema.PostRef{ID: post, Author: "ann", LikeShards: 1}.Item())
		w.run(func() {
			w.like("bob", true)
			w.settle()
		})
		assert.Less(t, w.notice(schema.NoticeLike, post).Acts[0].Place, id.Floor(time.Now().Add(time.Minute)))
	})
}
