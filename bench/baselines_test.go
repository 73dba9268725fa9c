//go:build e2e

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/bench/plain"
)

// couple is a graph in which ann follows bob.
var couple = graph{
	users:   2,
	name:    func(i int) string { return []string{"ann", "bob"}[i] },
	follows: func(yield func(follow) bool) { yield(follow{"ann", "bob"}) },
}

// baseline serves h and returns a connection to it.
func baseline(t *testing.T, h http.Handler) *caller {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := dial(strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.close()) })
	return c
}

// baselineEnv has a directory whose name is short enough for a socket.
func baselineEnv(t *testing.T) *env {
	t.Helper()
	dir, err := os.MkdirTemp("", "plain-") //nolint:usetesting // other users cannot read a directory of package testing
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return &env{Config: Config{Progress: t.Output()}, id: "test", dir: dir}
}

func TestTheBaselineOnRedisAnswersHomesAndCountsLikesOnce(t *testing.T) {
	e := baselineEnv(t)
	r, err := e.startRedis(t.Context(), e.dir, 0)
	require.NoError(t, err)
	require.NotNil(t, r, "redis-server is not installed: scripts/need.sh redis-server:redis-server")
	t.Cleanup(func() { assert.NoError(t, r.stop()) })
	db := redis.NewClient(&redis.Options{Addr: r.address})
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	require.NoError(t, plain.LoadRedis(t.Context(), db, couple.names(), couple.pairs))
	c := baseline(t, plain.OnRedis(db))

	var posts []string
	for i := range 3 {
		post, err := c.post("bob", fmt.Sprintf("post %d", i))
		require.NoError(t, err)
		posts = append(posts, post)
	}
	for _, user := range []string{"ann", "ann", "bob"} { // the second like of ann has no effect
		require.NoError(t, c.want(http.StatusAccepted, nil, http.MethodPut, "/v1/posts/"+posts[2]+"/like", user, nil))
	}
	require.NoError(t, c.want(http.StatusNotFound, nil, http.MethodPut, "/v1/posts/none/like", "ann", nil))
	var home struct {
		Items []struct {
			Post struct {
				ID, Text string
				AuthorID string `json:"author_id"`
			}
			Author    struct{ ID, Name string }
			LikeCount int64 `json:"like_count"`
			Liked     bool
		}
	}
	require.NoError(t, c.want(http.StatusOK, &home, http.MethodGet, "/v1/home?limit=2", "ann", nil))
	require.Len(t, home.Items, 2)
	newest := home.Items[0]
	assert.Equal(t, []string{posts[2], posts[1]}, []string{newest.Post.ID, home.Items[1].Post.ID})
	assert.Equal(t, []string{"post 2", "bob", "bob", "User bob"}, []string{newest.Post.Text, newest.Post.AuthorID, newest.Author.ID, newest.Author.Name})
	assert.EqualValues(t, 2, newest.LikeCount)
	assert.True(t, newest.Liked)
	assert.False(t, home.Items[1].Liked)
	var count struct{ Count int64 }
	require.NoError(t, c.want(http.StatusOK, &count, http.MethodGet, "/v1/posts/"+posts[2]+"/likes/count", "ann", nil))
	assert.EqualValues(t, 2, count.Count)
}

func TestTheBaselineOnPostgreSQLWritesPostCountAndEntriesOrNothing(t *testing.T) {
	e := baselineEnv(t)
	p, connection, err := e.startPostgres(t.Context(), e.dir)
	require.NoError(t, err)
	require.NotNil(t, p, "PostgreSQL is not installed: scripts/need.sh pg_ctlcluster:postgresql")
	t.Cleanup(func() { assert.NoError(t, p.stop()) })
	db, err := pgxpool.New(t.Context(), connection)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	require.NoError(t, plain.LoadPostgres(t.Context(), db, couple.names(), couple.pairs))
	c := baseline(t, plain.OnPostgres(db))

	post, err := c.post("bob", "hello, ann")
	require.NoError(t, err)
	require.NoError(t, c.want(http.StatusNotFound, nil, http.MethodPost, "/v1/posts", "nobody", []byte(`{"text":"hello"}`)))
	rows, err := db.Query(t.Context(), `SELECT 'post ' || author || ': ' || body FROM posts WHERE id = $1
		UNION ALL SELECT 'home of ' || reader FROM homes WHERE post = $1 UNION ALL SELECT id || ' has ' || posts FROM users
		UNION ALL SELECT count(*) || ' posts' FROM posts`, post)
	require.NoError(t, err)
	var got []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		got = append(got, line)
	}
	require.NoError(t, rows.Err())
	assert.ElementsMatch(t, []string{"post bob: hello, ann", "home of ann", "home of bob", "ann has 0", "bob has 1", "1 posts"}, got)
}
