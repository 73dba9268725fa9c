package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/likeagg"
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
	t.Parallel()
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, network()...)})
	require.NoError(t, err)
	first := export(t, here)
	assert.Equal(t, 16, strings.Count(first, "\n"), first)
	assert.NotContains(t, first, `"from"`, "these follows begin with any post")
	assert.Equal(t, first, export(t, oneByOne{here}))

	name := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(first), 0o600))
	_, err = transfer.Import(t.Context(), config(there), []string{name})
	require.NoError(t, err)
	assert.Equal(t, first, export(t, there))
	push, pull := texts(t, service(there, today.Add(time.Hour)), "cid")
	assert.Equal(t, []string{"this week", "bob's"}, push)
	assert.Equal(t, push, pull)
}

// oneByOne is a table that returns scans in pages of one item.
type oneByOne struct{ table.Store }

func (o oneByOne) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	in.PageSize = 1
	return o.Store.Scan(ctx, in)
}

// A follow that began with a post begins with the same post in the new table.
func TestAFollowKeepsItsFirstPost(t *testing.T) {
	t.Parallel()
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	from := id.Floor(today.Add(-2 * day))
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, append(network(),
		rec{"type": "follow", "follower_id": "bob", "author_id": "cid", "from": from, "time": ago(day)})...)})
	require.NoError(t, err)
	first := export(t, here)
	assert.Equal(t, 1, strings.Count(first, `"from":"`+from+`"`), first)
	_, err = transfer.Import(t.Context(), config(there), []string{file(t, slices.Collect(asAny(strings.Lines(first)))...)})
	require.NoError(t, err)
	assert.Equal(t, first, export(t, there))
}

func asAny(lines iter.Seq[string]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for line := range lines {
			if !yield(line) {
				return
			}
		}
	}
}

// A like that was taken back stays stored for a while. A like of a user without a profile stays stored until a sweep.
func TestAnExportHasTheLivingLikesOfUsersOnly(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	posts, err := service(store, today).PostsByUser(t.Context(), access.As("ann"), "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	post := posts.Items[0].ID
	assert.Equal(t, 1, strings.Count(export(t, store), `{"type":"like","post_id":"`+post+`"`))
	cfg := likeagg.Config{Store: store, Now: func() time.Time { return today }, Window: 10 * time.Millisecond}
	require.NoError(t, likeagg.Direct(t.Context(), cfg, nil, func(_ context.Context, add func(likeagg.UserAction) error) error {
		return errors.Join(add(likeagg.UserAction{Post: post, User: "eve", Kind: "like", Version: id.Floor(today)}),
			add(likeagg.UserAction{Post: post, User: "cid", Version: id.Floor(today)}))
	}))
	assert.Zero(t, strings.Count(export(t, store), `{"type":"like","post_id":"`+post+`"`))
}

func TestAnExportHasNothingThatWasDeleted(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	s := service(store, today)
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	require.NoError(t, s.DeletePost(t.Context(), "ann", posts.Items[1].ID))
	require.NoError(t, s.Unfollow(t.Context(), "cid", "bob"))
	all := export(t, store)
	assert.NotContains(t, all, posts.Items[1].ID)
	assert.NotContains(t, all, `"author_id":"bob","follower_id":"cid"`)
	assert.Equal(t, 10, strings.Count(all, "\n"), all)
}

func TestAnExportOfAUserHasAllThatIsTheUsers(t *testing.T) {
	t.Parallel()
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

// Only the follower's own export has a silent follow.
func TestAnExportOfAUserHasNoSilentFollowsByOthers(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	everyThing(t, store)
	for user, want := range map[string]bool{"ann": false, "bob": true} {
		var out bytes.Buffer
		require.NoError(t, transfer.ExportUser(t.Context(), config(store), user, &out))
		assert.Equal(t, want, strings.Contains(out.String(), `"type":"follow"`), user)
	}
}

// The export of a user consists of lines of the whole export, byte for byte, and has no private lines of other
// users. Without the index of likes by user, it has all lines except the likes.
func TestAnExportOfAUserHasTheLinesOfTheWholeOne(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	lines := append(network(), rec{"type": "mute", "user_id": "bob", "other_id": "cid", "time": ago(day)}, rec{"type": "block", "user_id": "ann", "other_id": "gone", "time": ago(day)})
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, lines...)})
	require.NoError(t, err)
	all := slices.Collect(strings.Lines(export(t, store)))
	for _, user := range []string{"ann", "bob", "cid"} {
		var out, rest bytes.Buffer
		require.NoError(t, transfer.ExportUser(t.Context(), config(store), user, &out))
		var withoutLikes strings.Builder
		for line := range strings.Lines(out.String()) {
			assert.Contains(t, all, line)
			for _, kind := range []string{"mute", "block", "bookmark", "marker"} {
				if strings.HasPrefix(line, `{"type":"`+kind+`"`) {
					assert.Contains(t, line, `"user_id":"`+user+`"`)
				}
			}
			if !strings.HasPrefix(line, `{"type":"like"`) {
				withoutLikes.WriteString(line)
			}
		}
		off := config(store)
		off.LikesByUser = false
		missing, ok := errors.AsType[*fault.Error](transfer.ExportUser(t.Context(), off, user, &rest))
		require.True(t, ok)
		assert.Equal(t, fault.IndexOff, missing.Kind)
		assert.Equal(t, withoutLikes.String(), rest.String())
	}
}
