package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// Mutes and blocks are imported with their times and exported unchanged. Only the export of the user who
// made them has them.
func TestMutesAndBlocksAreImportedAndExported(t *testing.T) {
	t.Parallel()
	hidden := []any{
		rec{"type": "mute", "user_id": "cid", "other_id": "bob", "time": ago(9 * day)},
		rec{"type": "block", "user_id": "dan", "other_id": "ann", "time": ago(8 * day)},
		rec{"type": "block", "user_id": "ann", "other_id": "dan", "time": ago(7 * day)},
		rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(10 * day)},
	}
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	done, err := transfer.Import(t.Context(), config(here), []string{file(t, network()...), file(t, hidden...)})
	require.NoError(t, err)
	assert.Subset(t, done.Records, transfer.Counts{"mutes": 1, "blocks": 2})
	s := service(here, today)
	mutes, err := s.Mutes(t.Context(), "cid", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "bob", Since: today.Add(-9 * day)}}, mutes.Items)
	push, pull := texts(t, s, "cid")
	assert.Equal(t, []string{"this week"}, push)
	assert.Equal(t, push, pull)
	blocks, err := s.Blocks(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "dan", Since: today.Add(-7 * day)}}, blocks.Items)

	first := export(t, here)
	name := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(first), 0o600))
	_, err = transfer.Import(t.Context(), config(there), []string{name})
	require.NoError(t, err)
	assert.Equal(t, first, export(t, there))
	for user, want := range map[string][2]int{"ann": {0, 1}, "bob": {0, 0}, "cid": {1, 0}} {
		var out bytes.Buffer
		require.NoError(t, transfer.ExportUser(t.Context(), config(here), user, &out))
		assert.Equal(t, want, [2]int{strings.Count(out.String(), `"type":"mute"`), strings.Count(out.String(), `"type":"block"`)}, user)
	}
}

// The block is in the table, and a file has the follow but not the block.
func TestAFollowOverABlockOfTheTableIsAFault(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, append(network(),
		rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(10 * day)},
		rec{"type": "block", "user_id": "dan", "other_id": "ann", "time": ago(8 * day)})...)})
	require.NoError(t, err)
	bad := file(t,
		rec{"type": "follow", "follower_id": "dan", "author_id": "bob", "time": ago(day)},
		rec{"type": "follow", "follower_id": "ann", "author_id": "dan", "time": ago(day)},
		rec{"type": "follow", "follower_id": "dan", "author_id": "ann", "time": ago(day)},
	)
	_, err = transfer.Import(t.Context(), config(&dying{Store: store, left: 1, kill: func() { t.Error("written") }}), []string{bad})
	var invalid *transfer.InvalidError
	require.ErrorAs(t, err, &invalid)
	assert.ElementsMatch(t, []string{
		bad + ":2: author_id: there is a block between the two users in the table",
		bad + ":3: author_id: there is a block between the two users in the table",
	}, invalid.Faults)
}

func TestMutesAndBlocksAreCheckedBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	lines := append(network(),
		rec{"type": "block", "user_id": "ann", "other_id": "bob", "time": ago(day)},
		rec{"type": "mute", "user_id": "eve", "other_id": "ann", "time": ago(day)},
	)
	name := file(t, lines...)
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{name})
	var invalid *transfer.InvalidError
	require.ErrorAs(t, err, &invalid)
	assert.ElementsMatch(t, []string{
		name + ":12: author_id: there is a block between bob and ann in the files",
		name + ":19: user_id: user eve is neither in the files nor in the table",
	}, invalid.Faults)
	many := network()
	for n := range feed.MaxMutes + 1 {
		many = append(many, rec{"type": "mute", "user_id": "ann", "other_id": strings.Repeat("x", 1+n%60) + "y", "time": ago(day)})
	}
	many = append(many, rec{"type": "block", "user_id": "ann", "other_id": "ann", "time": ago(day)}, rec{"type": "mute", "user_id": "ann", "time": ago(day)})
	name = file(t, many...)
	_, err = transfer.Import(t.Context(), config(store), []string{name})
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, []string{
		name + ":1018: user_id: ann mutes more than 1000 users",
		name + ":1019: other_id: is the user's own id",
		name + ":1020: other_id: is missing",
	}, invalid.Faults)
	items, _, err := table.Collect(store.Query(t.Context(), table.Query{PK: schema.MarksPK("ann")}), 0)
	require.NoError(t, err)
	assert.Empty(t, items, "nothing is written")
}

// An export has the block and the mute against a removed user, and an import accepts both. So they hold
// when the user returns in the new system.
func TestAnExportBringsTheBlocksOfRemovedUsers(t *testing.T) {
	t.Parallel()
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, append(network(),
		rec{"type": "user", "id": "rex", "name": "Rex", "time": ago(10 * day)},
		rec{"type": "block", "user_id": "ann", "other_id": "rex", "time": ago(8 * day)},
		rec{"type": "block", "user_id": "rex", "other_id": "bob", "time": ago(8 * day)},
		rec{"type": "mute", "user_id": "cid", "other_id": "rex", "time": ago(8 * day)})...)})
	require.NoError(t, err)
	s := service(here, today)
	event, err := s.AskToForget(t.Context(), "rex")
	require.NoError(t, err)
	for left := 1; left > 0; {
		done, err := s.Forget(t.Context(), "rex", event, 500)
		require.NoError(t, err)
		left = done.Sum()
	}
	first := export(t, here)
	assert.Equal(t, []int{1, 1, 2}, []int{strings.Count(first, `"type":"mute"`), strings.Count(first, `"type":"block"`), strings.Count(first, `"rex"`)})
	for _, user := range []string{"ann", "cid"} {
		var out bytes.Buffer
		require.NoError(t, transfer.ExportUser(t.Context(), config(here), user, &out))
		assert.Contains(t, out.String(), `"other_id":"rex"`, user)
	}
	name := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(first), 0o600))
	for range 2 { // an import may be repeated
		_, err = transfer.Import(t.Context(), config(there), []string{name})
		require.NoError(t, err)
	}
	assert.Equal(t, first, export(t, there))
	s = service(there, today)
	_, err = s.PutProfile(t.Context(), "rex", feed.ProfileInput{Name: "Rex"})
	require.NoError(t, err)
	err = s.Follow(t.Context(), "rex", "ann")
	require.ErrorContains(t, err, "block")
	require.NoError(t, s.Follow(t.Context(), "rex", "bob"))
	mutes, err := s.Mutes(t.Context(), "cid", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "rex", Since: today.Add(-8 * day)}}, mutes.Items)
}
