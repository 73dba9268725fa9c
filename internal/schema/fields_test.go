package schema_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// filled returns a value with a different value in each field, except the fields with these names.
func filled[T any](t *testing.T, except ...string) (out T) {
	t.Helper()
	n := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		n++
		switch at := v.Addr().Interface().(type) {
		case *time.Time:
			*at = time.Unix(int64(1_700_000_000+n), 0).UTC()
			return
		case *[]string:
			*at = []string{"bob", "cid"}
			return
		}
		switch v.Kind() { // the rest fails
		case reflect.String:
			v.SetString("01JD8QJ4WZ00000000000000" + string(rune('A'+n/10)) + string(rune('0'+n%10)))
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n + 1))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Struct:
			for _, field := range v.Fields() {
				fill(field)
			}
		default:
			require.Failf(t, "the test cannot fill a field", "it is a %s", v.Type())
		}
	}
	for field, v := range reflect.ValueOf(&out).Elem().Fields() {
		if !slices.Contains(except, field.Name) {
			fill(v)
		}
	}
	return out
}

// back fails unless an item has each field of the value that it stores.
func back[T any](t *testing.T, want T, it table.Item, parse func(table.Item) (T, error)) {
	t.Helper()
	got, err := parse(it)
	require.NoErrorf(t, err, "%T", want)
	assert.Equalf(t, want, got, "%T", want)
}

// A codec writes and reads each field of its type, so a new field needs an attribute.
func TestEachFieldIsStored(t *testing.T) {
	post := filled[schema.Post](t, "Deleted") // no stored post is deleted
	back(t, post, post.Item(), schema.ParsePost)
	comment := filled[schema.Comment](t)
	back(t, comment, comment.Item(), schema.ParseComment)
	profile := filled[schema.Profile](t)
	profile.Former.User = profile.User // a former life is of the same user
	back(t, profile, profile.Item(), schema.ParseProfile)
	mute := filled[schema.Mute](t)
	muted, muter := mute.Items()
	back(t, mute, muted, schema.ParseMute)
	back(t, mute, muter, schema.ParseMute)
	block := filled[schema.Block](t)
	back(t, block, block.Item(), schema.ParseBlock)
	repost := filled[schema.Repost](t)
	back(t, repost, repost.Item(), schema.ParseRepost)
	bookmark := filled[schema.Bookmark](t)
	listed, byPost := bookmark.Items()
	back(t, bookmark, listed, schema.ParseBookmark)
	back(t, bookmark, byPost, schema.ParseBookmark)
	marker := filled[schema.Marker](t)
	back(t, marker, marker.Item(), schema.ParseMarker)
	record := filled[schema.Idempotency](t)
	back(t, record, record.Item(), schema.ParseIdempotency)
	for _, deleted := range []bool{false, true} {
		ref := filled[schema.PostRef](t, "Deleted", "Purged", "Unmade", "TakenDown")
		if deleted {
			ref.Deleted, ref.Purged, ref.Unmade = true, true, true
			ref.TakenDown = new(filled[schema.TakeDown](t))
		}
		back(t, ref, ref.Item(), schema.ParsePostRef)
	}
}
