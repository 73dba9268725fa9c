package transfer_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/table/tabletest"
)

// ending returns the network with two more posts that have an end. The end of one of these posts has passed.
func ending() []any {
	return append(network(),
		rec{"type": "post", "id": "story", "author_id": "ann", "text": "tonight", "time": ago(2 * time.Hour), "expires_at": ago(-22 * time.Hour)},
		rec{"type": "comment", "id": "c2", "post_id": "story", "author_id": "bob", "text": "nice", "time": ago(time.Hour)},
		rec{"type": "like", "post_id": "story", "user_id": "bob", "time": ago(time.Hour)},
		rec{"type": "bookmark", "post_id": "story", "user_id": "bob", "time": ago(time.Hour)},
		rec{"type": "post", "id": "over", "author_id": "ann", "text": "last night", "time": ago(30 * time.Hour), "expires_at": ago(6 * time.Hour)},
		rec{"type": "comment", "id": "c3", "post_id": "over", "author_id": "bob", "text": "gone", "time": ago(29 * time.Hour)},
		rec{"type": "like", "post_id": "over", "user_id": "bob", "time": ago(29 * time.Hour)},
		rec{"type": "bookmark", "post_id": "over", "user_id": "bob", "time": ago(29 * time.Hour)})
}

// I15: if the end of a post has passed, neither an import nor an export has the post, or a record about the post.
func TestPostsWithAnEndGoInAndOut(t *testing.T) {
	here := tabletest.NewMemory()
	name := file(t, ending()...)
	for range 2 {
		_, err := transfer.Import(t.Context(), config(here), []string{name})
		require.NoError(t, err)
	}
	s := service(here, today)
	ann, err := s.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.EqualValues(t, 2, ann.Counts.Posts)
	push, pull := texts(t, s, "cid")
	assert.Equal(t, []string{"tonight", "this week", "bob's"}, push)
	assert.Equal(t, push, pull)
	posts, err := s.PostsByUser(t.Context(), "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	assert.Equal(t, today.Add(22*time.Hour), posts.Items[0].ExpiresAt)

	first := export(t, here)
	assert.Contains(t, first, `"expires_at":"`+ago(-22*time.Hour)+`"`)
	assert.NotContains(t, first, "last night")
	assert.NotContains(t, first, "gone")
	there := tabletest.NewMemory()
	moved := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(moved, []byte(first), 0o600))
	_, err = transfer.Import(t.Context(), config(there), []string{moved})
	require.NoError(t, err)
	assert.Equal(t, first, export(t, there))

	later := config(here)
	later.Now = func() time.Time { return today.Add(22 * time.Hour) }
	_, err = transfer.Import(t.Context(), later, []string{name})
	require.NoError(t, err, "the post has ended since")
	push, _ = texts(t, service(here, later.Now()), "cid")
	assert.Equal(t, []string{"this week", "bob's"}, push)
}
