package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// An import counts reactions of each kind, and an export has each kind, even if the kind is not configured.
func TestKindsOfReactionGoInAndOut(t *testing.T) {
	t.Parallel()
	lines := append(network(),
		rec{"type": "like", "post_id": "p-new", "user_id": "bob", "kind": "love", "time": ago(day)},
		rec{"type": "like", "post_id": "p-new", "user_id": "ann", "kind": "like", "time": ago(day)},
		// If a user has two kinds at the same time, the same kind wins in any order of the lines.
		rec{"type": "like", "post_id": "p-old", "user_id": "ann", "kind": "wow", "time": ago(day)},
		rec{"type": "like", "post_id": "p-old", "user_id": "ann", "kind": "sad", "time": ago(day)},
	)
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	name := file(t, lines...)
	for range 2 { // the second import finds all records
		_, err := transfer.Import(t.Context(), config(here), []string{name})
		require.NoError(t, err)
	}
	s := service(here, today)
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	res, err := here.Get(t.Context(), table.GetInput{Key: schema.LikeCountKey(posts.Items[0].ID)})
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"like": 2, "love": 1}, schema.ParseLikeCount(res.Item).Kinds)
	reaction, err := s.ReactionOf(t.Context(), access.Viewer{}, posts.Items[1].ID, "ann")
	require.NoError(t, err)

	out := export(t, here)
	assert.Equal(t, 1, strings.Count(out, `"kind":"love"`), out)
	assert.Zero(t, strings.Count(out, `"kind":"like"`), out)
	copied := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(copied, []byte(out), 0o600))
	_, err = transfer.Import(t.Context(), config(there), []string{copied})
	require.NoError(t, err)
	assert.Equal(t, out, export(t, there))
	var own bytes.Buffer
	require.NoError(t, transfer.ExportUser(t.Context(), config(there), "bob", &own))
	assert.Contains(t, own.String(), `"user_id":"bob","kind":"love"`)

	lines[len(lines)-1], lines[len(lines)-2] = lines[len(lines)-2], lines[len(lines)-1]
	again := tabletest.NewMemory()
	_, err = transfer.Import(t.Context(), config(again), []string{file(t, lines...)})
	require.NoError(t, err)
	same, err := service(again, today).ReactionOf(t.Context(), access.As("ann"), posts.Items[1].ID, "ann")
	require.NoError(t, err)
	assert.Equal(t, reaction, same)
}

// An import notices if the count of a kind differs from the reactions of this kind.
func TestAnImportVerifiesEachKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		name := file(t, append(network(), rec{"type": "like", "post_id": "p-new", "user_id": "bob", "kind": "love", "time": ago(day)})...)
		_, err := transfer.Import(t.Context(), config(store), []string{name})
		require.NoError(t, err)
		posts, err := service(store, today).PostsByUser(t.Context(), access.As("ann"), "ann", feed.PostRange{}, page.Request{})
		require.NoError(t, err)
		_, err = store.Update(t.Context(), table.UpdateInput{Key: schema.LikeCountKey(posts.Items[0].ID), Add: []table.Attr{
			{Name: schema.AttrLikes, Value: table.N(1)}, {Name: schema.AttrCount("love"), Value: table.N(-1)},
		}})
		require.NoError(t, err)
		_, err = transfer.Import(t.Context(), config(store), []string{name})
		var missing *transfer.MissingError
		require.ErrorAs(t, err, &missing)
		assert.Equal(t, []string{"likes of post " + posts.Items[0].ID + ": the count is like=2, and there are like=1 love=1"}, missing.Faults)
	})
}
