package schema

import "fanfare/internal/table"

// Repost binds the one living repost of a post by a user: R is the id of the repost. V is the binding's version if the
// user's life began after R, as the life of a user whose former reposts were imported.
type Repost struct{ User, Of, R, V string }

// Version returns the id by which a removal decides whether a binding belongs to a former life.
func (r Repost) Version() string { return max(r.R, r.V) }

// RepostsPK returns the partition of user's bindings. The sort keys are PostSK of the originals.
func RepostsPK(user string) string { return "u#" + user + "#repost" }

// RepostKey returns the key of the binding of user's repost of a post.
func RepostKey(user, post string) table.Key {
	return table.Key{PK: RepostsPK(user), SK: PostSK(post)}
}

// Item encodes r.
func (r Repost) Item() table.Item {
	it := table.Item{Key: RepostKey(r.User, r.Of), Attrs: []table.Attr{str(AttrKeyPost, r.R)}}
	if r.V != "" {
		it.Attrs = append(it.Attrs, str(AttrVersion, r.V))
	}
	return it
}

// ParseRepost decodes a binding.
func ParseRepost(it table.Item) (Repost, error) {
	user, ok := userOf(it.Key.PK, "#repost")
	of, ok2 := PostOfSK(it.Key.SK)
	r := Repost{user, of, it.Str(AttrKeyPost), it.Str(AttrVersion)}
	if !ok || !ok2 || r.R == "" {
		return Repost{}, &ParseError{it.Key, "not the binding of a repost"}
	}
	return r, nil
}
