package feed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// ending makes a post by bob that ends in an hour.
func (w *world) ending(text string) feed.Post {
	w.t.Helper()
	p, err := w.CreatePost(w.t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: text, ExpiresAt: w.clock.now().Add(time.Hour + 300*time.Millisecond)}})
	require.NoError(w.t, err)
	w.clock.add(time.Second)
	return p
}

// I15: no read shows the post from its end on, although the table has deleted nothing.
func TestNoReadShowsAPostFromItsEndOn(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.follow("ann", "bob")
	p := w.ending("story")
	w.deliver()
	require.NoError(t, w.Like(t.Context(), "ann", p.ID))
	w.deliver()
	_, err := w.CreateComment(t.Context(), "ann", p.ID, "a comment")
	require.NoError(t, err)

	require.NoError(t, w.Bookmark(t.Context(), "ann", p.ID))
	w.notified(schema.NoticeMention, p.ID, "bob")

	reads := map[string]func() (shown bool){
		"post":       func() bool { _, err := w.Post(t.Context(), access.Viewer{}, p.ID); return found(t, err) },
		"view":       func() bool { _, err := w.PostView(t.Context(), access.As("ann"), p.ID); return found(t, err) },
		"like count": func() bool { _, err := w.LikeCount(t.Context(), access.Viewer{}, p.ID); return found(t, err) },
		"likers": func() bool {
			_, err := w.Likers(t.Context(), access.Viewer{}, p.ID, page.Request{})
			return found(t, err)
		},
		"comments": func() bool {
			_, err := w.Comments(t.Context(), access.Viewer{}, p.ID, page.Request{})
			return found(t, err)
		},
		"new comment": func() bool { _, err := w.CreateComment(t.Context(), "ann", p.ID, "late"); return found(t, err) },
		"like":        func() bool { return found(t, w.Like(t.Context(), "ann", p.ID)) },
		"edit": func() bool {
			_, err := w.EditPost(t.Context(), "bob", p.ID, feed.PostEdit{Text: new("edited")})
			return found(t, err)
		},
		"posts by id": func() bool {
			f, err := w.PostViews(t.Context(), access.As("ann"), []string{p.ID})
			require.NoError(t, err)
			return len(f.Items) == 1
		},
		"posts by user": func() bool {
			l, err := w.PostsByUser(t.Context(), access.Viewer{}, "bob", feed.PostRange{}, page.Request{})
			require.NoError(t, err)
			return len(l.Items) == 1
		},
		"comments by user": func() bool {
			l, err := w.CommentsByUser(t.Context(), access.Viewer{}, "ann", page.Request{})
			require.NoError(t, err)
			return len(l.Items) > 0
		},
		"likes by user": func() bool {
			l, err := w.LikesByUser(t.Context(), access.Viewer{}, "ann", page.Request{})
			require.NoError(t, err)
			return len(l.Items) == 1
		},
		"bookmarks": func() bool {
			l, err := w.Bookmarks(t.Context(), "ann", page.Request{})
			require.NoError(t, err)
			return len(l.Items) == 1
		},
		"a bookmark": func() bool { return found(t, w.Bookmark(t.Context(), "ann", p.ID)) },
		"reactions": func() bool {
			l, err := w.ReactionsByUser(t.Context(), access.Viewer{}, "ann", page.Request{})
			require.NoError(t, err)
			return len(l.Items) == 1
		},
		"notifications":     func() bool { return len(w.noticed()) == 1 },
		"home":              func() bool { return len(w.home("ann", 20, home.Query{})) == 1 },
		"home by pull":      func() bool { return len(w.home("ann", 20, home.Query{Pull: true})) == 1 },
		"the author's home": func() bool { return len(w.home("bob", 20, home.Query{})) == 1 },
	}
	w.clock.add(p.ExpiresAt.Sub(w.clock.now()) - time.Second)
	for name, shown := range reads {
		assert.Truef(t, shown(), "%s does not show the post before its end", name)
	}
	w.clock.add(time.Second)
	for name, shown := range reads {
		assert.Falsef(t, shown(), "%s shows the post at its end", name)
	}
	wantKind(t, w.DeletePost(t.Context(), "bob", p.ID), fault.NotFound)
	d, err := w.AnyDelivery(t.Context(), p.ID)
	require.NoError(t, err)
	assert.Equal(t, delivery.Cancelled, d.State)
	assert.Equal(t, "the post ended at "+p.ExpiresAt.Format(time.RFC3339), d.Reason)
	all, err := w.Explain(t.Context(), nil, "ann", p.ID)
	require.NoError(t, err)
	assert.Equal(t, home.ReasonEnded, all[0].Reason)
	assert.Equal(t, "the post ended at "+p.ExpiresAt.Format(time.RFC3339), all[0].String())
}

func found(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		wantKind(t, err, fault.NotFound)
	}
	return err == nil
}

// I4, I15: counts.posts never includes a post with an end, whether or not the post was deleted, and
// whichever process writes the post.
func TestAPostWithAnEndIsNeverCounted(t *testing.T) {
	w := newWorld(t)
	w.users("bob")
	posts := func() int64 {
		u, err := w.User(t.Context(), "bob")
		require.NoError(t, err)
		return u.Counts.Posts
	}
	kept, first, second := w.post("bob", "kept"), w.ending("first"), w.ending("second")
	assert.EqualValues(t, 1, posts())
	require.NoError(t, w.DeletePost(t.Context(), "bob", second.ID))
	require.NoError(t, w.DeletePost(t.Context(), "bob", first.ID)) // first is below the newest deleted post
	assert.EqualValues(t, 1, posts())
	e := &messages.PostCreated{PostID: w.newULID(), AuthorID: "bob", Content: messages.Content{Text: "of a producer", ExpiresAt: w.clock.now().Add(2 * time.Second)}}
	_, err := w.EnsurePost(t.Context(), e)
	require.NoError(t, err)
	assert.EqualValues(t, 1, posts())
	require.NoError(t, w.DeletePost(t.Context(), "bob", kept.ID))
	assert.EqualValues(t, 0, posts())
}

func (w *world) newULID() string {
	w.t.Helper()
	made, err := id.NewGenerator(w.clock.now).New()
	require.NoError(w.t, err)
	return made
}

func TestItemsOfAPostWithAnEndHaveTheirTTLFromIt(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.ending("story")
	_, err := w.CreateComment(t.Context(), "ann", p.ID, "a comment")
	require.NoError(t, err)
	ttl := func(it table.Item) time.Time { return time.Unix(it.Int(table.AttrTTL), 0).UTC() }
	assert.Equal(t, p.ExpiresAt, ttl(*w.item(schema.PostKey("bob", p.ID))))
	assert.Equal(t, p.ExpiresAt, ttl(*w.item(table.Key{PK: schema.TimelinePK("bob"), SK: schema.EntrySK(p.ID, "bob")})))
	assert.Equal(t, p.ExpiresAt, ttl(w.partition(schema.CommentsPK(p.ID))[0]))
	byID := *w.item(schema.PostByIDKey(p.ID))
	assert.Equal(t, p.ExpiresAt.Add(timelineTTL+schema.DeliveryKept), ttl(byID))
	assert.Equal(t, p.ExpiresAt.Unix(), byID.Int(schema.AttrEnds))
}

// A message that arrives after the end of its post has no effect.
func TestAPostCreatedAfterItsEndWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.users("bob")
	e := &messages.PostCreated{PostID: w.newULID(), AuthorID: "bob", Content: messages.Content{Text: "x", ExpiresAt: w.clock.now().Add(2 * time.Second)}}
	w.clock.add(3 * time.Second)
	stored, err := w.EnsurePost(t.Context(), e)
	require.NoError(t, err)
	assert.True(t, stored.Deleted)
	assert.Nil(t, w.item(schema.PostByIDKey(e.PostID)))
	assert.Empty(t, w.partition(schema.PostsPK("bob")))
}

// The first call decides whether the end is late enough. A repeated call gets the same answer, even
// after the end.
func TestARepetitionIsAnsweredWhateverItsEnd(t *testing.T) {
	w := newWorld(t)
	w.users("bob")
	in := feed.PostInput{Content: feed.Content{Text: "x", ExpiresAt: w.clock.now().Add(time.Minute)}, IdempotencyKey: "k"}
	made, err := w.CreatePost(t.Context(), "bob", in)
	require.NoError(t, err)
	for range 3 {
		w.clock.add(30 * time.Second)
		again, err := w.CreatePost(t.Context(), "bob", in)
		require.NoError(t, err)
		assert.Equal(t, made.ID, again.ID)
		assert.Equal(t, made.ExpiresAt, again.ExpiresAt)
	}
	in.IdempotencyKey = "another"
	_, err = w.CreatePost(t.Context(), "bob", in)
	wantKind(t, err, fault.Invalid)
	in.IdempotencyKey = ""
	for _, ahead := range []time.Duration{-time.Hour, 58 * time.Second, 367 * 24 * time.Hour} {
		in.ExpiresAt = w.clock.now().Add(ahead)
		_, err = w.CreatePost(t.Context(), "bob", in)
		wantKind(t, err, fault.Invalid)
	}
}

func TestAnImportLeavesOutPostsThatHaveEnded(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := schema.Post{ID: id.Floor(longAgo), Author: "bob", Content: schema.Content{Text: "x", ExpiresAt: longAgo.Add(time.Hour)}}
	ref, err := w.ImportPost(t.Context(), p)
	require.NoError(t, err)
	assert.True(t, ref.Gone(w.clock.now()))
	require.NoError(t, w.ImportComment(t.Context(), feed.Comment{ID: id.Floor(longAgo.Add(time.Minute)), PostID: p.ID, AuthorID: "ann", Text: "x"}))
	assert.Empty(t, w.partition(schema.PostsPK("bob")))
	assert.Empty(t, w.partition(schema.CommentsPK(p.ID)))
	w.checkCounts("bob")
}
