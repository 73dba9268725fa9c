package feed_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// A page that fills up shows the quoted posts of its quotes, also beside a repost.
func TestAPageThatIsFilledUpShowsQuotedPosts(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob", "cid", "dan")
	w.follow("ann", "bob")
	w.follow("ann", "cid")
	w.deliver()
	w.clock.add(2 * time.Minute)
	p, q := w.post("dan", "p"), w.post("dan", "q")
	w.clock.add(time.Millisecond)
	quote, err := w.CreatePost(t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: "so"}, QuoteOf: p.ID})
	require.NoError(t, err)
	w.repost("cid", q.ID)
	gone := []feed.Post{w.post("bob", "1"), w.post("bob", "2"), w.post("bob", "3")}
	w.deliver()
	w.clock.add(2 * time.Minute)
	for _, g := range gone {
		require.NoError(t, w.DeletePost(t.Context(), "bob", g.ID))
	}
	l, err := w.Home(t.Context(), "ann", home.Query{}, page.Request{Limit: 3})
	require.NoError(t, err)
	require.Len(t, l.Items, 2)
	require.Equal(t, quote.ID, l.Items[1].Post.ID)
	require.NotNil(t, l.Items[1].Of)
}

// A paging that continues by gathering remembers the reposts that it showed.
func TestAGatheringRemembersTheRepostsOfPagesByPush(t *testing.T) {
	w := newWorld(t)
	names := w.followees("viewer", pageLists+1)
	w.users(names[:2]...)
	p := w.post(names[0], "p")
	w.repost(names[1], p.ID)
	w.deliver()
	w.clock.add(2 * time.Minute)
	l, err := w.Home(t.Context(), "viewer", home.Query{}, page.Request{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, l.NextCursor)
	next, err := w.Home(t.Context(), "viewer", home.Query{Pull: true}, page.Request{Limit: 20, Cursor: l.NextCursor})
	require.NoError(t, err)
	require.Empty(t, homeIDs(next.Items))
}

// A paging remembers its last reposts.
func TestAPagingRemembersItsLastReposts(t *testing.T) {
	once := feed.NewOnce(nil)
	ref := func(i int) string { return string(rune('A'+i/26)) + string(rune('A'+i%26)) }
	for i := range feed.MostOnce + 1 {
		require.True(t, once.Takes("r"+ref(i), feed.Reference{RepostOf: ref(i)}))
	}
	assert.Len(t, once.Originals(), feed.MostOnce)
	assert.False(t, once.Takes(ref(feed.MostOnce), feed.Reference{}))
	assert.True(t, once.Takes(ref(0), feed.Reference{}))
}

// A sweep leaves a binding that has changed since its read.
func TestASweepLeavesABindingThatHasChanged(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	p := w.post("bob", "p")
	w.repost("ann", p.ID)
	w.deliver()
	old, err := w.store.Get(t.Context(), table.GetInput{Key: schema.RepostKey("ann", p.ID), Consistent: true})
	require.NoError(t, err)
	w.returns()
	profile, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	again := w.repost("ann", p.ID)
	_, err = w.OwnReposts("ann").End(t.Context(), *old.Item, id.Floor(profile.CreatedAt))
	require.NoError(t, err)
	require.Equal(t, again.ID, w.repost("ann", p.ID).ID)
}

// A user reposts a post between the read and the write of the import of another repost, of another call, or of the end of the
// former repost. The repost stays the one repost.
func TestACallBesideARepostMakesNoSecondOne(t *testing.T) {
	for name, call := range map[string]func(w *world, post string) error{
		"an import": func(w *world, post string) error {
			w.clock.add(time.Second)
			made, err := w.ImportRepost(t.Context(), w.newULID(), "ann", post)
			assert.True(t, made.Deleted, "%+v", made)
			return err
		},
		"a repost": func(w *world, post string) error { _, err := w.Repost(t.Context(), "ann", post); return err },
		"an end": func(w *world, post string) error {
			do := *w.store.(*hooked).beside
			*w.store.(*hooked).beside = nil
			w.repost("ann", post)
			*w.store.(*hooked).beside = do
			return w.EndRepost(t.Context(), "ann", post)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var beside func()
			w := newWorld(t, func(c *config) { c.Store = &hooked{c.Store, ofAnn, &beside} })
			w.users("ann", "bob")
			p := w.post("bob", "p")
			w.deliver()
			var live feed.Post
			beside = func() { beside = nil; live = w.repost("ann", p.ID) }
			require.NoError(t, call(w, p.ID))
			require.NotEmpty(t, live.ID)
			require.Equal(t, live.ID, w.repost("ann", p.ID).ID)
			posts, err := w.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
			require.NoError(t, err)
			require.Len(t, posts.Items, 1)
		})
	}
}

// A post is deleted between the read and the flag of a call that refers to it: no post refers to the deleted post.
func TestNoPostRefersToAPostThatIsDeletedBeside(t *testing.T) {
	for name, refer := range map[string]func(w *world, of string) error{
		"a repost": func(w *world, of string) error { _, err := w.Repost(t.Context(), "ann", of); return err },
		"a quote": func(w *world, of string) error {
			_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "q"}, QuoteOf: of})
			return err
		},
		"an import of a repost": func(w *world, of string) error {
			made, err := w.ImportRepost(t.Context(), w.newULID(), "ann", of)
			assert.True(t, made.Deleted)
			return err
		},
		"an import of a quote": func(w *world, of string) error {
			ref, err := w.ImportPost(t.Context(), schema.Post{ID: w.newULID(), Author: "ann", Content: feed.Content{Text: "q"}, Reference: feed.Reference{QuoteOf: of}})
			require.NoError(t, err)
			p, err := w.Post(t.Context(), access.Viewer{}, ref.ID)
			assert.Empty(t, p.Reference)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var beside func()
			var of string
			w := newWorld(t, func(c *config) {
				c.Store = &hooked{c.Store, func(key table.Key) bool { return key == schema.PostByIDKey(of) }, &beside}
			})
			w.users("ann", "bob")
			of = w.post("bob", "p").ID
			w.clock.add(time.Second)
			beside = func() { beside = nil; require.NoError(t, w.DeletePost(t.Context(), "bob", of)); w.published.take() }
			if err := refer(w, of); strings.HasPrefix(name, "an import") {
				require.NoError(t, err)
			} else {
				wantKind(t, err, fault.NotFound)
				require.ErrorContains(t, err, "was deleted")
			}
			require.Nil(t, beside)
			require.Empty(t, w.published.take())
			require.False(t, w.item(schema.PostByIDKey(of)).Has(schema.AttrReferred))
			require.Nil(t, w.item(schema.RepostKey("ann", of)))
		})
	}
}

// hooked calls beside before a write of such a key.
type hooked struct {
	table.Store
	such   func(table.Key) bool
	beside *func()
}

func ofAnn(key table.Key) bool { return key.PK == schema.RepostsPK("ann") }

func (s *hooked) before(key table.Key) {
	if *s.beside != nil && s.such(key) {
		(*s.beside)()
	}
}

func (s *hooked) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	s.before(in.Key)
	return s.Store.Update(ctx, in)
}

func (s *hooked) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	s.before(in.Item.Key)
	return s.Store.Put(ctx, in)
}

func (s *hooked) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	s.before(in.Key)
	return s.Store.Delete(ctx, in)
}

func (s *hooked) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	for _, op := range in.Ops {
		s.before(op.Key())
	}
	return s.Store.Transact(ctx, in)
}

// A page that ends by its bytes forgets the reposts behind its end, but not the reposts of earlier pages.
func TestAPageThatEndsByItsBytesForgetsTheRepostsBehindItsEnd(t *testing.T) {
	for _, gathers := range []bool{false, true} {
		w := newWorld(t)
		viewer, dan, bob := "ann", "dan", "bob"
		if gathers {
			names := w.followees("viewer", pageLists+1)
			viewer, dan, bob = "viewer", names[0], names[pageLists]
			w.users(dan, bob)
		} else {
			w.users(viewer, dan, bob)
			w.follow(viewer, dan)
			w.follow(viewer, bob)
		}
		first, second := w.post(dan, "first"), w.post(dan, "second")
		want := []string{w.repost(bob, second.ID).ID}
		for range 15 {
			want = append(want, w.post(dan, strings.Repeat("\U0001F3BA", 5000)).ID) // some twelve of these fill a page
		}
		want = append(want, w.repost(bob, first.ID).ID)
		slices.Reverse(want)
		w.deliver()

		var got []string
		for in := (page.Request{Limit: 1}); ; in.Limit = 20 {
			l, err := w.Home(t.Context(), viewer, home.Query{Pull: gathers}, in)
			require.NoError(t, err)
			got = append(got, homeIDs(l.Items)...)
			if in.Cursor = l.NextCursor; in.Cursor == "" {
				break
			}
		}
		require.Equal(t, want, got, "gathers: %v", gathers)
	}
}
