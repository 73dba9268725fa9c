package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// whenAsked calls on once, before the read of a key.
type whenAsked struct {
	table.Store
	key table.Key
	on  func()
}

func (w *whenAsked) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if on := w.on; on != nil && in.Key == w.key {
		w.on = nil
		on()
	}
	return w.Store.Get(ctx, in)
}

func (w *whenAsked) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if on := w.on; on != nil && q.PK == w.key.PK {
		w.on = nil
		on()
	}
	return w.Store.Query(ctx, q)
}

// An import accepts an export beside each of these changes, which a user makes when the export comes to a partition.
func TestAnExportBesideAChangeIsImported(t *testing.T) {
	t.Parallel()
	newPost := func(t *testing.T, s domain) string {
		t.Helper()
		p, err := s.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "new"}})
		require.NoError(t, err)
		return p.ID
	}
	for name, tt := range map[string]struct {
		at     table.Key
		change func(t *testing.T, s domain, post string)
	}{
		"a user is removed whom others name": {schema.ProfileKey("cid"), func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.DeleteProfile(t.Context(), "cid"))
		}},
		"a user is removed before the follows": {table.Key{PK: schema.FollowingPK("cid")}, func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.DeleteProfile(t.Context(), "cid"))
		}},
		"a bookmarked post is deleted": {table.Key{PK: schema.PostsPK("bob")}, func(t *testing.T, s domain, post string) {
			t.Helper()
			require.NoError(t, s.DeletePost(t.Context(), "bob", post))
		}},
		"a bookmarked post is deleted after it was written": {table.Key{PK: schema.BookmarksPK("ann")}, func(t *testing.T, s domain, post string) {
			t.Helper()
			require.NoError(t, s.DeletePost(t.Context(), "bob", post))
		}},
		"a new post is bookmarked": {table.Key{PK: schema.PostsPK("cid")}, func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.Bookmark(t.Context(), "cid", newPost(t, s)))
		}},
		"a reposted post is deleted before it is written": {table.Key{PK: schema.PostsPK("bob")}, func(t *testing.T, s domain, post string) {
			t.Helper()
			_, err := s.Repost(t.Context(), "ann", post)
			require.NoError(t, err)
			require.NoError(t, s.DeletePost(t.Context(), "bob", post))
		}},
		"a post that was reposted and quoted is deleted before it is written": {table.Key{PK: schema.PostsPK("bob")}, func(t *testing.T, s domain, post string) {
			t.Helper()
			require.NoError(t, s.DeletePost(t.Context(), "bob", post))
		}},
		"the author of a post that was reposted and quoted is removed": {table.Key{PK: schema.PostsPK("bob")}, func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.DeleteProfile(t.Context(), "bob"))
		}},
		"a repost is made again": {table.Key{PK: schema.PostsPK("cid")}, func(t *testing.T, s domain, post string) {
			t.Helper()
			require.NoError(t, s.EndRepost(t.Context(), "ann", post))
			_, err := s.Repost(t.Context(), "ann", post)
			require.NoError(t, err)
		}},
		"a block follows a follow": {table.Key{PK: schema.FollowingPK("ann")}, func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.Block(t.Context(), "cid", "ann"))
		}},
		"a follow follows a block": {table.Key{PK: schema.FollowingPK("ann")}, func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.Unblock(t.Context(), "dan", "ann"))
			require.NoError(t, s.Follow(t.Context(), "ann", "dan"))
		}},
		"a user comes back": {table.Key{PK: schema.FollowingPK("ann")}, func(t *testing.T, s domain, _ string) {
			t.Helper()
			require.NoError(t, s.DeleteProfile(t.Context(), "cid"))
			_, err := s.PutProfile(t.Context(), "cid", feed.ProfileInput{Name: "Cid again"})
			require.NoError(t, err)
			_, err = s.CreatePost(t.Context(), "cid", feed.PostInput{Content: feed.Content{Text: "ahead of the clock"}})
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here := tabletest.NewMemory()
			_, err := transfer.Import(t.Context(), config(here), []string{file(t, append(network(),
				rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(10 * day)},
				rec{"type": "block", "user_id": "dan", "other_id": "ann", "time": ago(8 * day)},
				rec{"type": "bookmark", "post_id": "b-new", "user_id": "ann", "time": ago(day)},
				rec{"type": "repost", "id": "r", "post_id": "b-new", "user_id": "ann", "time": ago(day)},
				rec{"type": "post", "id": "q", "quote_of": "b-new", "author_id": "ann", "text": "quote", "time": ago(day)},
				rec{"type": "follow", "follower_id": "ann", "author_id": "cid", "time": ago(day)})...)})
			require.NoError(t, err)
			s := service(here, today)
			posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "bob", feed.PostRange{}, page.Request{})
			require.NoError(t, err)
			var out bytes.Buffer
			beside := &whenAsked{here, tt.at, func() { tt.change(t, s, posts.Items[0].ID) }}
			require.NoError(t, transfer.Export(t.Context(), config(beside), &out))
			require.Nil(t, beside.on, "the change was made")
			imported(t, out.String(), today)
		})
	}
}

// imported imports lines into an empty table.
func imported(t *testing.T, lines string, now time.Time) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(lines), 0o600))
	cfg := config(tabletest.NewMemory())
	cfg.Now = func() time.Time { return now }
	_, err := transfer.Import(t.Context(), cfg, []string{name})
	if bad, ok := errors.AsType[*transfer.InvalidError](err); ok {
		t.Log(bad.Faults)
	}
	require.NoError(t, err, "%s", lines)
}
