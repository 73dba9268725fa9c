package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// withReferences returns the network with reposts and quotes, before the posts to which they refer. The two quotes are a
// chain, whose lines are in the reverse order of their times.
func withReferences() []any {
	return append([]any{
		rec{"type": "repost", "id": "r-ann", "post_id": "b-new", "user_id": "ann", "time": ago(day)},
		rec{"type": "repost", "id": "r-cid", "post_id": "q1", "user_id": "cid", "time": ago(25 * time.Hour)},
		rec{"type": "repost", "id": "r-old", "post_id": "p-old", "user_id": "bob", "time": ago(700 * day)},
		rec{"type": "post", "id": "q2", "quote_of": "q1", "author_id": "ann", "text": "second quote", "time": ago(time.Hour)},
		rec{"type": "post", "id": "q1", "quote_of": "p-new", "author_id": "bob", "text": "first quote", "time": ago(2 * day)},
	}, network()...)
}

// shownOf returns the items of a home as their texts, with the texts of the posts to which they refer.
func shownOf(t *testing.T, s domain, user string) (shown []string) {
	t.Helper()
	list, err := s.Home(t.Context(), user, home.Query{}, page.Request{Limit: 100})
	require.NoError(t, err)
	for _, it := range list.Items {
		text := it.Post.Text
		if it.Of != nil {
			text += "(" + it.Of.Post.Text + ")"
		}
		shown = append(shown, text)
	}
	return shown
}

// repostsOf returns the numbers of reposts of posts.
func repostsOf(t *testing.T, store table.Store, posts ...string) (counts []int64) {
	t.Helper()
	for _, post := range posts {
		got, err := store.Get(t.Context(), table.GetInput{Key: schema.LikeCountKey(post), Consistent: true})
		require.NoError(t, err)
		counts = append(counts, schema.ParseLikeCount(got.Item).Reposts())
	}
	return counts
}

func TestReferencesGoInAndOut(t *testing.T) {
	t.Parallel()
	here, there := tabletest.NewMemory(), tabletest.NewMemory()
	name := file(t, withReferences()...)
	for range 2 {
		done, err := transfer.Import(t.Context(), config(here), []string{name})
		require.NoError(t, err)
		assert.Equal(t, 3, done.Records["reposts"])
		assert.Zero(t, done.LeftOut.Quoted)
	}
	s := service(here, today.Add(time.Hour))
	assert.Equal(t, []string{"second quote(first quote)", "(bob's)", "(first quote)", "this week"}, shownOf(t, s, "cid"))
	bob, err := s.User(t.Context(), "bob")
	require.NoError(t, err)
	assert.EqualValues(t, 3, bob.Counts.Posts, "a repost counts as a post")
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "bob", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	again, err := s.Repost(t.Context(), "ann", posts.Items[1].ID)
	require.NoError(t, err)
	assert.Equal(t, today.Add(-day), again.CreatedAt, "the imported repost is the one repost")

	assert.Equal(t, []int64{1, 0, 1}, repostsOf(t, here, posts.Items[1].ID, posts.Items[2].ID, posts.Items[0].ID), "an import that is repeated counts once")

	first := export(t, here)
	assert.Equal(t, []int{3, 2}, []int{strings.Count(first, `"type":"repost"`), strings.Count(first, `"quote_of"`)})
	moved := filepath.Join(t.TempDir(), "export.jsonl")
	require.NoError(t, os.WriteFile(moved, []byte(first), 0o600))
	for range 2 {
		_, err = transfer.Import(t.Context(), config(there), []string{moved})
		require.NoError(t, err)
		assert.Equal(t, first, export(t, there))
	}
	assert.Empty(t, cmp.Diff(records(t, here), records(t, there)), "the items of the first table (-) and of the second (+)")
	var own strings.Builder
	require.NoError(t, transfer.ExportUser(t.Context(), config(there), "cid", &own))
	assert.Equal(t, 1, strings.Count(own.String(), `"type":"repost"`))
}

// An import that dies at any write, before or after its effect, is continued by the next import.
func TestAnImportOfReferencesThatDiesGoesOn(t *testing.T) {
	t.Parallel()
	name := file(t, withReferences()...)
	synctest.Test(t, func(t *testing.T) {
		whole := tabletest.NewMemory()
		_, err := transfer.Import(t.Context(), config(whole), []string{name})
		require.NoError(t, err)
		want := export(t, whole)
		for died, n := true, 0; died; n++ {
			store := tabletest.NewMemory()
			ctx, kill := context.WithCancel(t.Context())
			process := &dying{Store: store, left: 1 + n/2, after: n%2 == 1, kill: kill}
			_, _ = transfer.Import(ctx, config(process), []string{name}) // the process dies, or the import after it shows the result
			kill()
			died = process.left <= 0
			done, err := transfer.Import(t.Context(), config(store), []string{name})
			require.NoError(t, err, "after write %d", n)
			require.Zero(t, done.LeftOut.Quoted)
			require.Equal(t, want, export(t, store))
		}
	})
}

// What users did in the table stays: an end of a repost, and another repost of the same post.
func TestAnImportLeavesTheRepostsOfTheTable(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	name := file(t, withReferences()...)
	_, err := transfer.Import(t.Context(), config(here), []string{name})
	require.NoError(t, err)
	s := service(here, today)
	of := map[string]string{}
	for line := range strings.Lines(export(t, here)) {
		if rest, is := strings.CutPrefix(line, `{"type":"repost","id":"`); is {
			of[rest[26:]] = rest[26+len(`","post_id":"`):][:26]
		}
	}
	require.Len(t, of, 3)
	for rest, post := range of {
		if strings.Contains(rest, `"bob"`) {
			require.NoError(t, s.EndRepost(t.Context(), "bob", post))
		}
		if strings.Contains(rest, `"ann"`) {
			require.NoError(t, s.EndRepost(t.Context(), "ann", post))
			_, err := s.Repost(t.Context(), "ann", post)
			require.NoError(t, err)
		}
	}
	before := export(t, here)
	for range 2 {
		done, err := transfer.Import(t.Context(), config(here), []string{name})
		require.NoError(t, err)
		assert.Equal(t, before, export(t, here))
		assert.Equal(t, 2, done.LeftOut.Deleted["reposts"], "both reposts have tombstones")
	}
}

// A user who reposted a post before the import of another repost keeps the first one.
func TestAnImportMakesNoSecondRepost(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, network()...)})
	require.NoError(t, err)
	s := service(here, today)
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "bob", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	r, err := s.Repost(t.Context(), "ann", posts.Items[0].ID)
	require.NoError(t, err)
	for range 2 {
		done, err := transfer.Import(t.Context(), config(here), []string{file(t, withReferences()...)})
		require.NoError(t, err)
		assert.Equal(t, 3, done.Records["reposts"], "the first repost counts as imported")
		ann, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
		require.NoError(t, err)
		var reposts []string
		for _, p := range ann.Items {
			if p.RepostOf != "" {
				reposts = append(reposts, p.ID)
			}
		}
		assert.Equal(t, []string{r.ID}, reposts)
		likes, _, err := table.Collect(here.Query(t.Context(), table.Query{PK: schema.LikesPK(r.RepostOf, 0, 1)}), 0)
		require.NoError(t, err)
		for _, it := range likes {
			like, err := schema.ParseLike(it)
			require.NoError(t, err)
			assert.False(t, messages.IsReposter(like.User), "a repost that was left out does not count: %s", like.User)
		}
	}
}

// An import into the table of a user who was removed long ago makes the user's one repost, which a later call finds.
func TestARepostOfAFormerLifeIsTheOneRepost(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	name := file(t, withReferences()...)
	_, err := transfer.Import(t.Context(), config(here), []string{name})
	require.NoError(t, err)
	require.NoError(t, service(here, today).DeleteProfile(t.Context(), "ann"))
	for _, pk := range []string{schema.RepostsPK("ann"), schema.PostsPK("ann")} { // as the removal does
		items, _, err := table.Collect(here.Query(t.Context(), table.Query{PK: pk}), 0)
		require.NoError(t, err)
		for _, it := range items {
			_, err = here.Delete(t.Context(), table.DeleteInput{Key: it.Key})
			require.NoError(t, err)
			if _, post, ok := schema.PostOfKey(it.Key); ok {
				_, err = here.Delete(t.Context(), table.DeleteInput{Key: schema.PostByIDKey(post)})
				require.NoError(t, err)
			}
		}
	}
	cfg := config(here)
	cfg.Now = func() time.Time { return today.Add(2 * time.Hour) }
	_, err = transfer.Import(t.Context(), cfg, []string{name})
	if err != nil { // the counts of the removed follows are not the subject of this test
		require.ErrorAs(t, err, new(*transfer.MissingError))
	}
	posts, err := service(here, cfg.Now()).PostsByUser(t.Context(), access.As("bob"), "bob", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	post := posts.Items[1]
	require.Equal(t, "bob's", post.Text)
	r, err := service(here, cfg.Now()).Repost(t.Context(), "ann", post.ID)
	require.NoError(t, err)
	assert.Equal(t, today.Add(-day), r.CreatedAt)
}

// A quote of a post that is gone keeps its text, in an export and in an import.
func TestAQuoteOfADeletedPostKeepsItsText(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	lines := append(network(), rec{"type": "post", "id": "q", "quote_of": id.Max, "author_id": "ann", "text": "quote", "time": ago(time.Hour)})
	done, err := transfer.Import(t.Context(), config(here), []string{file(t, lines...)})
	require.NoError(t, err)
	assert.Equal(t, 1, done.LeftOut.Quoted)
	assert.Contains(t, shownOf(t, service(here, today), "ann"), "quote")
	s := service(here, today)
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "bob", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	_, err = s.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "another"}, QuoteOf: posts.Items[0].ID})
	require.NoError(t, err)
	assert.Contains(t, export(t, here), `"quote_of":"`+posts.Items[0].ID)
	require.NoError(t, s.DeletePost(t.Context(), "bob", posts.Items[0].ID))
	last := export(t, here)
	assert.NotContains(t, last, posts.Items[0].ID)
	assert.Contains(t, last, "another")
	imported(t, last, today)
}

func TestFaultsOfReferencesAreNamed(t *testing.T) {
	t.Parallel()
	here := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(here), []string{file(t, withReferences()...)})
	require.NoError(t, err)
	_, rest, _ := strings.Cut(export(t, here), `{"type":"repost","id":"`)
	stored := rest[:26]
	name := file(t,
		rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(day)},
		rec{"type": "post", "id": "p", "author_id": "dan", "text": "x", "time": ago(day)},
		rec{"type": "repost", "id": "r", "post_id": "p", "user_id": "dan", "time": ago(time.Hour)},
		rec{"type": "repost", "id": "p", "post_id": "p", "user_id": "dan", "time": ago(time.Hour)},
		rec{"type": "post", "id": "r", "author_id": "dan", "text": "x", "time": ago(time.Hour)},
	)
	var invalid *transfer.InvalidError
	_, err = transfer.Import(t.Context(), config(here), []string{name})
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, []string{name + `:4: id: "p" is the id of an earlier post`, name + `:5: id: "r" is the id of an earlier repost`}, invalid.Faults)
	name = file(t,
		rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(day)},
		rec{"type": "post", "id": "p", "author_id": "dan", "text": "x", "time": ago(day)},
		rec{"type": "repost", "id": "r", "post_id": "p", "user_id": "dan", "time": ago(2 * day)},
		rec{"type": "repost", "id": "r2", "post_id": "r", "user_id": "dan", "time": ago(time.Hour)},
		rec{"type": "repost", "id": "r3", "post_id": "nobody", "user_id": "eve", "time": ago(time.Hour)},
		rec{"type": "post", "id": "q", "quote_of": "nobody", "author_id": "dan", "text": "x", "time": ago(day)},
		rec{"type": "like", "post_id": stored, "user_id": "dan", "time": ago(time.Hour)},
		rec{"type": "post", "id": "q2", "quote_of": stored, "author_id": "dan", "text": "x", "time": ago(day)},
	)
	_, err = transfer.Import(t.Context(), config(here), []string{name})
	require.ErrorAs(t, err, &invalid)
	assert.ElementsMatch(t, []string{
		name + `:3: time: is not after the time of the reposted post`,
		name + `:4: post_id: "r" is a repost: name its original`,
		name + `:5: post_id: "nobody" is not the id of a post of the files`,
		name + `:5: user_id: user eve is neither in the files nor in the table`,
		name + `:6: quote_of: "nobody" is not the id of a post of the files`,
		name + `:7: post_id: "` + stored + `" is a repost: name its original`,
	}, invalid.Faults)
}
