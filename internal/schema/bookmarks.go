package schema

import (
	"strings"

	"fanfare/internal/table"
)

// Bookmark is a user's private reference to a post. V is a ULID of the time at which the user made the
// bookmark.
type Bookmark struct{ User, Post, V string }

// BookmarksPK returns the partition of user's bookmarks. Each bookmark has two sort keys: BookmarkSK,
// in the order in which the user made the bookmarks, and PostSK, by which a post finds its bookmark.
func BookmarksPK(user string) string { return "u#" + user + "#bookmark" }

// SortBookmark is the prefix of the sort keys of the list of bookmarks, and SortBookmarkEnd is above
// all these keys.
const (
	SortBookmark    = "b#"
	SortBookmarkEnd = SortBookmark + sortEnd
)

// BookmarkSK returns the sort key of the bookmark of version v in the list.
func BookmarkSK(v string) string { return SortBookmark + v }

// BookmarkOfSK is the reverse of BookmarkSK.
func BookmarkOfSK(sk string) (v string, ok bool) { return strings.CutPrefix(sk, SortBookmark) }

// BookmarkKey returns the key of user's bookmark of version v in the list.
func BookmarkKey(user, v string) table.Key {
	return table.Key{PK: BookmarksPK(user), SK: BookmarkSK(v)}
}

// BookmarkOfKey returns the key of the item by which a post finds user's bookmark.
func BookmarkOfKey(user, post string) table.Key {
	return table.Key{PK: BookmarksPK(user), SK: PostSK(post)}
}

// Items encodes b in two items of one partition: the place in the list, and the item by which a post
// finds that place.
func (b Bookmark) Items() (listed, byPost table.Item) {
	return table.Item{Key: BookmarkKey(b.User, b.V), Attrs: []table.Attr{str(AttrKeyPost, b.Post)}},
		table.Item{Key: BookmarkOfKey(b.User, b.Post), Attrs: []table.Attr{str(AttrVersion, b.V)}}
}

// ParseBookmark decodes either item of a bookmark.
func ParseBookmark(it table.Item) (Bookmark, error) {
	b := Bookmark{Post: it.Str(AttrKeyPost)}
	var ok, half bool
	b.User, ok = userOf(it.Key.PK, "#bookmark")
	if b.V, half = BookmarkOfSK(it.Key.SK); !half {
		b.V = it.Str(AttrVersion)
		b.Post, half = PostOfSK(it.Key.SK)
	}
	if !ok || !half || b.Post == "" || b.V == "" {
		return Bookmark{}, &ParseError{it.Key, "not a bookmark"}
	}
	return b, nil
}
