package client

import (
	"encoding/json"
	"time"
)

// The API answers with the types of this package. Their tags doc, enum, example, nullable and maxItems are for its OpenAPI
// document.

// NoData removes the stored data, as the Data of a ProfileInput or a PostEdit.
var NoData = json.RawMessage("null") //nolint:gochecknoglobals // Go has no constants of this type

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
	// Data is nil if the user has no data.
	Data json.RawMessage `json:"data,omitempty"`
	// Following is true if the caller follows the user, and FollowedBy is true if the user follows the
	// caller. Only Profile sets these fields.
	Following  bool `json:"following,omitempty"`
	FollowedBy bool `json:"followed_by,omitempty"`
}

// UserView is a user with the values that lists show, and the follows between the user and the caller.
type UserView struct {
	ID         string `json:"id"`
	Name       string `json:"name" doc:"It may be a minute old, and so may image_url."`
	ImageURL   string `json:"image_url"`
	Following  bool   `json:"following" doc:"True if you follow the user."`
	FollowedBy bool   `json:"followed_by" doc:"True if the user follows you."`
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
	// User is nil except in a list of WithUsers.
	User *UserView `json:"user,omitempty" doc:"Only with expand=view."`
}

// Relationship shows which of two users follows the other one.
type Relationship struct {
	Following  bool `json:"following"`
	FollowedBy bool `json:"followed_by"`
	Friends    bool `json:"friends"`
}

// PostInput is a new post. It has a text, an image or data. Kind is a name of your own, such as "album". Data is a
// JSON object. Mentions are ids of users.
type PostInput struct {
	Text     string          `json:"text,omitempty"`
	Images   []Image         `json:"images,omitempty"`
	Kind     string          `json:"kind,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Mentions []string        `json:"mentions,omitempty"`
	// QuoteOf is the post that the new post quotes, "" for none.
	QuoteOf string `json:"quote_of,omitempty"`
	// ExpiresAt is the end of the post. The zero time means that the post has no end.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// IdempotencyKey makes repeated calls create only one post, even after a restart of the caller. If it
	// is empty, CreatePost makes a key for its own retries.
	IdempotencyKey string `json:"-"`
}

// Image is an image of a post. Only URL is required. Alt describes the image for people who cannot see it.
// Width and Height come together, and are 0 if the size is unknown.
type Image struct {
	URL    string `json:"url" doc:"An http or https URL. Fanfare never fetches it." example:"https://img.example/a.png"`
	Alt    string `json:"alt,omitempty" doc:"A description for people who cannot see the image."`
	Width  int    `json:"width,omitempty" doc:"In pixels. Width and height come together."`
	Height int    `json:"height,omitempty"`
}

// PostEdit changes the fields that are not nil. An empty text or list removes the field, and NoData removes
// the data. A text, an image or data must remain.
type PostEdit struct {
	Text   *string         `json:"text,omitempty"`
	Images []Image         `json:"images,omitzero"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Post is a post. EditedAt is the zero time if the post was never edited, and ExpiresAt is the zero time
// if the post has no end.
type Post struct {
	ID        string          `json:"id" doc:"A ULID: ids order an author's posts by time."`
	AuthorID  string          `json:"author_id"`
	Text      string          `json:"text"`
	Images    []Image         `json:"images,omitempty" nullable:"false"`
	CreatedAt time.Time       `json:"created_at"`
	EditedAt  time.Time       `json:"edited_at,omitzero" doc:"Absent if the post was never edited."`
	Kind      string          `json:"kind,omitempty" doc:"The kind that the author gave, such as album."`
	Data      json.RawMessage `json:"data,omitempty"`
	Mentions  []string        `json:"mentions,omitempty" nullable:"false" doc:"Ids of users, also of unknown ones."`
	ExpiresAt time.Time       `json:"expires_at,omitzero" doc:"From then on no call shows the post."`
	// RepostOf is the original of a repost, and QuoteOf is the post that a post quotes. OfAuthorID is the author of either.
	RepostOf   string `json:"repost_of,omitempty" doc:"The original of a repost. A repost has no text of its own."`
	QuoteOf    string `json:"quote_of,omitempty" doc:"The post that the post quotes. It may be gone."`
	OfAuthorID string `json:"of_author_id,omitempty" doc:"The author of the post that repost_of or quote_of names."`
}

// CommentInput is a new comment. Only Text is required.
type CommentInput struct {
	Text     string          `json:"text"`
	Data     json.RawMessage `json:"data,omitempty"`
	Mentions []string        `json:"mentions,omitempty"`
}

// PostRange selects posts by time: by a day in UTC (YYYY-MM-DD), or by the time from Since (included) to
// Until (excluded). A zero Since or Until is no bound. The zero value selects all posts.
type PostRange struct {
	Day          string
	Since, Until time.Time
}

// Comment is a comment on a post.
type Comment struct {
	ID        string          `json:"id" doc:"A ULID."`
	PostID    string          `json:"post_id"`
	AuthorID  string          `json:"author_id"`
	Text      string          `json:"text"`
	CreatedAt time.Time       `json:"created_at"`
	Data      json.RawMessage `json:"data,omitempty"`
	Mentions  []string        `json:"mentions,omitempty" nullable:"false" doc:"Ids of users, also of unknown ones."`
	// Author is nil except in a list of WithUsers.
	Author *UserView `json:"author,omitempty" doc:"Only in a list of a post's comments with expand=view."`
	// Post is nil except in CommentViewsByUser.
	Post *PostView `json:"post,omitempty" doc:"Only in a list of a user's comments with expand=view."`
}

// Liker is a user who likes a post.
type Liker struct {
	UserID  string    `json:"user_id"`
	LikedAt time.Time `json:"liked_at"`
	// User is nil except in a list of WithUsers.
	User *UserView `json:"user,omitempty" doc:"Only with expand=view."`
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

// Reactor is a user with a reaction to a post.
type Reactor struct {
	UserID string    `json:"user_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

// ReactionCount has the numbers of users with a reaction to a post at AsOf, by kind.
type ReactionCount struct {
	Counts map[string]int64 `json:"counts" nullable:"false" doc:"Of each configured kind that somebody has."`
	AsOf   time.Time        `json:"as_of"`
}

// PostReaction is a post to which a user has a reaction.
type PostReaction struct {
	PostID string    `json:"post_id"`
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
}

// HomeItem is one post in a live home, and in a home that is read without views.
type HomeItem struct {
	Post      Post   `json:"post"`
	Author    Author `json:"author"`
	LikeCount int64  `json:"like_count"`
	// RepostCount is the number of living reposts of the post.
	RepostCount int64 `json:"repost_count" doc:"The number of reposts. It follows soon, as the like count."`
	Liked       bool  `json:"liked" doc:"True if you like the post."`
	// Reactions has the counts by kind of reaction, including likes. Reaction is the kind of the caller's
	// reaction, or "" for none. If only likes are configured, Reactions is nil and Reaction is "".
	Reactions    map[string]int64 `json:"reactions,omitzero" doc:"The number of users of each kind of reaction that somebody has, likes among them. Absent where only likes are configured."`
	Reaction     string           `json:"reaction,omitempty" doc:"The kind of your reaction. Absent if you have none, or where only likes are configured."`
	CommentCount int64            `json:"comment_count" doc:"The number of comments at the time of the read. The like count follows soon, this one is exact at once."`
	// Repost is the original of a repost, and Quote is the post that a post quotes. Quote is nil if that post is gone or
	// hidden from the caller.
	Repost *HomeItem `json:"repost,omitempty" doc:"The original of a repost: show it, and the author of the repost beside it."`
	Quote  *HomeItem `json:"quote,omitempty" doc:"The post that the post quotes. Absent if that post is gone or hidden from you."`
}

// PostView is a post with all values that a page shows.
type PostView struct {
	HomeItem
	Kept
	// LikedAt is the time at which the user liked the post, in a list of the user's liked posts. It is
	// the zero time in any other list.
	LikedAt time.Time `json:"liked_at,omitzero" doc:"In a list of liked posts: when the user of the list liked the post."`
	// BookmarkedAt is the time at which the caller made the bookmark, in BookmarkViews. It is the zero
	// time in any other list.
	BookmarkedAt time.Time `json:"bookmarked_at,omitzero" doc:"In your list of bookmarks: when you made the bookmark."`
}

// Kept has the things of the caller that belong to a post. The Kept of a repost is the Kept of its original.
type Kept struct {
	// Bookmarked is true for a bookmark of the caller, also while a block hides the post from the list of
	// bookmarks.
	Bookmarked bool `json:"bookmarked" doc:"True if you have a bookmark of the post. For a repost: of its original."`
	// Reposted is true while the caller has a repost of the post.
	Reposted bool `json:"reposted" doc:"True if you have reposted the post. For a repost: its original."`
}

// Found is the answer to a call that asks for several ids.
type Found[T any] struct {
	// Items has one item for each found id, in the order of the ids.
	Items []T `json:"items" nullable:"false" doc:"In the order of ids, each once."`
	// Missing has the ids that are unknown or whose objects were deleted.
	Missing []string `json:"missing" nullable:"false" doc:"The ids that are unknown or were deleted."`
	// Rest has the ids whose items did not fit into the answer. Another call can read these items.
	Rest []string `json:"rest,omitempty" doc:"Ids whose items would exceed 256 KiB of JSON: ask for them once more. Absent if all fit."`
}

// News has the posts of the caller's home that are newer than a given post.
type News struct {
	// Items has the newest of these posts, 20 at most. Home lists all of them.
	Items []PostView `json:"items"`
	// Unread is the number of all newer posts; 100 means 100 or more.
	Unread int `json:"unread"`
	// ETag identifies this answer.
	ETag string `json:"-"`
}

// Update is one event of a live home, or the opening of a connection. Only the fields of its kind are set.
type Update struct {
	// Open means that a connection sends all events from now on. Stale means that events were lost. Both
	// mean: read the page again. The page is right about all posts down to its last post, but it may lack posts of the
	// last ten seconds.
	Open, Stale bool
	// Entry is a post that came into the home. It may be older than the entry of the previous update.
	Entry *HomeItem
	// Edited is a post after an edit. Replace the post if the page shows it, also inside its reposts and quotes.
	Edited *HomeItem
	// Deleted is the deletion of a post. It may come twice. Its reposts leave the page, too.
	Deleted *DeletedUpdate
	// Changed has the id of an edited post that the home does not have. If the page shows the post inside a repost or a quote,
	// read the post again (PostViews).
	Changed *ChangedUpdate
	// Likes is the new like count of a post.
	Likes *LikesUpdate
	// Unread is the number of unread notifications; 10 means 10 or more.
	Unread *int
	// Place is the position of the stream, from which Live can continue. All earlier updates are before
	// this position.
	Place string
}

// DeletedUpdate is the deletion of a post.
type DeletedUpdate struct {
	PostID string `json:"post_id"`
}

// ChangedUpdate is the edit of a post.
type ChangedUpdate struct {
	PostID string `json:"post_id"`
}

// LikesUpdate is the new like count of a post.
type LikesUpdate struct {
	PostID string `json:"post_id"`
	Count  int64  `json:"count"`
	// Reactions has all counts by kind. It is nil if only likes are configured.
	Reactions map[string]int64 `json:"reactions,omitzero" doc:"All counts by kind of reaction. Absent where only likes are configured."`
}

// Author holds the values of an author that a home shows.
type Author struct {
	ID       string `json:"id"`
	Name     string `json:"name" doc:"A changed name follows soon, and so does image_url."`
	ImageURL string `json:"image_url"`
}

// HomeSource is the source from which a home is computed.
type HomeSource string

// Both sources show the same list.
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
	Reason      string        `json:"reason,omitempty"` // the reason of a cancelled delivery
	Planned     *int64        `json:"planned"`
	Delivered   *int64        `json:"delivered"`
	Skipped     *int64        `json:"skipped"` // the number of followers who were away
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
