package feed

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/table/tabletest"
)

func TestCursorsBelongToOneList(t *testing.T) {
	scopes := []scope{
		byID("home", "ann", ""), byID("home", "bob", ""), byID("posts", "ann", ""), byID("posts", "ann", "x"),
		byID("posts", "an", "nx"), byUser("followers", "ann"), byUser("following", "ann"), byUser("friends", "ann"),
	}
	for i, from := range scopes {
		position := "auth0|5f7c.@:-_"
		if !from.valid("ann") || from.list == "home" || from.list == "posts" {
			position = id.Max
		}
		cursor := from.cursor(position)
		for j, to := range scopes {
			got, err := to.position(cursor)
			if i == j {
				assert.NoErrorf(t, err, "%+v", to)
				assert.Equalf(t, position, got, "%+v", to)
				continue
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Malformed {
				t.Errorf("a cursor of %+v in %+v: %q, %v", from, to, got, err)
			}
		}
	}
	if got, err := scopes[0].position(""); got != "" || err != nil {
		t.Errorf("no cursor: %q, %v", got, err)
	}
}

func TestChangedCursorsAreRefused(t *testing.T) {
	s := byID("home", "ann", "")
	cursor := s.cursor(id.Min)
	changed := []string{
		" ", cursor + "A", cursor + "=", cursor + "\n", cursor[1:], cursor[:len(cursor)-1], strings.ToUpper(cursor),
		strings.Repeat("A", 1<<16), base64.RawURLEncoding.EncodeToString([]byte{cursorVersion}),
	}
	for i := range len(cursor) {
		for _, c := range []byte("AZ_-") {
			if cursor[i] != c {
				changed = append(changed, cursor[:i]+string(c)+cursor[i+1:])
			}
		}
	}
	for _, c := range changed {
		got, err := s.position(c)
		assert.Errorf(t, err, "%q is read as %q", c, got)
	}
}

// The cursors here have the right checksum but a position that their list cannot have.
func TestPositionsAreIDs(t *testing.T) {
	for _, s := range []scope{byID("home", "ann", ""), byUser("friends", "ann")} {
		for _, position := range []string{"", "p#x", "a b", "é", "..", ".a", "a~", strings.Repeat("x", 65)} {
			got, err := s.position(s.cursor(position))
			assert.Errorf(t, err, "%q is read as %q", position, got)
		}
	}
}

// FuzzCursor checks that no cursor panics, and that an accepted cursor is the one that
// scope.cursor makes of its position.
func FuzzCursor(f *testing.F) {
	f.Add("ann", byID("home", "ann", "").cursor(id.Max))
	f.Add("bob", byID("home", "ann", "").cursor(id.Min))
	f.Add("auth0|5f7c", byUser("friends", "auth0|5f7c").cursor("auth0|5f7c.0456"))
	f.Add("", "")
	f.Fuzz(func(t *testing.T, owner, cursor string) {
		for _, s := range []scope{byID("home", owner, ""), byUser("friends", owner)} {
			position, err := s.position(cursor)
			if err != nil {
				if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Malformed {
					t.Fatal(err)
				}
				continue
			}
			if cursor != "" && (s.cursor(position) != cursor || !s.valid(position)) {
				t.Fatalf("%q is read as %q", cursor, position)
			}
		}
	})
}

// A position of a stream is the end of its window and the posts above it, a hundred at most.
func TestPositionsOfStreamsAscend(t *testing.T) {
	post := func(n int) string { return id.Floor(time.UnixMilli(int64(n))) }
	window := func(n int) []string { // with its end
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

// A replay of any length keeps the like counts of its window only (I9).
func TestAStreamKeepsTheLikeCountsOfItsWindow(t *testing.T) {
	seen := &Streamed{likes: map[string]int64{}}
	for n := range 10 * windowPosts {
		post := id.Floor(time.UnixMilli(int64(n)))
		seen.note([]HomeItem{{Post: Post{ID: post}, LikeCount: 1}}, []string{post})
	}
	assert.Len(t, seen.likes, windowPosts)
}

// FuzzGathering checks that no state of a gathering panics, and that an accepted one is
// written as it was read and holds descending ids, on which the home relies.
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
		cursor := byGathering("ann", "").cursor(state)
		assert.LessOrEqual(t, len(cursor), maxCursor)
		read, gathers, err := homeAt("ann", "", cursor)
		require.NoError(t, err)
		assert.True(t, gathers)
		assert.Equal(t, at, read)
		_, _, err = homeAt("bob", "", cursor)
		assert.Error(t, err)
	})
}

// Anybody can make a cursor. One of a gathering that has no posts left ends the home.
func TestACursorWithoutGatheredPostsEndsTheHome(t *testing.T) {
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	s := New(Config{Store: tabletest.NewMemory(), Now: now, TimelineTTL: time.Hour})
	cursor := byGathering("ann", "").cursor(gathering{after: everyFollowee}.encode())
	page, err := s.Home(t.Context(), "ann", HomeQuery{Pull: true}, PageRequest{Cursor: cursor})
	require.NoError(t, err)
	assert.Empty(t, page.Items)
	assert.Empty(t, page.NextCursor)
}
