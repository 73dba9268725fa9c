package feed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// besideUpdate is a table that makes another call just before an update.
type besideUpdate struct {
	table.Store
	do func()
}

func (b *besideUpdate) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.Store.Update(ctx, in)
}

// leaving is a table whose caller leaves just after an update.
type leaving struct {
	besideUpdate
	leave func()
}

func (l *leaving) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	defer l.leave()
	return l.besideUpdate.Update(ctx, in)
}

func (l *leaving) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if ctx.Err() != nil {
		return table.WriteResult{}, ctx.Err()
	}
	return l.Store.Put(ctx, in)
}

// lostUpdate is a table whose updates happen, but their caller gets no answer.
type lostUpdate struct{ table.Store }

func (l lostUpdate) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	res, err := l.Store.Update(ctx, in)
	if _, _, post := schema.PostOfKey(in.Key); post && err == nil {
		err = errors.New("answer lost")
	}
	return res, err
}

// An edit without an answer may have happened, so other processes hear of it.
func TestAnEditWithoutAnAnswerIsNoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config) { c.Store = lostUpdate{c.Store} })
	w.users("ann")
	post, text := w.post("ann", "x").ID, "y"
	_, err := w.EditPost(t.Context(), "ann", post, feed.PostEdit{Text: &text})
	require.Error(t, err)
	made, err := w.PostsMade(t.Context(), w.clock.now().Add(-time.Minute))
	require.NoError(t, err)
	assert.Len(t, made.Changes, 1)
}

// Another process that reads the note of an edit finds the edit. The note is written, too, if the author has left.
func TestAnEditIsNotedAfterItsUpdate(t *testing.T) {
	t.Parallel()
	hook := &leaving{leave: func() {}}
	w := newWorld(t, func(c *config) { hook.Store, c.Store = c.Store, hook })
	w.users("ann")
	post, text := w.post("ann", "x").ID, "y"
	noted := func() []schema.Change {
		made, err := w.PostsMade(t.Context(), w.clock.now().Add(-time.Minute))
		require.NoError(t, err)
		return made.Changes
	}
	ctx, leave := context.WithCancel(t.Context())
	hook.leave, hook.do = leave, func() { assert.Empty(t, noted(), "before the update") }
	_, err := w.EditPost(ctx, "ann", post, feed.PostEdit{Text: &text})
	require.NoError(t, err)
	assert.Len(t, noted(), 1)
}

// The log of changes is read in all partitions of the span, also while the newest one has just begun.
func TestChangesAreFoundOnBothSidesOfABucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users("ann")
	post := w.post("ann", "x").ID
	bucket := func() string { return schema.BucketOf(w.newULID()) }
	for first := bucket(); bucket() == first; {
		w.clock.add(time.Minute)
	}
	edits := func(want int) {
		t.Helper()
		text := fmt.Sprint(want)
		_, err := w.EditPost(t.Context(), "ann", post, feed.PostEdit{Text: &text})
		require.NoError(t, err)
		made, err := w.PostsMade(t.Context(), w.clock.now().Add(-10*time.Minute))
		require.NoError(t, err)
		assert.Len(t, made.Changes, want)
	}
	w.clock.add(-2 * time.Minute) // the reads look ahead of the clock
	edits(1)
	w.clock.add(3 * time.Minute)
	edits(2)
}

// A post shows a text, an image or data, whatever an edit removes.
func TestAnEditLeavesSomethingToShow(t *testing.T) {
	t.Parallel()
	const image = "https://img.example/a.png"
	none, some := "", `{"a":1}`
	for name, c := range map[string]struct {
		made    feed.Content
		edit    feed.PostEdit
		refused bool
	}{
		"the text of a text":              {feed.Content{Text: "x"}, feed.PostEdit{Text: &none}, true},
		"the text beside data":            {feed.Content{Text: "x", Data: "{}"}, feed.PostEdit{Text: &none}, false},
		"the text beside an image":        {feed.Content{Text: "x", Images: []feed.Image{{URL: image}}}, feed.PostEdit{Text: &none}, false},
		"text and image beside data":      {feed.Content{Text: "x", Images: []feed.Image{{URL: image}}, Data: "{}"}, feed.PostEdit{Text: &none, Images: &[]feed.Image{}}, false},
		"text and image":                  {feed.Content{Text: "x", Images: []feed.Image{{URL: image}}}, feed.PostEdit{Text: &none, Images: &[]feed.Image{}}, true},
		"everything":                      {feed.Content{Text: "x", Images: []feed.Image{{URL: image}}, Data: "{}"}, feed.PostEdit{Text: &none, Images: &[]feed.Image{}, Data: &none}, true},
		"the data of data":                {feed.Content{Data: "{}"}, feed.PostEdit{Data: &none}, true},
		"the image of an image":           {feed.Content{Images: []feed.Image{{URL: image}}}, feed.PostEdit{Images: &[]feed.Image{}}, true},
		"the text, and data come instead": {feed.Content{Text: "x"}, feed.PostEdit{Text: &none, Data: &some}, false},
	} {
		w := newWorld(t)
		w.users("ann")
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: c.made})
		require.NoError(t, err, name)
		_, err = w.EditPost(t.Context(), "ann", p.ID, c.edit)
		if !c.refused {
			require.NoError(t, err, name)
			continue
		}
		wantKind(t, err, fault.Invalid)
		assert.ErrorContains(t, err, "would be empty, and the post would have no image and no data", name)
		after, err := w.Post(t.Context(), access.Viewer{}, p.ID)
		require.NoError(t, err)
		assert.Equal(t, p, after, name)
	}
}

// One edit removes the text, because there are data, and meanwhile another call changes the post.
func TestTwoEditsTogetherLeaveSomethingToShow(t *testing.T) {
	t.Parallel()
	none, other := "", `{"b":2}`
	for name, c := range map[string]struct {
		beside func(w *world, post string) error
		kind   fault.Kind
		want   feed.Content
	}{
		"removes the data": {func(w *world, post string) error {
			_, err := w.EditPost(w.t.Context(), "ann", post, feed.PostEdit{Data: &none})
			return err
		}, fault.Invalid, feed.Content{Text: "x"}},
		"removes the data beside an image": {func(w *world, post string) error {
			_, err := w.EditPost(w.t.Context(), "ann", post, feed.PostEdit{Data: &none, Images: &[]feed.Image{{URL: "https://img.example/b.png"}}})
			return err
		}, 0, feed.Content{Images: []feed.Image{{URL: "https://img.example/b.png"}}}},
		"changes the data": {func(w *world, post string) error {
			_, err := w.EditPost(w.t.Context(), "ann", post, feed.PostEdit{Data: &other})
			return err
		}, 0, feed.Content{Data: feed.Data(other)}},
		"deletes the post": {func(w *world, post string) error { return w.DeletePost(w.t.Context(), "ann", post) }, fault.NotFound, feed.Content{}},
	} {
		hook := &besideUpdate{}
		w := newWorld(t, func(c *config) { hook.Store, c.Store = c.Store, hook })
		w.users("ann")
		p, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "x", Data: `{"a":1}`}})
		require.NoError(t, err)
		hook.do = func() { require.NoError(t, c.beside(w, p.ID), name) }
		_, err = w.EditPost(t.Context(), "ann", p.ID, feed.PostEdit{Text: &none})
		if c.kind == 0 {
			require.NoError(t, err, name)
		} else {
			wantKind(t, err, c.kind)
		}
		if after, err := w.Post(t.Context(), access.Viewer{}, p.ID); c.kind != fault.NotFound {
			require.NoError(t, err)
			assert.Equal(t, c.want, after.Content, name)
		}
	}
}
