package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// flagged reports whether a post is flagged as referred to.
func (w *world) flagged(t *testing.T, post string) bool {
	t.Helper()
	ref, err := schema.ParsePostRef(*w.get(t, schema.PostByIDKey(post)))
	require.NoError(t, err)
	return ref.Referred
}

// noted returns the log of changes.
func (w *world) noted(t *testing.T) (all []schema.Change) {
	t.Helper()
	now, err := id.Named(w.clock.now(), "now")
	require.NoError(t, err)
	for _, it := range w.partition(schema.ChangesPK(schema.BucketOf(now))) {
		c, err := schema.ParseChange(it)
		require.NoError(t, err)
		c.Event = ""
		all = append(all, c)
	}
	return all
}

func TestAPostIsFlaggedBeforePostsReferToIt(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	refers := map[string]func(of string){
		"repost": func(of string) { w.repost("bob", of) },
		"quote": func(of string) {
			_, err := w.CreatePost(t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: "q"}, QuoteOf: of})
			require.NoError(t, err)
		},
		"event of another producer": func(of string) {
			w.clock.add(time.Millisecond)
			w.fanOut(&messages.PostCreated{PostID: w.newULID(), AuthorID: "bob", Content: feed.Content{Text: "q"}, Reference: feed.Reference{QuoteOf: of, OfAuthor: "ann", OfShards: 1}})
		},
		"import of a quote": func(of string) {
			_, err := w.ImportPost(t.Context(), schema.Post{ID: w.newULID(), Author: "bob", Content: feed.Content{Text: "q"}, Reference: feed.Reference{QuoteOf: of}})
			require.NoError(t, err)
		},
		"import of a repost": func(of string) {
			_, err := w.ImportRepost(t.Context(), w.newULID(), "bob", of)
			require.NoError(t, err)
		},
	}
	for name, refer := range refers {
		p := w.post("ann", "p")
		w.deliver()
		assert.False(t, w.flagged(t, p.ID), name)
		refer(p.ID)
		w.deliver()
		assert.True(t, w.flagged(t, p.ID), name)
	}
}

// Another process flags the post between the read and the transaction of its deletion.
func TestTheNoteOfADeletionHasTheFlagOfThePost(t *testing.T) {
	for _, takesDown := range []bool{false, true} {
		w, store := onTransact(t)
		w.users("ann", "bob")
		p := w.post("ann", "p")
		store.do = func() { w.repost("bob", p.ID) }
		if takesDown {
			_, err := w.TakeDown(t.Context(), "moderation", p.ID, "false")
			require.NoError(t, err)
		} else {
			require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
		}
		require.Nil(t, store.do)
		assert.Equal(t, []schema.Change{{Post: p.ID, Author: "ann", Deleted: true, Referred: true}}, w.noted(t))
		_, err := w.Post(t.Context(), access.Viewer{}, p.ID)
		wantKind(t, err, fault.NotFound)
	}
}

func TestTheNoteOfAnEditHasTheFlagOfThePost(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p, text := w.post("ann", "p"), "y"
	for _, referred := range []bool{false, true} {
		if referred {
			w.repost("bob", p.ID)
		}
		_, err := w.EditPost(t.Context(), "ann", p.ID, feed.PostEdit{Text: &text})
		require.NoError(t, err)
	}
	assert.Equal(t, []schema.Change{{Post: p.ID, Author: "ann"}, {Post: p.ID, Author: "ann", Referred: true}}, w.noted(t))
}

// Nobody knows whether a post is referred to while the read of its flag fails, so the note has the flag.
func TestTheNoteOfAnEditHasTheFlagIfItsReadFails(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann")
	p, text, edited := w.post("ann", "p"), "y", false
	tp.set(func(c call) failure {
		if edited && c.op == table.OpGet && c.key == schema.PostByIDKey(p.ID) {
			return lost
		}
		edited = edited || c.op == table.OpUpdate
		return works
	})
	_, err := w.EditPost(t.Context(), "ann", p.ID, feed.PostEdit{Text: &text})
	require.NoError(t, err)
	require.True(t, edited)
	assert.Equal(t, []schema.Change{{Post: p.ID, Author: "ann", Referred: true}}, w.noted(t))
}

// The flag is there before any reader of a reposter can see the repost, and before a call can die between the two.
func TestARepostWaitsForTheFlagOfItsOriginal(t *testing.T) {
	w, tp := tapped(t)
	w.users("ann", "bob")
	p := w.post("ann", "p")
	w.deliver()
	tp.set(func(c call) failure {
		if c.op == table.OpUpdate && c.key == schema.PostByIDKey(p.ID) {
			return lost
		}
		return works
	})
	_, err := w.Repost(t.Context(), "bob", p.ID)
	wantKind(t, err, fault.Unavailable)
	tp.set(nil)
	assert.Empty(t, w.published.take(), "no repost without a flag")
	assert.Empty(t, w.partition(schema.RepostKey("bob", p.ID).PK))
}
