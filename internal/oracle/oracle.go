// Package oracle is a model of one feed: users, follows, posts, reactions, homes, and the things of each user alone. It
// holds plain data and the rules that the API promises, each in its simplest form. No time passes in the model, and no
// call fails halfway. clienttest answers from the model, and tests of the product compare the product with it.
//
// It must share no rule with the product. It does not know where a feed is stored, or how a home is computed.
package oracle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fanfare/client"
)

// Refusal is the reason for which a call has no effect. The zero value refuses nothing.
type Refusal int

// The refusals. Invalid refuses an act of a user on the same user, and Forbidden refuses a change of another user's post.
const (
	Invalid Refusal = iota + 1
	NotFound
	Forbidden
	Blocked
	IsRepost
)

// Edges has the time of each follow, mute, block or bookmark, by the user and the other user or the post.
type Edges map[[2]string]time.Time

// Has reports whether an edge exists.
func (e Edges) Has(user, other string) bool { return !e[[2]string{user, other}].IsZero() }

// Put makes an edge. An existing edge keeps its time.
func (e Edges) Put(user, other string, at time.Time) Refusal {
	if user == other {
		return Invalid
	}
	e[[2]string{user, other}] = cmp.Or(e[[2]string{user, other}], at)
	return 0
}

// End ends an edge. Its time has no effect: an end has the same parameters as a beginning.
func (e Edges) End(user, other string, _ time.Time) Refusal {
	if user == other {
		return Invalid
	}
	delete(e, [2]string{user, other})
	return 0
}

// From lists the edges of a user, by the other user.
func (e Edges) From(user string) []client.Edge { return e.list(user, 0) }

// To lists the edges to a user, by the other user.
func (e Edges) To(user string) []client.Edge { return e.list(user, 1) }

func (e Edges) list(user string, end int) []client.Edge {
	var edges []client.Edge
	for pair, since := range e {
		if pair[end] == user {
			edges = append(edges, client.Edge{UserID: pair[1-end], Since: since})
		}
	}
	return slices.SortedFunc(slices.Values(edges), func(a, b client.Edge) int { return cmp.Compare(a.UserID, b.UserID) })
}

// Feed is the state of a feed.
type Feed struct {
	Users                             map[string]client.User
	Posts                             map[string]client.Post
	Follows, Mutes, Blocks, Bookmarks Edges
	Silent                            map[[2]string]bool                   // the follows that only their followers see
	Reactions                         map[string]map[string]client.Reactor // by post and user
	Markers                           map[string]map[string]client.Marker  // by user and name
}

// New returns an empty feed.
func New() *Feed {
	return &Feed{
		Users: map[string]client.User{}, Posts: map[string]client.Post{}, Follows: Edges{}, Mutes: Edges{}, Blocks: Edges{}, Bookmarks: Edges{}, Silent: map[[2]string]bool{},
		Reactions: map[string]map[string]client.Reactor{}, Markers: map[string]map[string]client.Marker{},
	}
}

// Remove removes a user. Mutes and blocks of the user by others stay, and so do other users' bookmarks.
func (f *Feed) Remove(user string) {
	delete(f.Users, user)
	for _, post := range f.PostsOf(user) {
		f.Drop(post)
	}
	for _, edges := range []Edges{f.Follows, f.Mutes, f.Blocks, f.Bookmarks} {
		maps.DeleteFunc(edges, func(pair [2]string, _ time.Time) bool { return pair[0] == user })
	}
	maps.DeleteFunc(f.Follows, func(pair [2]string, _ time.Time) bool { return pair[1] == user })
	delete(f.Markers, user)
	for _, reactors := range f.Reactions {
		delete(reactors, user)
	}
}

// Counts returns the counts of a user. A post with an end is not counted.
func (f *Feed) Counts(user string) client.Counts {
	posts := f.newest(func(p client.Post) bool { return p.AuthorID == user && p.ExpiresAt.IsZero() })
	return client.Counts{Followers: int64(len(f.Seen("").To(user))), Following: int64(len(f.Follows.From(user))), Posts: int64(len(posts))}
}

// Blocked refuses acts between two users if either of them blocks the other.
func (f *Feed) Blocked(user, other string) Refusal {
	if f.Blocks.Has(user, other) || f.Blocks.Has(other, user) {
		return Blocked
	}
	return 0
}

// Follow makes user a follower of author.
func (f *Feed) Follow(user, author string, at time.Time) Refusal {
	return f.follow(user, author, at, false)
}

// FollowSilently is Follow for a follow that only the follower sees.
func (f *Feed) FollowSilently(user, author string, at time.Time) Refusal {
	return f.follow(user, author, at, true)
}

func (f *Feed) follow(user, author string, at time.Time, silent bool) Refusal {
	if r := f.Blocked(user, author); r != 0 {
		return r
	}
	if !f.Follows.Has(user, author) {
		f.Silent[[2]string{user, author}] = silent
	}
	return f.Follows.Put(user, author, at)
}

// Seen returns the follows that a viewer sees.
func (f *Feed) Seen(viewer string) Edges {
	seen := maps.Clone(f.Follows)
	maps.DeleteFunc(seen, func(pair [2]string, _ time.Time) bool { return f.Silent[pair] && pair[0] != viewer })
	return seen
}

// Block makes a block, and ends the follows between both users.
func (f *Feed) Block(user, other string, at time.Time) Refusal {
	f.Follows.End(user, other, at)
	f.Follows.End(other, user, at)
	return f.Blocks.Put(user, other, at)
}

// Friends lists the users who follow a user and are followed back, since the later of both follows.
func (f *Feed) Friends(user string) (friends []client.Edge) {
	seen := f.Seen("")
	for _, edge := range seen.From(user) {
		if back := seen[[2]string{edge.UserID, user}]; !back.IsZero() {
			if back.After(edge.Since) {
				edge.Since = back
			}
			friends = append(friends, edge)
		}
	}
	return friends
}

// Relationship returns the follows between two users, as a viewer sees them.
func (f *Feed) Relationship(viewer, user, other string) client.Relationship {
	seen := f.Seen(viewer)
	follows, followed := seen.Has(user, other), seen.Has(other, user)
	return client.Relationship{Following: follows, FollowedBy: followed, Friends: follows && followed}
}

// Living refuses acts on a post that does not exist.
func (f *Feed) Living(post string) Refusal {
	if _, lives := f.Posts[post]; !lives {
		return NotFound
	}
	return 0
}

// ByAuthor refuses changes of a post that does not exist or has another author.
func (f *Feed) ByAuthor(user, post string) Refusal {
	if r := f.Living(post); r != 0 || f.Posts[post].AuthorID == user {
		return r
	}
	return Forbidden
}

// Open refuses new acts on a post that does not exist, or whose author has a block with the user.
func (f *Feed) Open(user, post string) Refusal {
	return cmp.Or(f.Own(post), f.Blocked(user, f.Posts[post].AuthorID))
}

// Own refuses a post that is gone, and a repost.
func (f *Feed) Own(post string) Refusal {
	if f.Posts[post].RepostOf != "" {
		return IsRepost
	}
	return f.Living(post)
}

// Original returns the post, or the original of a repost.
func (f *Feed) Original(post string) string {
	return cmp.Or(f.Posts[post].RepostOf, post)
}

// RepostBy returns a user's repost of an original, "" for none.
func (f *Feed) RepostBy(user, original string) string {
	for _, post := range f.PostsOf(user) {
		if f.Posts[post].RepostOf == original {
			return post
		}
	}
	return ""
}

// Reposts returns the number of reposts of a post.
func (f *Feed) Reposts(original string) (n int64) {
	for post, of := range f.Posts {
		if of.RepostOf == original && f.Living(post) == 0 {
			n++
		}
	}
	return n
}

// Refers returns the post to which a post refers, "" if there is none or the viewer does not see it.
func (f *Feed) Refers(viewer, post string) string {
	of := cmp.Or(f.Posts[post].RepostOf, f.Posts[post].QuoteOf)
	author := f.Posts[of].AuthorID
	if f.Living(of) != 0 || viewer != author && (f.Mutes.Has(viewer, author) || f.Blocked(viewer, author) != 0) {
		return ""
	}
	return of
}

// Shows reports whether a viewer sees a living post: a repost shows while its original shows.
func (f *Feed) Shows(viewer, post string) bool {
	return f.Living(post) == 0 && (f.Posts[post].RepostOf == "" || f.Refers(viewer, post) != "")
}

// Drop deletes a post.
func (f *Feed) Drop(post string) {
	delete(f.Posts, post)
	delete(f.Reactions, post)
}

// newest lists the ids of some posts, the newest first.
func (f *Feed) newest(of func(client.Post) bool) (ids []string) {
	for _, post := range slices.Backward(byKey(f.Posts)) {
		if of(post) {
			ids = append(ids, post.ID)
		}
	}
	return ids
}

// PostsOf lists the posts of an author, the newest first.
func (f *Feed) PostsOf(author string) []string {
	return f.newest(func(p client.Post) bool { return p.AuthorID == author })
}

// Home lists the posts that a home shows, the newest first (I1).
func (f *Feed) Home(viewer string) []string {
	seen := map[string]bool{} // a post shows once, at its newest visible reference
	return f.newest(func(p client.Post) bool {
		if p.AuthorID != viewer && (!f.Follows.Has(viewer, p.AuthorID) || f.Mutes.Has(viewer, p.AuthorID)) || !f.Shows(viewer, p.ID) || seen[f.Original(p.ID)] {
			return false
		}
		seen[f.Original(p.ID)] = true
		return true
	})
}

// React makes a kind the only reaction of a user to a post, with the time of the latest call. The kind "" takes the
// reaction back, over a block, too.
func (f *Feed) React(user, post, kind string, at time.Time) Refusal {
	if kind == "" {
		delete(f.Reactions[post], user)
		return f.Own(post)
	}
	if r := f.Open(user, post); r != 0 {
		return r
	}
	if f.Reactions[post] == nil {
		f.Reactions[post] = map[string]client.Reactor{}
	}
	f.Reactions[post][user] = client.Reactor{UserID: user, Kind: kind, At: at}
	return 0
}

// Reactors lists the users with a reaction of a kind to a post, by user. The kind "" means any kind.
func (f *Feed) Reactors(post, kind string) []client.Reactor {
	return slices.DeleteFunc(byKey(f.Reactions[post]), func(r client.Reactor) bool { return kind != "" && r.Kind != kind })
}

// ReactionCounts returns the number of reactions to a post, by kind (I3).
func (f *Feed) ReactionCounts(post string) map[string]int64 {
	counts := map[string]int64{}
	for _, reactor := range f.Reactions[post] {
		counts[reactor.Kind]++
	}
	return counts
}

// ReactionsBy lists the reactions of a user, the newest post first.
func (f *Feed) ReactionsBy(user string) (all []client.PostReaction) {
	for _, post := range f.newest(func(p client.Post) bool { return f.Reactions[p.ID][user].Kind != "" }) {
		all = append(all, client.PostReaction{PostID: post, Kind: f.Reactions[post][user].Kind, At: f.Reactions[post][user].At})
	}
	return all
}

// Bookmark makes a bookmark.
func (f *Feed) Bookmark(user, post string, at time.Time) Refusal {
	if r := f.Open(user, post); r != 0 {
		return r
	}
	return f.Bookmarks.Put(user, post, at)
}

// BookmarksOf lists the bookmarks of a user, the newest first. A bookmark of a deleted post, or of a post whose author
// has a block with the user, is hidden.
func (f *Feed) BookmarksOf(user string) (shown []client.Bookmark) {
	for pair, at := range f.Bookmarks {
		if pair[0] == user && f.Open(user, pair[1]) == 0 {
			shown = append(shown, client.Bookmark{PostID: pair[1], BookmarkedAt: at})
		}
	}
	return slices.SortedFunc(slices.Values(shown), func(a, b client.Bookmark) int { return b.BookmarkedAt.Compare(a.BookmarkedAt) })
}

// Mark moves a marker of a user forward, and returns the marker.
func (f *Feed) Mark(user, name, position string, at time.Time) client.Marker {
	if f.Markers[user] == nil {
		f.Markers[user] = map[string]client.Marker{}
	}
	if position > f.Markers[user][name].Position {
		f.Markers[user][name] = client.Marker{Name: name, Position: position, UpdatedAt: at}
	}
	return f.Markers[user][name]
}

// MarkersOf lists the markers of a user, by name.
func (f *Feed) MarkersOf(user string) []client.Marker { return byKey(f.Markers[user]) }

// byKey returns the values of a map in the order of their keys.
func byKey[V any](all map[string]V) []V {
	values := make([]V, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		values = append(values, all[key])
	}
	return values
}
