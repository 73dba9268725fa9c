package feed

import (
	"slices"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// ProfileInput is a profile as its user writes it. Data is the JSON text of an object: nil keeps
// the stored data, and "" removes it.
type ProfileInput struct {
	Name, Bio, ImageURL string
	Data                *string
}

// User is a profile and its counts.
type User struct {
	ID, Name, Bio, ImageURL, Data string
	CreatedAt                     time.Time
	Counts                        Counts
}

// Counts are exact (I4).
type Counts struct{ Followers, Following, Posts int64 }

// Edge is one end of a follow, or of a friendship.
type Edge struct {
	UserID string
	Since  time.Time
}

// Relationship reports which of two users follows the other.
type Relationship struct{ Following, FollowedBy, Friends bool }

// Content is the part of a post that its author writes.
type Content = messages.Content

// Data is the JSON text of an object.
type Data = messages.Data

// Reference names the post to which a post refers.
type Reference = messages.Reference

// PostInput is the input of a new post, which has a text, an image or data. ExpiresAt is in whole seconds.
type PostInput struct {
	Content
	// QuoteOf is the post that the new post quotes, "" for none.
	QuoteOf        string
	IdempotencyKey string
}

// Image is an image of a post.
type Image = messages.Image

// PostEdit is a change of a post. A nil field does not change, and an empty field is removed. The post
// keeps a text, an image or data.
type PostEdit struct {
	Text, Data *string
	Images     *[]Image
}

// Post is a living post. EditedAt is zero if the post was never edited. ExpiresAt is zero if the post
// has no end.
type Post struct {
	ID, AuthorID string
	Content
	Reference
	CreatedAt, EditedAt time.Time
}

// PostRange is a range of time. Since is included, Until is excluded, and a zero time means no bound.
type PostRange struct{ Since, Until time.Time }

// CommentInput is the input of a new comment. Data is the JSON text of an object, "" for no data.
type CommentInput struct {
	Text, Data string
	Mentions   []string
}

// Comment is a comment on a post.
type Comment struct {
	ID, PostID, AuthorID, Text, Data string
	Mentions                         []string
	CreatedAt                        time.Time
}

// Liker is a user with a reaction of a kind to a post, made at LikedAt.
type Liker struct {
	UserID  string
	LikedAt time.Time
	Kind    string
}

// LikeCount has the number of likes of a post at the time AsOf, and all counts by kind of reaction.
type LikeCount struct {
	Count int64
	Kinds map[string]int64
	AsOf  time.Time
}

// LikedPost is a post to which a user has a reaction of a kind, made at LikedAt.
type LikedPost struct {
	PostID  string
	LikedAt time.Time
	Kind    string
}

// HomeItem is one entry of a home.
type HomeItem struct {
	Post      Post
	Author    HomeAuthor
	LikeCount int64
	Liked     bool
	// Reactions are the counts by kind of reaction, including likes. Reaction is the viewer's kind. If
	// only likes are configured, Reactions is nil and Reaction is "".
	Reactions map[string]int64
	Reaction  string
	// RepostCount is the number of living reposts of the post.
	RepostCount int64
	// CommentCount is exact at the time of the read (I4).
	CommentCount int64
	// Of is the post to which Post refers, with all values of an item: the original of a repost, or the quoted post. Of
	// is nil for any other post, and for a quoted post that is gone or hidden from the viewer.
	Of *HomeItem
	// Kept is zero unless the read was for a Viewer with Kept.
	Kept
}

// Viewer is the user for whom items are read. With Kept, the items have the viewer's bookmarks. With Once, the items
// leave out posts that Once remembers (I16).
type Viewer struct {
	By   access.Viewer
	Kept bool
	Once *Once
}

// ID returns the id of the viewer.
func (v Viewer) ID() string { return v.By.User() }

// ofReferred returns the viewer of the posts to which the posts of a page refer: the user may not follow their authors.
func (v Viewer) ofReferred() Viewer {
	v.By = v.By.Outside()
	return v
}

// MostOnce is the number of originals that a paging of a home remembers.
const MostOnce = 64

// Once remembers the originals of the last reposts that a paging showed, so that the paging shows a post once (I16). A
// post that shows at its own place needs no memory, because its reposts are newer.
type Once struct{ before, shown []string }

// NewOnce returns the memory of a page after pages that showed reposts of these originals.
func NewOnce(shown []string) *Once { return &Once{shown, slices.Clone(shown)} }

// Originals returns the remembered originals.
func (o *Once) Originals() []string { return o.shown }

// Keep forgets all items of the page but these.
func (o *Once) Keep(items []HomeItem) {
	o.shown = slices.Clone(o.before)
	for _, it := range items {
		o.add(it.Post.RepostOf)
	}
}

func (o *Once) add(original string) {
	if original != "" {
		o.shown = append(o.shown, original)
		o.shown = o.shown[max(0, len(o.shown)-MostOnce):]
	}
}

// Takes reports whether a page shows a post that is visible, and remembers the original of a repost.
func (o *Once) Takes(post string, of Reference) bool {
	switch {
	case o == nil:
		return true
	case slices.Contains(o.shown, post) || of.RepostOf != "" && slices.Contains(o.shown, of.RepostOf):
		return false
	}
	o.add(of.RepostOf)
	return true
}

// Kept has the things of a viewer that belong to a post. The Kept of a repost is the Kept of its original.
type Kept struct {
	// Bookmarked is true for a bookmark of the viewer's present life, also over a block.
	Bookmarked bool
	// Reposted is true while a repost of the post by the viewer lives.
	Reposted bool
}

// HomeAuthor is an author in a home. A changed Name or ImageURL shows after a worker has written the
// change to the post. Name and ImageURL are "" for an author without a profile: another producer may
// post for such an author, and a user who is being removed may have old posts.
type HomeAuthor struct{ ID, Name, ImageURL string }

// JSONBytes returns an upper bound of the size of the post in JSON.
func (p Post) JSONBytes() int {
	return page.FieldBytes + page.JSONBytes(p.Text) + len(messages.ImagesText(p.Images)) + customBytes(p.Kind, string(p.Data), p.Mentions)
}

// JSONBytes returns an upper bound of the size of the comment in JSON.
func (c Comment) JSONBytes() int {
	return page.FieldBytes + page.JSONBytes(c.Text) + customBytes("", c.Data, c.Mentions)
}

// customBytes returns an upper bound of the size of optional fields in JSON. Data is already JSON.
func customBytes(kind, data string, mentions []string) int {
	n := len(kind) + len(data)
	for _, user := range mentions {
		n += len(user) + len(`"",`)
	}
	return n
}

// JSONBytes returns an upper bound of the size of the item in JSON.
func (i HomeItem) JSONBytes() int {
	n := i.Post.JSONBytes() + page.JSONBytes(i.Author.Name) + page.JSONBytes(i.Author.ImageURL) + reactionBytes*len(i.Reactions)
	if i.Of != nil {
		n += i.Of.JSONBytes()
	}
	return n
}

// reactionBytes is above the size of the JSON of one count by kind.
const reactionBytes = messages.MaxReaction + 24

func postOf(of access.Readable) Post {
	p := of.Post()
	return Post{ID: p.ID, AuthorID: p.Author, Content: p.Content, Reference: p.Reference, CreatedAt: access.TimeOf(p.ID), EditedAt: p.EditedAt}
}

func commentOf(c schema.Comment) Comment {
	return Comment{ID: c.ID, PostID: c.Post, AuthorID: c.Author, Text: c.Text, Data: c.Data, Mentions: c.Mentions, CreatedAt: access.TimeOf(c.ID)}
}
