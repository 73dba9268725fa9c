package feed_test

import (
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// everyField returns a post with a value in each field. A new field of feed.PostInput needs a value here.
func everyField(t *testing.T, w *world) feed.PostInput {
	t.Helper()
	quoted, now := w.post("ann", "quoted").ID, w.clock.now()
	w.published.take()
	in := feed.PostInput{
		Content: feed.Content{Text: "x", Images: []feed.Image{{URL: "https://img.example/a.png", Alt: "A", Width: new(3), Height: new(2)}}, Kind: "album", Data: `{"a":1}`, Mentions: []string{"bob"}, ExpiresAt: now.Add(time.Hour).Truncate(time.Second)}, QuoteOf: quoted, IdempotencyKey: "k",
	}
	for field, value := range leaves(in) {
		require.Falsef(t, value.IsZero(), "set %s in everyField", field.Name)
	}
	return in
}

// A worker and an import store each field of a post that the API stores.
func TestEachFieldOfAPostIsStoredByEachWriter(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	made, err := w.CreatePost(t.Context(), "ann", everyField(t, w))
	require.NoError(t, err)
	item := func() *table.Item { return w.get(t, schema.PostKey("ann", made.ID)) }
	byAPI := item()
	payload, err := messages.Encode(w.published.take()[0])
	require.NoError(t, err)
	sent, err := messages.Decode(payload)
	require.NoError(t, err)
	stored, err := schema.ParsePost(*byAPI)
	require.NoError(t, err)
	for writer, write := range map[string]func() error{
		"worker": func() error { _, err := w.EnsurePost(t.Context(), sent.(*messages.PostCreated)); return err },
		"import": func() error {
			stored.Byline = schema.Byline{} // an import stores no byline
			_, err := w.ImportPost(t.Context(), stored)
			return err
		},
	} {
		for _, key := range []table.Key{byAPI.Key, schema.PostByIDKey(made.ID)} {
			_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: key})
			require.NoError(t, err)
		}
		require.NoError(t, write(), writer)
		var absent []string
		if writer == "import" {
			absent = []string{schema.AttrBylineName, schema.AttrBylineImg, schema.AttrBylineV}
		}
		assert.Emptyf(t, cmp.Diff(values(byAPI, absent...), values(item())), "the API's item (-) and the %s's (+)", writer)
	}
}

// An import stores each field of a comment that the API stores.
func TestEachFieldOfACommentIsStoredByAnImport(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	p := w.post("ann", "x")
	in := feed.CommentInput{Text: "x", Data: `{"a":1}`, Mentions: []string{"bob"}}
	for field, value := range reflect.ValueOf(in).Fields() {
		require.Falsef(t, value.IsZero(), "set %s in this test", field.Name)
	}
	made, err := w.AddComment(t.Context(), "ann", p.ID, in)
	require.NoError(t, err)
	for field, value := range reflect.ValueOf(made).Fields() {
		require.Falsef(t, value.IsZero(), "the answer has no %s", field.Name)
	}
	key := schema.CommentKey(p.ID, made.ID)
	byAPI := w.get(t, key)
	_, err = w.store.Delete(t.Context(), table.DeleteInput{Key: key})
	require.NoError(t, err)
	require.NoError(t, w.ImportComment(t.Context(), made))
	assert.Empty(t, cmp.Diff(values(byAPI), values(w.get(t, key))), "the API's item (-) and the import's (+)")
}

// An import stores each field of a profile that the API stores.
func TestEachFieldOfAProfileIsStoredByAnImport(t *testing.T) {
	w := newWorld(t)
	in := feed.ProfileInput{Name: "Ann", Bio: "x", ImageURL: "https://img.example/a.png", Data: new(`{"a":1}`)}
	for field, value := range reflect.ValueOf(in).Fields() {
		require.Falsef(t, value.IsZero(), "set %s in this test", field.Name)
	}
	made, err := w.PutProfile(t.Context(), "ann", in)
	require.NoError(t, err)
	require.NoError(t, w.ImportUser(t.Context(), "bob", in, made.CreatedAt))
	assert.Empty(t, cmp.Diff(values(w.get(t, schema.ProfileKey("ann")), schema.AttrBylineV), values(w.get(t, schema.ProfileKey("bob")))), "the API's item (-) and the import's (+)")
}

// A key belongs to one body: a call with another value of any field is refused.
func TestAnIdempotencyKeyBindsEachField(t *testing.T) {
	w := newWorld(t)
	w.users("ann")
	in := everyField(t, w)
	made, err := w.CreatePost(t.Context(), "ann", in)
	require.NoError(t, err)
	for field, value := range leaves(in) {
		if field.Name == "IdempotencyKey" {
			continue
		}
		other := in
		changed := reflect.ValueOf(&other).Elem().FieldByIndex(field.Index)
		switch was := value.Interface().(type) {
		case string:
			changed.SetString(was + "x")
		case feed.Data:
			changed.SetString(`{"a":2}`)
		case []feed.Image:
			other.Images = slices.Concat(was, was)
		case []string:
			changed.Set(reflect.ValueOf(append(was[:1:1], "cid")))
		case time.Time:
			changed.Set(reflect.ValueOf(was.Add(time.Second)))
		default:
			require.Failf(t, "the test cannot change a field", "%s is a %s", field.Name, field.Type)
		}
		_, err := w.CreatePost(t.Context(), "ann", other)
		require.Errorf(t, err, "another %s", field.Name)
		wantKind(t, err, fault.Invalid)
		assert.ErrorContains(t, err, "Idempotency-Key", field.Name)
	}
	again, err := w.CreatePost(t.Context(), "ann", in)
	require.NoError(t, err)
	assert.Equal(t, made, again)
}

// leaves returns the fields of a struct and of its embedded structs.
func leaves(in any) iter.Seq2[reflect.StructField, reflect.Value] {
	return func(yield func(reflect.StructField, reflect.Value) bool) {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(in)) {
			if !field.Anonymous && !yield(field, reflect.ValueOf(in).FieldByIndex(field.Index)) {
				return
			}
		}
	}
}

func (w *world) get(t *testing.T, key table.Key) *table.Item {
	t.Helper()
	res, err := w.store.Get(t.Context(), table.GetInput{Key: key, Consistent: true})
	require.NoError(t, err)
	require.NotNil(t, res.Item, key)
	return res.Item
}

// values returns the attributes of an item by their names, without the absent ones.
func values(it *table.Item, absent ...string) map[string]any {
	all := map[string]any{}
	for _, a := range it.Attrs {
		if !slices.Contains(absent, a.Name) {
			all[a.Name] = [2]any{a.Value.Str(), a.Value.Int()}
		}
	}
	return all
}
