package transfer_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/likeagg"
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
		rec{"type": "bookmark", "post_id": "over", "user_id": "bob", "time": ago(29 * time.Hour)},
		rec{"type": "repost", "id": "r1", "post_id": "p-new", "user_id": "bob", "time": ago(time.Hour)},
		rec{"type": "repost", "id": "r2", "post_id": "over", "user_id": "bob", "time": ago(29 * time.Hour)})
}

// I15: if the end of a post has passed, neither an import nor an export has the post, or a record about the post.
func TestPostsWithAnEndGoInAndOut(t *testing.T) {
	t.Parallel()
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
	assert.Equal(t, []string{"", "tonight", "bob's"}, push, "bob's repost of this week")
	assert.Equal(t, push, pull)
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
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
	assert.Equal(t, []string{"", "bob's"}, push)
}

// An import reports the left-out records with the reasons. A second import leaves out the same records.
func TestAnImportCountsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	name := file(t, ending()...)
	for range 2 {
		done, err := transfer.Import(t.Context(), config(here), []string{name})
		require.NoError(t, err)
		assert.Equal(t, transfer.LeftOut{Ended: lost(1, 1, 1, 1, 1), Deleted: lost(0, 0, 0, 0, 0)}, done.LeftOut)
		assert.Subset(t, done.Records, lost(4, 1, 2, 4, 3))
	}
	s := service(here, today)
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	require.Equal(t, "this week", posts.Items[1].Text)
	require.NoError(t, s.DeletePost(t.Context(), "ann", posts.Items[1].ID))
	cfg := likeagg.Config{Store: here, Now: func() time.Time { return today }, Window: 10 * time.Millisecond}
	require.NoError(t, likeagg.Direct(t.Context(), cfg, nil, func(_ context.Context, add func(likeagg.UserAction) error) error {
		return add(likeagg.UserAction{Post: posts.Items[2].ID, User: "cid", Version: id.Floor(today)})
	}))
	later := config(here)
	later.Now = func() time.Time { return today.Add(22 * time.Hour) }
	done, err := transfer.Import(t.Context(), later, []string{name})
	require.NoError(t, err)
	assert.Equal(t, transfer.LeftOut{Ended: lost(2, 1, 2, 2, 2), Deleted: lost(1, 1, 0, 1, 0), TakenBack: 1}, done.LeftOut)
	assert.Subset(t, done.Records, lost(2, 0, 1, 1, 2))
}

// lost returns numbers of records about posts.
func lost(posts, reposts, comments, likes, bookmarks int) transfer.Counts {
	return transfer.Counts{"posts": posts, "reposts": reposts, "comments": comments, "likes": likes, "bookmarks": bookmarks}
}

// An export after the end of a post has no bookmark of the post, although the bookmark is stored until a sweep.
func TestAnExportHasNoBookmarkOfAnEndedPost(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, ending()...)})
	require.NoError(t, err)
	first := export(t, here)
	later := config(here)
	later.Now = func() time.Time { return today.Add(23 * time.Hour) }
	var out, own bytes.Buffer
	require.NoError(t, transfer.Export(t.Context(), later, &out))
	require.NoError(t, transfer.ExportUser(t.Context(), later, "bob", &own))
	assert.Equal(t, []int{3, 2, 0}, []int{strings.Count(first, `"type":"bookmark"`), strings.Count(out.String(), `"type":"bookmark"`), strings.Count(own.String(), `"type":"bookmark"`)})
	imported(t, out.String(), later.Now())
}
