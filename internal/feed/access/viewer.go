package access

import (
	"maps"

	"fanfare/internal/fault"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Viewer is the user for whom posts are read, or the reason why a read asks for no user. Every read of a post takes a
// Viewer, so that a new read has to choose one. The zero Viewer is nobody.
//
// Today every user may see every living post.
type Viewer struct {
	user string
	why  Reason
}

// As returns the viewer of a request of user.
func As(user string) Viewer { return Viewer{user: user} }

// OfHome returns the viewer of references of user's home. Before, beside or after the posts, the caller reads the user's marks
// or edges consistently. The marks or edges show that the user follows the authors.
func OfHome(user string) Viewer { return Viewer{user, home} }

// AnyAudience returns the viewer of a read that asks for no user.
func AnyAudience(why Reason) Viewer { return Viewer{why: why} }

// Outside returns the viewer of posts outside the user's home, for a post to which a post of the home refers.
func (v Viewer) Outside() Viewer {
	if v.why == home {
		return As(v.user)
	}
	return v
}

// User returns the id of the viewer, "" for a read that asks for no user.
func (v Viewer) User() string { return v.user }

// Reason is the reason why a read of posts asks for no user. TestViewersOfReads lists each such read.
type Reason string

const (
	// Author is for a call that refuses all users but the post's author.
	Author Reason = "author"
	// OwnUndo is for a user's end of an own action about a post: a comment, a reaction or a repost.
	OwnUndo Reason = "own undo"
	// OwnExport is for a user's export of the own data, which has only the ids of posts of others.
	OwnExport Reason = "own export"
	// Limit is for a count of own things that shows no post.
	Limit Reason = "limit"
	// Worker is for the work of workers, auditors and removals, which show no post.
	Worker Reason = "worker"
	// Operator is for operators and their imports, and for services that take posts down.
	Operator Reason = "operator"

	home Reason = "home"
)

// Seen is a post by id that its viewer may see. Only package access makes a Seen.
type Seen struct{ ref schema.PostRef }

// Ref returns the post by id.
func (s Seen) Ref() schema.PostRef { return s.ref }

// LikesPK returns the partition of a shard of the likes of the post.
func (s Seen) LikesPK(shard int) string {
	return schema.LikesPK(s.ref.ID, shard, s.ref.LikeShards)
}

// Readable is a post that its viewer may see. Only package access makes a Readable.
type Readable struct{ post schema.Post }

// Post returns the post.
func (r Readable) Post() schema.Post { return r.post }

// OwnPost returns a post that its author has just written.
func OwnPost(p schema.Post) Readable { return Readable{p} }

// Readables are posts that their viewer may see, by key. The zero value has no posts.
type Readables struct{ items map[table.Key]table.Item }

// Of returns a post, and whether the posts include it.
func (r Readables) Of(key table.Key) (post Readable, there bool, err error) {
	it, there := r.items[key]
	if !there {
		return Readable{}, false, nil
	}
	p, err := schema.ParsePost(it)
	return Readable{p}, true, fault.Wrap("table", err)
}

// Has reports whether the posts include a post.
func (r Readables) Has(key table.Key) bool {
	_, there := r.items[key]
	return there
}

// Attr returns an attribute of a post, and whether the posts include the post.
func (r Readables) Attr(key table.Key, name string) (value string, there bool) {
	it, there := r.items[key]
	return it.Str(name), there
}

// With returns the posts of r and of more.
func (r Readables) With(more Readables) Readables {
	all := Readables{make(map[table.Key]table.Item, len(r.items)+len(more.items))}
	maps.Copy(all.items, r.items)
	maps.Copy(all.items, more.items)
	return all
}
