package feed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
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

// A user reposts a post between the read and the write of the import of another repost.
func TestAnImportBesideARepostMakesNoSecondOne(t *testing.T) {
	var beside func()
	w := newWorld(t, func(c *config) { c.Store = &hooked{c.Store, &beside} })
	w.users("ann", "bob")
	p := w.post("bob", "p")
	w.deliver()
	var live feed.Post
	beside = func() { beside = nil; live = w.repost("ann", p.ID) }
	w.clock.add(time.Second)
	past := w.newULID()
	made, err := w.ImportRepost(t.Context(), past, "ann", p.ID)
	require.NoError(t, err)
	require.NotEmpty(t, live.ID)
	require.True(t, made.Deleted, "%+v", made)
}

// hooked calls beside before the transaction that binds a repost of ann.
type hooked struct {
	table.Store
	beside *func()
}

func (s *hooked) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	for _, op := range in.Ops {
		if op.Put != nil && *s.beside != nil && op.Put.Item.Key.PK == schema.RepostsPK("ann") {
			(*s.beside)()
		}
	}
	return s.Store.Transact(ctx, in)
}
