package feed

import (
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
)

// PageRequest asks for one page of a list.
type PageRequest struct {
	// Limit is 1 to MaxLimit; 0 is DefaultLimit.
	Limit int
	// Cursor is a former page's NextCursor, "" for the first page.
	Cursor string
}

// List is one page. NextCursor is "" on the last page. A page that has a cursor may be
// short, and even empty, if the request met too much that must not show, and it is short
// where one more item would make more than 256 KiB of JSON.
type List[T any] struct {
	Items      []T
	NextCursor string
}

// ProfileInput is a profile as its user writes it.
type ProfileInput struct{ Name, Bio, ImageURL string }

// User is a profile and its counts.
type User struct {
	ID, Name, Bio, ImageURL string
	CreatedAt               time.Time
	Counts                  Counts
}

// Counts are exact (I4).
type Counts struct{ Followers, Following, Posts int64 }

// Edge is one end of a follow, or of a friendship.
type Edge struct {
	UserID string
	Since  time.Time
}

// Relationship says which of two users follows the other.
type Relationship struct{ Following, FollowedBy, Friends bool }

// PostInput is a post to make. IdempotencyKey is optional.
type PostInput struct{ Text, ImageURL, IdempotencyKey string }

// PostEdit is a change of a post. It leaves fields that are nil as they are.
type PostEdit struct{ Text, ImageURL *string }

// Post is a living post. EditedAt is zero if it was never edited.
type Post struct {
	ID, AuthorID, Text, ImageURL string
	CreatedAt, EditedAt          time.Time
}

// PostRange is a range of time: Since included, Until excluded, zero for open.
type PostRange struct{ Since, Until time.Time }

// Comment is a comment of a post.
type Comment struct {
	ID, PostID, AuthorID, Text string
	CreatedAt                  time.Time
}

// Liker is a user who likes a post.
type Liker struct {
	UserID  string
	LikedAt time.Time
}

// LikeCount is the number of likes of a post at the time AsOf.
type LikeCount struct {
	Count int64
	AsOf  time.Time
}

// LikedPost is a post that a user likes.
type LikedPost struct {
	PostID  string
	LikedAt time.Time
}

// HomeQuery says how to compute a home: from the timeline (push), or from the
// followees' post lists alone (pull). Both give the same list and share their cursors.
// After, if it is not "", leaves out that post and all older ones; such a list has cursors
// of its own.
type HomeQuery struct {
	Pull  bool
	After string
}

// HomeNews is a page of the part of a home that is newer than HomeQuery.After.
type HomeNews struct {
	List[HomeItem]
	// Unread is the number of all newer posts, MaxUnread for that many or more. Only the
	// first page has it.
	Unread int
}

// HomeItem is one entry of a home.
type HomeItem struct {
	Post      Post
	Author    HomeAuthor
	LikeCount int64
	Liked     bool
}

// HomeAuthor is an author as a home shows it. A changed Name or ImageURL shows once a worker has
// brought it to the post. Both are "" for an author without a profile: a post of another
// producer may have one, and an old post of a user who is being removed.
type HomeAuthor struct{ ID, Name, ImageURL string }

// timeOf returns the time of an id that the table holds, the zero time if it is not
// a ULID.
func timeOf(ulid string) time.Time {
	at, err := id.Time(ulid)
	if err != nil {
		return time.Time{} // keys hold parsed ids only; a reader has no better answer
	}
	return at
}

func (p Post) jsonBytes() int { return fieldBytes + jsonBytes(p.Text) + jsonBytes(p.ImageURL) }

func (c Comment) jsonBytes() int { return fieldBytes + jsonBytes(c.Text) }

func (i HomeItem) jsonBytes() int {
	return i.Post.jsonBytes() + jsonBytes(i.Author.Name) + jsonBytes(i.Author.ImageURL)
}

func postOf(p schema.Post) Post {
	return Post{ID: p.ID, AuthorID: p.Author, Text: p.Text, ImageURL: p.ImageURL, CreatedAt: timeOf(p.ID), EditedAt: p.EditedAt}
}

func commentOf(c schema.Comment) Comment {
	return Comment{ID: c.ID, PostID: c.Post, AuthorID: c.Author, Text: c.Text, CreatedAt: timeOf(c.ID)}
}

// ref is a reference to a post. A home collects refs before it reads any post, so
// that many post lists fit in memory.
type ref struct {
	post, author string
	likeShards   int
}
