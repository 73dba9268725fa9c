package client

import (
	"encoding/json"
	"time"
)

// NoData is the data of a ProfileInput or a PostEdit that removes the stored data.
var NoData = json.RawMessage("null") //nolint:gochecknoglobals // a constant that Go has no constant for

// ProfileInput holds the values of a profile that its user sets. Only Name is required. Data is a
// JSON object: nil keeps the stored data, and NoData removes it.
type ProfileInput struct {
	Name     string          `json:"name"`
	Bio      string          `json:"bio,omitempty"`
	ImageURL string          `json:"image_url,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// User is a profile and its counts.
type User struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Bio       string    `json:"bio"`
	ImageURL  string    `json:"image_url"`
	CreatedAt time.Time `json:"created_at"`
	Counts    Counts    `json:"counts"`
	// Data is nil if the user has none.
	Data json.RawMessage `json:"data,omitempty"`
	// Following is true if the caller follows the user, FollowedBy if the user follows the
	// caller. Only Profile sets them.
	Following  bool `json:"following,omitempty"`
	FollowedBy bool `json:"followed_by,omitempty"`
}

// UserView is a user as lists show it, with the follows between it and the caller.
type UserView struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	ImageURL   string `json:"image_url"`
	Following  bool   `json:"following"`
	FollowedBy bool   `json:"followed_by"`
}

// Counts are a user's exact counts.
type Counts struct {
	Followers int64 `json:"followers"`
	Following int64 `json:"following"`
	Posts     int64 `json:"posts"`
}

// Edge is the second user of a follow, a friendship, a mute or a block.
type Edge struct {
	UserID string    `json:"user_id"`
	Since  time.Time `json:"since"`
	// User is nil without WithUsers.
	User *UserView `json:"user,omitempty"`
}

// Relationship holds the follows between two users.
type Relationship struct {
	Following  bool `json:"following"`
	FollowedBy bool `json:"followed_by"`
	Friends    bool `json:"friends"`
}

// PostInput is a new post. Only Text is required. Kind is a name of your own, such as "album",
// Data a JSON object, and Mentions are ids of users.
type PostInput struct {
	Text     string          `json:"text"`
	ImageURL string          `json:"image_url,omitempty"`
	Kind     string          `json:"kind,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Mentions []string        `json:"mentions,omitempty"`
	// ExpiresAt is the end of the post, zero for never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// IdempotencyKey makes repeated calls create only one post, even after a restart of
	// the caller. If it is empty, CreatePost makes a key for its own retries.
	IdempotencyKey string `json:"-"`
}

// PostEdit changes the fields that are not nil. NoData removes the data.
type PostEdit struct {
	Text     *string         `json:"text,omitempty"`
	ImageURL *string         `json:"image_url,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Post is a post. EditedAt is zero if it was never edited, ExpiresAt if it has no end.
type Post struct {
	ID        string          `json:"id"`
	AuthorID  string          `json:"author_id"`
	Text      string          `json:"text"`
	ImageURL  string          `json:"image_url"`
	CreatedAt time.Time       `json:"created_at"`
	EditedAt  time.Time       `json:"edited_at,omitzero"`
	Kind      string          `json:"kind,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Mentions  []string        `json:"mentions,omitempty"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
}

// CommentInput is a new comment. Only Text is required.
type CommentInput struct {
	Text     string          `json:"text"`
	Data     json.RawMessage `json:"data,omitempty"`
	Mentions []string        `json:"mentions,omitempty"`
}

// PostRange selects posts by time: a day in UTC (YYYY-MM-DD), or the time from Since
// (included) to Until (excluded), where zero is no bound. The zero value selects all posts.
type PostRange struct {
	Day          string
	Since, Until time.Time
}

// Comment is a comment on a post.
type Comment struct {
	ID        string          `json:"id"`
	PostID    string          `json:"post_id"`
	AuthorID  string          `json:"author_id"`
	Text      string          `json:"text"`
	CreatedAt time.Time       `json:"created_at"`
	Data      json.RawMessage `json:"data,omitempty"`
	Mentions  []string        `json:"mentions,omitempty"`
	// Author is nil without WithUsers.
	Author *UserView `json:"author,omitempty"`
	// Post is nil without CommentViewsByUser.
	Post *PostView `json:"post,omitempty"`
}

// Liker is a user who likes a post.
type Liker struct {
	UserID  string    `json:"user_id"`
	LikedAt time.Time `json:"liked_at"`
	// User is nil without WithUsers.
	User *UserView `json:"user,omitempty"`
}

// LikeCount is the number of users who liked a post at AsOf.
type LikeCount struct {
	Count int64     `json:"count"`
	AsOf  time.Time `json:"as_of"`
}

// LikedPost is a post that a user likes.
type LikedPost struct {
	PostID  string    `json:"post_id"`
	LikedAt time.Time `json:"liked_at"`
}

// Bookmark is a post that the caller keeps.
type Bookmark struct {
	PostID       string    `json:"post_id"`
	BookmarkedAt time.Time `json:"bookmarked_at"`
}

// Marker is how far the caller has read a list that the caller has named.
type Marker struct {
	Name      string    `json:"name"`
	Position  string    `json:"position"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Reactor is a user with a reaction to a post.
type Reactor struct {
	UserID string    `json:"user_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

// ReactionCount has the numbers of users with a reaction to a post at AsOf, by kind.
type ReactionCount struct {
	Counts map[string]int64 `json:"counts"`
	AsOf   time.Time        `json:"as_of"`
}

// PostReaction is a post to which a user has a reaction.
type PostReaction struct {
	PostID string    `json:"post_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

// HomeItem is one post in a home.
type HomeItem struct {
	Post      Post   `json:"post"`
	Author    Author `json:"author"`
	LikeCount int64  `json:"like_count"`
	Liked     bool   `json:"liked"`
	// Reactions are the counts by kind of reaction, including likes, and Reaction is the caller's
	// kind, "" for none. If only likes are configured, they are nil and "".
	Reactions map[string]int64 `json:"reactions,omitzero"`
	Reaction  string           `json:"reaction,omitempty"`
}

// PostView is a post with all that a page shows of it.
type PostView struct {
	HomeItem
	CommentCount int64 `json:"comment_count"`
	// LikedAt is when the user of a list of liked posts liked the post, zero in any other
	// list.
	LikedAt time.Time `json:"liked_at,omitzero"`
	// BookmarkedAt is when the caller made the bookmark in BookmarkViews, zero in any
	// other list.
	BookmarkedAt time.Time `json:"bookmarked_at,omitzero"`
}

// Found is the answer to a question about several ids.
type Found[T any] struct {
	// Items are in the order of the ids, each once.
	Items []T `json:"items"`
	// Missing are the ids that are unknown or were deleted.
	Missing []string `json:"missing"`
	// Rest are the ids whose items did not fit into the answer. Another call can read them.
	Rest []string `json:"rest,omitempty"`
}

// News are the posts of the caller's home that are newer than a given post.
type News struct {
	// Items are the newest such posts, 20 at most. Home lists all of them.
	Items []HomeItem `json:"items"`
	// Unread is the number of all such posts; 100 means 100 or more.
	Unread int `json:"unread"`
	// ETag names this answer.
	ETag string `json:"-"`
}

// Update is one event of a live home: an entry, a like count, or a number of unread notifications.
// The other fields are nil.
type Update struct {
	// Entry is a post that came into the home. It may be older than the previous one.
	Entry *HomeItem
	// Likes is the new like count of a post.
	Likes *LikesUpdate
	// Unread is the number of unread notifications; 10 means 10 or more.
	Unread *int
	// Place is the position of the stream, from which Live can continue. It covers all
	// updates before this one.
	Place string
}

// LikesUpdate is the new like count of a post.
type LikesUpdate struct {
	PostID string `json:"post_id"`
	Count  int64  `json:"count"`
	// Reactions are all counts by kind, nil if only likes are configured.
	Reactions map[string]int64 `json:"reactions,omitzero"`
}

// Author holds the values of an author that a home shows.
type Author struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	ImageURL string `json:"image_url"`
}

// HomeSource is the way in which a home is computed.
type HomeSource string

// The two sources show the same list.
const (
	// Push reads the viewer's own timeline.
	Push HomeSource = ""
	// Pull reads the post lists of the followed users.
	Pull HomeSource = "pull"
)

// DeliveryState is the stage that a delivery has reached.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryQueued    DeliveryState = "queued"
	DeliveryRunning   DeliveryState = "running"
	DeliveryComplete  DeliveryState = "complete"
	DeliveryPulled    DeliveryState = "pulled"
	DeliveryCancelled DeliveryState = "cancelled"
)

// Delivery is the progress of a post's delivery. Unknown fields are nil.
type Delivery struct {
	State       DeliveryState `json:"state"`
	Reason      string        `json:"reason,omitempty"` // why it is cancelled
	Planned     *int64        `json:"planned"`
	Delivered   *int64        `json:"delivered"`
	Skipped     *int64        `json:"skipped"` // followers that were away
	ChunksDone  *int64        `json:"chunks_done"`
	ChunksTotal *int64        `json:"chunks_total"`
	AcceptedAt  *time.Time    `json:"accepted_at"`
	StartedAt   *time.Time    `json:"started_at"`
	CompletedAt *time.Time    `json:"completed_at"`
	Attempts    *int64        `json:"attempts"`
	// TakenDown is nil unless a service took the post down.
	TakenDown *TakenDown `json:"taken_down,omitempty"`
}

// TakenDown is the deletion of a post by a service: the reason, the sub of the service's token, and the time.
type TakenDown struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// DevToken is a token of a service in development mode.
type DevToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}
