package home

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/table/tabletest"
)

// A position of a stream contains the end of the stream's window, and the posts above that end, a
// hundred at most.
func TestPositionsOfStreamsAscend(t *testing.T) {
	post := func(n int) string { return id.Floor(time.UnixMilli(int64(n))) }
	window := func(n int) []string { // including the end of the window
		posts := make([]string, 1+n)
		for i := range posts {
			posts[i] = post(1 + i)
		}
		return posts
	}
	for name, c := range map[string]struct {
		posts []string
		ok    bool
	}{
		"no post and no end":   {[]string{""}, true},
		"posts without end":    {[]string{"", post(1), post(2)}, true},
		"an end alone":         {window(0), true},
		"one post":             {window(1), true},
		"a full window":        {window(windowPosts), true},
		"too many posts":       {window(windowPosts + 1), false},
		"nothing":              {nil, false},
		"a post below the end": {[]string{post(2), post(1)}, false},
		"a post at the end":    {[]string{post(2), post(2)}, false},
		"posts that descend":   {[]string{post(1), post(3), post(2)}, false},
		"a post twice":         {[]string{post(1), post(2), post(2)}, false},
	} {
		var raw []byte
		for _, p := range c.posts {
			raw = append(raw, id.Pack(p)...)
		}
		seen, ok := decodeStreamed(string(raw))
		assert.Equal(t, c.ok, ok, name)
		if ok {
			assert.Equal(t, c.posts[0], seen.floor, name)
			assert.Equal(t, c.posts[1:], seen.posts, name)
		}
		for _, part := range []int{1, id.PackedLen - 1} {
			_, ok := decodeStreamed(string(append(raw, make([]byte, part)...)))
			assert.Falsef(t, ok, "%s, and %d bytes", name, part)
		}
	}
}

// A stream that replays any number of posts keeps only the like counts of its window (I9).
func TestAStreamKeepsTheLikeCountsOfItsWindow(t *testing.T) {
	seen := &Streamed{likes: map[string]PostLikes{}}
	for n := range 10 * windowPosts {
		post := id.Floor(time.UnixMilli(int64(n)))
		seen.note([]feed.HomeItem{{Post: feed.Post{ID: post}, LikeCount: 1}}, []string{post})
	}
	assert.Len(t, seen.likes, windowPosts)
}

// FuzzGathering checks that no state of a gathering panics. An accepted state is encoded to the same
// bytes, and has descending ids, because the home relies on that order.
func FuzzGathering(f *testing.F) {
	long := gathering{before: id.Max, after: strings.Repeat("u", 64), end: id.Min}
	for i := range gatherPosts {
		long.posts = append(long.posts, id.Floor(time.UnixMilli(int64(gatherPosts-i+1))))
	}
	long.end = long.posts[gatherPosts-1]
	for _, at := range []gathering{{}, {after: "ann"}, {after: "auth0|" + strings.Repeat("5", 58)}, {before: id.Max, after: everyFollowee, posts: []string{id.Floor(time.Now())}}, long} {
		f.Add(at.encode())
	}
	low, high := long.posts[1], long.posts[0]
	for _, at := range []gathering{
		{posts: []string{low, high}}, {posts: []string{high, high}}, {before: high, posts: []string{high}}, {posts: []string{low}, end: high},
		{after: "a b"}, {posts: append(slices.Clone(long.posts), id.Floor(time.UnixMilli(1)))},
	} {
		_, ok := decodeGathering(at.encode())
		assert.Falsef(f, ok, "%+v", at)
		f.Add(at.encode())
	}
	f.Add(string([]byte{255}) + strings.Repeat("u", 255) + long.encode()[1+64:])
	f.Fuzz(func(t *testing.T, state string) {
		at, ok := decodeGathering(state)
		if !ok {
			return
		}
		assert.Equal(t, state, at.encode())
		assert.LessOrEqual(t, len(at.posts), gatherPosts)
		above := cmp.Or(at.before, "~")
		for _, post := range at.posts {
			assert.True(t, id.Valid(post) && post < above)
			above = post
		}
		assert.LessOrEqual(t, at.end, above)
		cursor := byGathering("ann", "").Cursor(state)
		read, gathers, err := homeAt("ann", "", cursor)
		require.NoError(t, err)
		assert.True(t, gathers)
		assert.Equal(t, at, read)
		_, _, err = homeAt("bob", "", cursor)
		assert.Error(t, err)
	})
}

// Anybody can make a cursor. A cursor of a gathering without remaining posts is at the end of the
// home.
func TestACursorWithoutGatheredPostsEndsTheHome(t *testing.T) {
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	way := access.New(access.Config{Store: tabletest.NewMemory(), Now: now, Lifetimes: lifetime.Fixed(time.Hour)})
	service := feed.New(feed.Config{Access: way})
	h := New(Config{Access: way, Items: service, Mutes: service})
	cursor := byGathering("ann", "").Cursor(gathering{after: everyFollowee}.encode())
	read, err := h.Home(t.Context(), "ann", Query{Pull: true}, page.Request{Cursor: cursor})
	require.NoError(t, err)
	assert.Empty(t, read.Items)
	assert.Empty(t, read.NextCursor)
}
