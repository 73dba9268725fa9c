package transfer_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// everyThing writes a user, a post, a comment and each kind of edge with a value in each field.
func everyThing(t *testing.T, store table.Store) {
	t.Helper()
	full := func(in any) {
		t.Helper()
		for _, field := range reflect.VisibleFields(reflect.TypeOf(in)) {
			require.Falsef(t, reflect.ValueOf(in).FieldByIndex(field.Index).IsZero(), "set %s of %T in this test", field.Name, in)
		}
	}
	s := service(store, today.Add(-time.Hour))
	profile := feed.ProfileInput{Name: "Ann", Bio: "x", ImageURL: "https://img.example/a.png", Data: new(`{"a":1}`)}
	full(profile)
	for _, user := range []string{"ann", "bob", "cid"} {
		_, err := s.PutProfile(t.Context(), user, profile)
		require.NoError(t, err)
	}
	quoted, err := s.CreatePost(t.Context(), "bob", feed.PostInput{Content: feed.Content{Text: "x"}})
	require.NoError(t, err)
	in := feed.PostInput{
		QuoteOf: quoted.ID, Content: feed.Content{Text: "x", Images: []feed.Image{{URL: "https://img.example/b.png", Alt: "B", Width: new(3), Height: new(2)}}, Kind: "album", Data: `{"a":2}`, Mentions: []string{"bob"}, ExpiresAt: today.Add(day)}, IdempotencyKey: "k",
	}
	full(in)
	p, err := s.CreatePost(t.Context(), "ann", in)
	require.NoError(t, err)
	_, err = s.Repost(t.Context(), "bob", p.ID)
	require.NoError(t, err)
	_, err = s.EditPost(t.Context(), "ann", p.ID, feed.PostEdit{Text: new("y")})
	require.NoError(t, err)
	comment := feed.CommentInput{Text: "x", Data: `{"a":3}`, Mentions: []string{"bob"}}
	full(comment)
	_, err = s.AddComment(t.Context(), "bob", p.ID, comment)
	require.NoError(t, err)
	require.NoError(t, s.ImportMute(t.Context(), "ann", "bob", today.Add(-day)))
	require.NoError(t, s.ImportBlock(t.Context(), "ann", "cid", today.Add(-day)))
	require.NoError(t, s.ImportBookmark(t.Context(), "bob", p.ID, today.Add(-time.Minute)))
	require.NoError(t, s.ImportMarker(t.Context(), "bob", "home", "p", today.Add(-time.Minute)))
	follow := feed.PastFollow{Follower: "bob", Author: "ann", From: id.Floor(today.Add(-2 * day)), Since: today.Add(-day), Silent: true}
	full(follow)
	_, err = s.ImportFollow(t.Context(), follow)
	require.NoError(t, err)
}

// An export has each field of each kind of record, and an import writes the same items. So no field is lost on the way.
func TestEachFieldGoesOutAndIn(t *testing.T) {
	t.Parallel()
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	everyThing(t, here)
	first := export(t, here)
	for _, kind := range []string{"user", "follow", "mute", "block", "post", "repost", "comment", "bookmark", "marker"} {
		assert.Contains(t, first, `{"type":"`+kind+`"`)
	}
	name := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(first), 0o600))
	_, err := transfer.Import(t.Context(), config(there), []string{name})
	require.NoError(t, err)
	assert.Equal(t, first, export(t, there))
	assert.Empty(t, cmp.Diff(records(t, here), records(t, there)), "the items of the first table (-) and of the second (+)")
}

// records returns the items of records. It omits what a process adds to records: bylines, days of presence, counts with
// the names of aggregators, and items of deliveries, of homes, of lifetimes, of the log of changes and of Idempotency-Keys.
func records(t *testing.T, store table.Store) map[string]any {
	t.Helper()
	all := map[string]any{}
	page, err := store.Scan(t.Context(), table.ScanInput{})
	require.NoError(t, err)
	require.Zero(t, page.Next)
	added := regexp.MustCompile(`^(lifetimes|changed#.*|idem#.*|inc#.*|.*#like(count|list).*|.*#delivery|.*#timeline) |^u#\w+#home (presence|u#)`)
	for _, it := range page.Items {
		key := it.Key.PK + " " + it.Key.SK
		if added.MatchString(key) {
			continue
		}
		kept := map[string]any{}
		for _, a := range it.Attrs {
			kept[a.Name] = [2]any{a.Value.Str(), a.Value.Int()}
		}
		for _, name := range []string{schema.AttrBylineName, schema.AttrBylineImg, schema.AttrBylineV, schema.AttrUntil, schema.AttrUptoDay} {
			delete(kept, name)
		}
		all[key] = kept
	}
	return all
}
