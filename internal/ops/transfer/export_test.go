package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func export(t *testing.T, store table.Store) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, transfer.Export(t.Context(), config(store), &out))
	return out.String()
}

func TestAnExportImportedElsewhereIsExportedAlike(t *testing.T) {
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, network()...)})
	require.NoError(t, err)
	first := export(t, here)
	assert.Equal(t, 16, strings.Count(first, "\n"), first)

	name := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(first), 0o600))
	_, err = transfer.Import(t.Context(), config(there), []string{name})
	require.NoError(t, err)
	assert.Equal(t, first, export(t, there))
	push, pull := texts(t, service(there, today.Add(time.Hour)), "cid")
	assert.Equal(t, []string{"this week", "bob's"}, push)
	assert.Equal(t, push, pull)
}

func TestAnExportHasNothingThatWasDeleted(t *testing.T) {
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	s := service(store, today)
	posts, err := s.PostsByUser(t.Context(), "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	require.NoError(t, s.DeletePost(t.Context(), "ann", posts.Items[1].ID))
	require.NoError(t, s.Unfollow(t.Context(), "cid", "bob"))
	all := export(t, store)
	assert.NotContains(t, all, posts.Items[1].ID)
	assert.NotContains(t, all, `"author_id":"bob","follower_id":"cid"`)
	assert.Equal(t, 10, strings.Count(all, "\n"), all)
}

func TestAnExportOfAUserHasAllThatIsTheUsers(t *testing.T) {
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	for user, want := range map[string]map[string]int{
		"ann": {"user": 1, "follow": 2, "post": 2},
		"cid": {"user": 1, "follow": 2, "comment": 1, "like": 2, "bookmark": 2, "marker": 1},
	} {
		var out bytes.Buffer
		require.NoError(t, transfer.ExportUser(t.Context(), config(store), user, &out))
		got := map[string]int{}
		for line := range strings.Lines(out.String()) {
			kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"type":"`), `"`)
			got[kind]++
			assert.Contains(t, line, `"`+user+`"`)
		}
		assert.Equal(t, want, got, user)
	}
	assert.Error(t, transfer.ExportUser(t.Context(), config(store), "nobody", &bytes.Buffer{}))
}
