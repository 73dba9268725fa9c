package feed_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// The API and a worker store the same bytes for one post, whatever the data is and however the queue
// encodes the data.
func TestAWorkerStoresTheDataThatTheAPIAnswered(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	in := feed.PostInput{
		Content: feed.Content{Text: "x", Kind: "album", Mentions: []string{"bob", "auth0|5f7c"}, Data: "{ \"z\": [1.50, -0, 12345678901234567890],\n\"a\": \"\\u00e9<\uFFFE\\uffff\\u0000\" }"},
	}
	made, err := w.CreatePost(t.Context(), "ann", in)
	require.NoError(t, err)
	assert.Equal(t, "{\"z\":[1.50,-0,12345678901234567890],\"a\":\"é<\uFFFE\uFFFF\\u0000\"}", string(made.Data)) //nolint:testifylint // each byte counts
	key := schema.PostKey("ann", made.ID)
	byAPI, err := w.store.Get(t.Context(), table.GetInput{Key: key, Consistent: true})
	require.NoError(t, err)
	sent := w.published.take()[0]

	payload, err := messages.Encode(sent)
	require.NoError(t, err)
	received, err := messages.Decode(payload)
	require.NoError(t, err)
	for _, k := range []table.Key{key, schema.PostByIDKey(made.ID)} {
		_, err = w.store.Delete(t.Context(), table.DeleteInput{Key: k})
		require.NoError(t, err)
	}
	_, err = w.EnsurePost(t.Context(), received.(*messages.PostCreated))
	require.NoError(t, err)
	byWorker, err := w.store.Get(t.Context(), table.GetInput{Key: key, Consistent: true})
	require.NoError(t, err)
	for _, name := range []string{schema.AttrData, schema.AttrPostKind, schema.AttrMentions} {
		assert.Equal(t, byAPI.Item.Str(name), byWorker.Item.Str(name), name)
		assert.NotEmpty(t, byWorker.Item.Str(name), name)
	}
	ref, err := w.store.Get(t.Context(), table.GetInput{Key: schema.PostByIDKey(made.ID), Consistent: true})
	require.NoError(t, err)
	assert.True(t, ref.Item.Has(schema.AttrMentioning))
}

func TestCustomValuesAreRefusedWithTheirPlaces(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p := w.post("ann", "x")
	small := `{"a":"` + strings.Repeat("x", messages.MaxSmallData) + `"}`
	for field, call := range map[string]func() error{
		"kind": func() error {
			_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x", Kind: "1"}})
			return err
		},
		"data.a": func() error {
			_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x", Data: `{"a":1e999}`}})
			return err
		},
		"mentions[1]": func() error {
			_, err := w.AddComment(t.Context(), "ann", p.ID, feed.CommentInput{Text: "x", Mentions: []string{"a", "a"}})
			return err
		},
		"data": func() error {
			_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann", Data: &small})
			return err
		},
		"data.b": func() error {
			_, err := w.EditPost(t.Context(), "ann", p.ID, feed.PostEdit{Data: new(`{"b":1,"b":2}`)})
			return err
		},
	} {
		err := call()
		wantKind(t, err, fault.Invalid)
		assert.Contains(t, err.Error(), field)
	}
}

// beforePut is a table that runs a function once, before a put.
type beforePut struct {
	table.Store
	do func()
}

func (b *beforePut) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.Store.Put(ctx, in)
}

// A call without data keeps the data of a concurrent call.
func TestACallWithoutDataKeepsDataOfAnotherCall(t *testing.T) {
	store := &beforePut{}
	w := newWorld(t, func(c *config) { store.Store, c.Store = c.Store, store })
	w.users("ann")
	store.do = func() {
		_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Name of ann", Data: new(`{"a":1}`)})
		require.NoError(t, err)
	}
	u, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Name of ann", Bio: "new"})
	require.NoError(t, err)
	assert.Equal(t, `{"a":1}`, u.Data)
	assert.Nil(t, store.do, "the other call did not run")
	u, err = w.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, `{"a":1}`, u.Data)
	assert.Equal(t, "new", u.Bio)
}

func TestADeletionNamesTheMentionedUsers(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	for _, mentions := range [][]string{nil, {"bob", "cid"}} {
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x", Mentions: mentions}})
		require.NoError(t, err)
		w.published.take()
		require.NoError(t, w.DeletePost(t.Context(), "ann", p.ID))
		assert.Equal(t, mentions, w.published.take()[0].(*messages.PostDeleted).Mentions)
	}
}

// The data adds to the size of a page (I11).
func TestDataCountsForTheSizeOfAPage(t *testing.T) {
	data := `{"a":"` + strings.Repeat("x", 4000) + `"}`
	assert.Greater(t, feed.Post{Content: feed.Content{Data: feed.Data(data)}}.JSONBytes(), len(data))
	assert.Greater(t, feed.Comment{Data: data, Mentions: []string{strings.Repeat("u", 64)}}.JSONBytes(), len(data)+64)
	assert.Greater(t, feed.HomeItem{Post: feed.Post{Content: feed.Content{Data: feed.Data(data)}}}.JSONBytes(), len(data))
}

// dataReads is a table that counts the profiles that are read with their custom data.
type dataReads struct {
	table.Store
	read atomic.Int64
}

func (d *dataReads) count(items ...table.Item) {
	for _, it := range items {
		if _, profile := schema.UserOfProfile(it.Key); profile && it.Has(schema.AttrData) {
			d.read.Add(1)
		}
	}
}

func (d *dataReads) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	res, err := d.Store.Get(ctx, in)
	if res.Item != nil {
		d.count(*res.Item)
	}
	return res, err
}

func (d *dataReads) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	res, err := d.Store.BatchGet(ctx, in)
	d.count(res.Items...)
	return res, err
}

func (d *dataReads) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for page, err := range d.Store.Query(ctx, q) {
			d.count(page.Items...)
			if !yield(page, err) {
				return
			}
		}
	}
}

// Only two kinds of calls read the custom data of a profile: a read that shows the data, and a write
// that reads a profile together with other items. A like, a comment and a bookmark only check that a
// profile exists.
func TestProfilesAreReadWithoutTheirData(t *testing.T) {
	store := &dataReads{}
	s := newSample(t, newClock(), withData(`{"a":1}`), sharing, active(14), withLimit(1_000_000), func(c *config) { store.Store, c.Store = c.Store, store })
	s.measure = func() { store.read.Store(0) }
	readers := func(patterns []accessPattern) (names []string) {
		for _, p := range patterns {
			s.measure()
			require.NoError(t, p.do(t.Context(), s), p.name)
			if store.read.Load() > 0 {
				names = append(names, p.name)
			}
		}
		return names
	}
	assert.Equal(t, []string{"profile", "counts"}, readers(readPatterns()))
	s.clock.add(schema.BylineShown) // from this time on, homes read the names of authors
	assert.Empty(t, readers([]accessPattern{{name: "home that is filled up", do: func(ctx context.Context, s *sample) error {
		return s.homeWithout(ctx, s.ids[10:15])
	}}}))
	writes := readers(writePatterns())
	for _, p := range []string{"like or unlike", "comment", "delete a comment", "bookmark", "edit", "delete a post", "mark notifications as read"} {
		assert.NotContains(t, writes, p)
	}
}
