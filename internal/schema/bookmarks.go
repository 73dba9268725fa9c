package schema

import (
	"fanfare/internal/table"
)

// Bookmark is a user's private reference to a post. V is a ULID of the time at which the user made the
// bookmark.
type Bookmark struct{ User, Post, V string }

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
