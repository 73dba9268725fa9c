package main

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/datadir"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
)

// damageTable deletes one edge of a follow and changes a count, in a data directory that no process has open.
func damageTable(t *testing.T, path string) {
	t.Helper()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	store, err := embedded.Create(dir.Path("table"), embedded.Options{})
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), table.DeleteInput{Key: schema.FollowerKey("ann", "fan"), If: table.Exists{}})
	require.NoError(t, err)
	_, err = store.Update(t.Context(), table.UpdateInput{Key: schema.CountsKey("fan"), Add: []table.Attr{{Name: schema.AttrFollowing, Value: table.N(5)}}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(store.Close(), dir.Close()))
}

func TestVerifyFindsDamageAndMendsItWhileUpRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir)
	for _, user := range []string{"ann", "fan"} {
		_, err := p.as(t, user).PutMe(t.Context(), client.ProfileInput{Name: user})
		require.NoError(t, err)
	}
	require.NoError(t, p.as(t, "fan").Follow(t.Context(), "ann"))
	p.stop(t, os.Interrupt)
	damageTable(t, dir)
	p = up(t, dir)

	verify := func(code int, args ...string) (v verdict) {
		t.Helper()
		got, out, errs := result(t, nil, "fanfare", append([]string{"verify", "--admin", p.admin, "--json", "--rate", "100000"}, args...)...)
		assert.Equalf(t, code, got, "exit code; %s %s", out, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &v))
		return v
	}
	v := verify(1)
	assert.Equal(t, map[audit.Kind]int{"follow-half": 1, "user-count": 2}, v.Found)
	assert.Len(t, v.Findings, 3)
	assert.Equal(t, 3, v.Left)
	v = verify(0, "--repair")
	assert.Zero(t, v.Left)
	assert.Greater(t, v.Walks, 1)
	v = verify(0)
	assert.Empty(t, v.Findings)
	assert.Positive(t, v.Items)

	code, out, _ := result(t, nil, "fanfare", "verify", "--admin", p.admin)
	assert.Zero(t, code)
	assert.Contains(t, out, "0 findings left, 0 checks undecided")
	page, err := p.as(t, "ann").Followers("ann").Page(t.Context(), "", 10)
	require.NoError(t, err)
	assert.Len(t, page.Items, 1, "the follower is back")
}

// A walk over a large table takes hours, so the operator needs to know the remaining time.
func TestAWalkTellsHowMuchIsLeft(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]admin.VerifyEvent{
		"looked at 2500 of about 10000 items (25 %), 1 findings left; about 3m0s to go": {Progress: &audit.Summary{Items: 2500, Left: 1}, Total: 10_000},
		"looked at 9999 of about 10000 items (99 %), 0 findings left; about 1s to go":   {Progress: &audit.Summary{Items: 9999}, Total: 10_000},
		"looked at 12000 items, 0 findings left; the estimate of all items was 10000":   {Progress: &audit.Summary{Items: 12_000}, Total: 10_000},
		"looked at 0 items, 0 findings left; the estimate of all items was 10000":       {Progress: &audit.Summary{}, Total: 10_000},
		"looked at 7 items, 0 findings left; the number of all items is unknown":        {Progress: &audit.Summary{Items: 7}},
	} {
		assert.Equal(t, want, walked(e, time.Minute))
	}
}

// uncount deletes the count of a post, and the end of the incarnation that counted the post's like.
// Then the table looks as if the incarnation had written the stamp but not the flush.
func uncount(t *testing.T, path, post string) {
	t.Helper()
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	store, err := embedded.Create(dir.Path("table"), embedded.Options{})
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), table.DeleteInput{Key: schema.LikeCountKey(post), If: table.Exists{}})
	require.NoError(t, err)
	res, err := store.Get(t.Context(), table.GetInput{Key: schema.LikeKey(post, "fan", 1), Consistent: true})
	require.NoError(t, err)
	like, err := schema.ParseLike(*res.Item)
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), table.DeleteInput{Key: schema.LikeEndKey(like.Flush.Inc), If: table.Exists{}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(store.Close(), dir.Close()))
}

func TestVerifyCountsTheLikesThatARestoreLeftUncounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := up(t, dir)
	for _, user := range []string{"ann", "fan"} {
		_, err := p.as(t, user).PutMe(t.Context(), client.ProfileInput{Name: user})
		require.NoError(t, err)
	}
	post, err := p.as(t, "ann").CreatePost(t.Context(), client.PostInput{Text: "hello"})
	require.NoError(t, err)
	require.NoError(t, p.as(t, "fan").Like(t.Context(), post.ID))
	likes := func() int {
		count, err := p.as(t, "ann").LikeCount(t.Context(), post.ID)
		require.NoError(t, err)
		return int(count.Count)
	}
	until(t, "the count", func() bool { return likes() == 1 })
	p.stop(t, os.Interrupt)
	uncount(t, dir, post.ID)
	p = up(t, dir)
	require.Zero(t, likes())

	verify := func(code int, args ...string) string {
		t.Helper()
		got, out, errs := result(t, nil, "fanfare", append([]string{"verify", "--admin", p.admin, "--rate", "100000"}, args...)...)
		assert.Equalf(t, code, got, "exit code; %s %s", out, errs)
		return out
	}
	now := time.Now().Format(time.RFC3339)
	assert.Contains(t, verify(0), "0 findings left")
	assert.Contains(t, verify(1, "--after-restore", now), "like-uncounted  p#"+post.ID+"#likecount / count: 1 actions are stored and not counted")
	assert.Zero(t, likes())
	assert.Contains(t, verify(0, "--after-restore", now, "--repair"), "0 findings left")
	assert.Equal(t, 1, likes())
	assert.Contains(t, verify(0, "--after-restore", now), "0 findings left")
}

func TestVerifyRefusesWrongUse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--rate", "0"}, {"POST"}, {"--after-restore", "yesterday"}, {"--after-restore", "2026-11-22"}, {"--after-restore", ""},
		{"--after-restore", time.Now().Add(time.Hour).Format(time.RFC3339)},
	} {
		code, _, errs := result(t, nil, "fanfare", append([]string{"verify"}, args...)...)
		assert.Equal(t, 2, code, args)
		assert.NotEmpty(t, errs)
	}
}
