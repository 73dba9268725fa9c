package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Me reads the caller's own profile. Before the first PutMe, Me fails with a 409 of type profile-missing.
func (c *Client) Me(ctx context.Context) (User, error) {
	return get[User](ctx, c, path("v1", "me"))
}

// PutMe replaces the caller's profile. The first call creates the user.
func (c *Client) PutMe(ctx context.Context, in ProfileInput) (User, error) {
	var user User
	err := c.do(ctx, call{method: http.MethodPut, path: path("v1", "me"), body: in}, &user)
	return user, err
}

// DeleteMe deletes the caller: the profile at once, and posts, follows, comments and likes soon after.
// The call may be repeated.
func (c *Client) DeleteMe(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "me")}, nil)
}

// User reads a profile with its counts.
func (c *Client) User(ctx context.Context, id string) (User, error) {
	return get[User](ctx, c, path("v1", "users", id))
}

// Profile reads a user's profile, with the follows between the user and the caller.
func (c *Client) Profile(ctx context.Context, id string) (User, error) {
	return query[User](ctx, c, view(), "v1", "users", id)
}

// Users reads up to 100 users by their ids.
func (c *Client) Users(ctx context.Context, ids ...string) (Found[UserView], error) {
	return query[Found[UserView]](ctx, c, url.Values{"ids": {strings.Join(ids, ",")}}, "v1", "users")
}

// Followers lists the followers of a user, by user id.
func (c *Client) Followers(id string) List[Edge] {
	return list[Edge](c, nil, "v1", "users", id, "followers")
}

// Following lists the users that a user follows, by user id. Only the user sees silent follows.
func (c *Client) Following(id string) List[Edge] {
	return list[Edge](c, nil, "v1", "users", id, "following")
}

// Friends lists the users who follow a user and whom the user follows, by user id.
func (c *Client) Friends(id string) List[Edge] {
	return list[Edge](c, nil, "v1", "users", id, "friends")
}

// Follow makes the caller follow a user. The call is idempotent.
func (c *Client) Follow(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "following", id)}, nil)
}

// FollowSilently is Follow for a follow that only the caller sees, for example a follow of a list. It has no notification, is
// in no list of another user, and is not in the number of followers. An existing follow does not change.
func (c *Client) FollowSilently(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "following", id), query: url.Values{"silent": {"true"}}}, nil)
}

// Unfollow ends a follow. The caller's home changes at once. The call is idempotent.
func (c *Client) Unfollow(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "me", "following", id)}, nil)
}

// Block ends the follows between the caller and a user, and refuses follows, comments and likes between
// the two users: both get a 403 of type blocked. The call is idempotent.
func (c *Client) Block(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "blocks", id)}, nil)
}

// Unblock ends a block by the caller. The call is idempotent.
func (c *Client) Unblock(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "me", "blocks", id)}, nil)
}

// Blocks lists the users that the caller blocks, by user id.
func (c *Client) Blocks() List[Edge] { return list[Edge](c, nil, "v1", "me", "blocks") }

// Mute hides the posts of a user from the caller's home, at once. The call is idempotent.
func (c *Client) Mute(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "me", "mutes", id)}, nil)
}

// Unmute ends a mute: the home shows the posts again at once. The call is idempotent.
func (c *Client) Unmute(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "me", "mutes", id)}, nil)
}

// Mutes lists the users that the caller mutes, by user id.
func (c *Client) Mutes() List[Edge] { return list[Edge](c, nil, "v1", "me", "mutes") }

// Relationship reads which of the users id and other follows the other one.
func (c *Client) Relationship(ctx context.Context, id, other string) (Relationship, error) {
	return get[Relationship](ctx, c, path("v1", "users", id, "relationships", other))
}

// CreatePost creates a post.
func (c *Client) CreatePost(ctx context.Context, in PostInput) (Post, error) {
	if in.IdempotencyKey == "" {
		in.IdempotencyKey = rand.Text()
	}
	var post Post
	err := c.do(ctx, call{method: http.MethodPost, path: path("v1", "posts"), body: in, key: in.IdempotencyKey}, &post)
	return post, err
}

// Post reads a post.
func (c *Client) Post(ctx context.Context, id string) (Post, error) {
	return get[Post](ctx, c, path("v1", "posts", id))
}

// PostView reads a post with its author, its counts and the caller's like.
func (c *Client) PostView(ctx context.Context, id string) (PostView, error) {
	return query[PostView](ctx, c, view(), "v1", "posts", id)
}

// PostViews reads up to 100 posts by their ids.
func (c *Client) PostViews(ctx context.Context, ids ...string) (Found[PostView], error) {
	return query[Found[PostView]](ctx, c, url.Values{"ids": {strings.Join(ids, ",")}}, "v1", "posts")
}

// EditPost changes the caller's own post. The client sends the call once, because a retry could undo
// another edit.
func (c *Client) EditPost(ctx context.Context, id string, edit PostEdit) (Post, error) {
	var post Post
	err := c.do(ctx, call{method: http.MethodPatch, path: path("v1", "posts", id), body: edit}, &post)
	return post, err
}

// DeletePost deletes the caller's own post permanently.
func (c *Client) DeletePost(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "posts", id)}, nil)
}

// TakeDown deletes a post of any user permanently, with a reason of one line for the post's author. The
// token must be a service's token with the scopes fanfare:act and fanfare:delete, and ActAs has no
// effect. A second call returns the reason of the first call, and does not change the reason.
func (c *Client) TakeDown(ctx context.Context, post, reason string) (TakenDown, error) {
	body := struct {
		Reason string `json:"reason"`
	}{reason}
	var down TakenDown
	err := c.do(ctx, call{method: http.MethodPut, path: path("v1", "posts", post, "takedown"), body: body}, &down)
	return down, err
}

// PostsByUser lists a user's posts, newest first.
func (c *Client) PostsByUser(id string, span PostRange) List[Post] {
	return list[Post](c, span.query(), "v1", "users", id, "posts")
}

// PostViewsByUser lists a user's posts as PostsByUser does, with all values that a page shows.
func (c *Client) PostViewsByUser(id string, span PostRange) List[PostView] {
	query := span.query()
	query.Set("expand", "view")
	return list[PostView](c, query, "v1", "users", id, "posts")
}

func (span PostRange) query() url.Values {
	query := url.Values{}
	if span.Day != "" {
		query.Set("day", span.Day)
	}
	if !span.Since.IsZero() {
		query.Set("since", span.Since.UTC().Format(time.RFC3339Nano))
	}
	if !span.Until.IsZero() {
		query.Set("until", span.Until.UTC().Format(time.RFC3339Nano))
	}
	return query
}

// CreateComment adds a comment that has only a text.
func (c *Client) CreateComment(ctx context.Context, post, text string) (Comment, error) {
	return c.AddComment(ctx, post, CommentInput{Text: text})
}

// AddComment comments on a post. The client sends the call once, because the service could not
// distinguish a retry from a second comment.
func (c *Client) AddComment(ctx context.Context, post string, in CommentInput) (Comment, error) {
	var comment Comment
	err := c.do(ctx, call{method: http.MethodPost, path: path("v1", "posts", post, "comments"), body: in}, &comment)
	return comment, err
}

// Comments lists the comments on a post, oldest first.
func (c *Client) Comments(post string) List[Comment] {
	return list[Comment](c, nil, "v1", "posts", post, "comments")
}

// DeleteComment deletes a comment. The comment's author and the post's author may delete it.
func (c *Client) DeleteComment(ctx context.Context, post, comment string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "posts", post, "comments", comment)}, nil)
}

// CommentsByUser lists a user's comments, newest first.
func (c *Client) CommentsByUser(id string) List[Comment] {
	return list[Comment](c, nil, "v1", "users", id, "comments")
}

// CommentViewsByUser lists a user's comments as CommentsByUser does, with their posts.
func (c *Client) CommentViewsByUser(id string) List[Comment] {
	return list[Comment](c, view(), "v1", "users", id, "comments")
}

// Repost reposts a post to the caller's followers, or returns the caller's repost of the post. A repost of a repost is a
// repost of its original.
func (c *Client) Repost(ctx context.Context, post string) (Post, error) {
	var repost Post
	err := c.do(ctx, call{method: http.MethodPut, path: path("v1", "posts", post, "repost")}, &repost)
	return repost, err
}

// EndRepost ends the caller's repost of a post. The call is idempotent.
func (c *Client) EndRepost(ctx context.Context, post string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "posts", post, "repost")}, nil)
}

// Like makes the caller like a post. The count changes within two like windows.
func (c *Client) Like(ctx context.Context, post string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "posts", post, "like")}, nil)
}

// Unlike takes the caller's like back.
func (c *Client) Unlike(ctx context.Context, post string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("v1", "posts", post, "like")}, nil)
}

// React replaces the caller's reaction to a post by a reaction of a kind. The counts change within two
// like windows.
func (c *Client) React(ctx context.Context, post, kind string) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("v1", "posts", post, "reactions", kind)}, nil)
}

// Unreact takes the caller's reaction back, whatever its kind is.
func (c *Client) Unreact(ctx context.Context, post string) error { return c.Unlike(ctx, post) }

// Reactions lists the users with a reaction to a post, by user id. kind selects one kind of reaction, and ""
// selects all kinds.
func (c *Client) Reactions(post, kind string) List[Reactor] {
	query := url.Values{}
	if kind != "" {
		query.Set("kind", kind)
	}
	return list[Reactor](c, query, "v1", "posts", post, "reactions")
}

// ReactionCount counts the reactions to a post by kind.
func (c *Client) ReactionCount(ctx context.Context, post string) (ReactionCount, error) {
	return get[ReactionCount](ctx, c, path("v1", "posts", post, "reactions", "count"))
}

// ReactionOf reads a user's reaction to a post. It fails with ErrNotFound if there is no reaction.
func (c *Client) ReactionOf(ctx context.Context, post, user string) (Reactor, error) {
	return get[Reactor](ctx, c, path("v1", "posts", post, "reactions", "by", user))
}

// ReactionsByUser lists the posts to which a user has a reaction, newest first.
func (c *Client) ReactionsByUser(id string) List[PostReaction] {
	return list[PostReaction](c, nil, "v1", "users", id, "reactions")
}

// Likers lists the users who like a post, by user id.
func (c *Client) Likers(post string) List[Liker] {
	return list[Liker](c, nil, "v1", "posts", post, "likes")
}

// LikeCount reads the number of users who like a post.
func (c *Client) LikeCount(ctx context.Context, post string) (LikeCount, error) {
	return get[LikeCount](ctx, c, path("v1", "posts", post, "likes", "count"))
}

// LikeOf reads a user's like of a post. It fails with ErrNotFound if there is no like.
func (c *Client) LikeOf(ctx context.Context, post, user string) (Liker, error) {
	return get[Liker](ctx, c, path("v1", "posts", post, "likes", user))
}

// LikesByUser lists the posts that a user likes, newest first.
func (c *Client) LikesByUser(id string) List[LikedPost] {
	return list[LikedPost](c, nil, "v1", "users", id, "likes")
}

// LikedPostViews lists the posts that a user likes, newest first, with all values that a page shows.
func (c *Client) LikedPostViews(id string) List[PostView] {
	return list[PostView](c, view(), "v1", "users", id, "likes")
}

// Home lists the caller's home, newest first, with all values that a page shows.
func (c *Client) Home(source HomeSource) List[PostView] {
	query := view()
	if source != Push {
		query.Set("source", string(source))
	}
	return list[PostView](c, query, "v1", "home")
}

// News reads the posts of the caller's home that are newer than the post after, newest first. last is the
// previous answer for the same after, or the zero News. If the home has not changed since last, the service
// answers without a body, and News returns last.
func (c *Client) News(ctx context.Context, after string, last News) (News, error) {
	var news News
	query := view()
	query.Set("after", after)
	err := c.do(ctx, call{method: http.MethodGet, path: path("v1", "home"), query: query, known: last.ETag, etag: &news.ETag}, &news)
	if err == nil && last.ETag != "" && news.ETag == last.ETag {
		return last, nil
	}
	return news, err
}

// Delivery reads the progress of the delivery of the caller's own post.
func (c *Client) Delivery(ctx context.Context, post string) (Delivery, error) {
	return get[Delivery](ctx, c, path("v1", "posts", post, "delivery"))
}

// DevToken requests a token of a user from a service in development mode. The token is valid for ttl; 0
// is the service's default. The scope fanfare:act makes it a service's token, for ActAs. With
// fanfare:delete in addition, the service may delete its users.
func (c *Client) DevToken(ctx context.Context, user string, ttl time.Duration, scopes ...string) (DevToken, error) {
	body := struct {
		UserID string `json:"user_id"`
		TTL    int64  `json:"ttl_s,omitempty"`
		Scope  string `json:"scope,omitempty"`
	}{user, int64(ttl / time.Second), strings.Join(scopes, " ")}
	// A second token is harmless, so the call may be repeated.
	var token DevToken
	err := c.do(ctx, call{method: http.MethodPost, path: path("v1", "dev", "token"), body: body, repeat: true, open: true}, &token)
	return token, err
}

// BeAway gives the caller a last visit that is older than the service's active days, until the caller
// reads the home. Only a service in development mode has this call.
func (c *Client) BeAway(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: path("v1", "dev", "away"), repeat: true}, nil)
}

// WithUsers returns the same list, with a view of the user in each item. The list has followers,
// followed, muted or blocked users, friends, likers or comments of a post.
func WithUsers[T Edge | Liker | Comment](l List[T]) List[T] {
	l.query = view()
	return l
}

// view returns the parameter that requests all values that a page shows.
func view() url.Values { return url.Values{"expand": {"view"}} }

func query[T any](ctx context.Context, c *Client, query url.Values, parts ...string) (T, error) {
	var out T
	err := c.do(ctx, call{method: http.MethodGet, path: path(parts...), query: query}, &out)
	return out, err
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	err := c.do(ctx, call{method: http.MethodGet, path: path}, &out)
	return out, err
}

func list[T any](c *Client, query url.Values, parts ...string) List[T] {
	return List[T]{client: c, path: path(parts...), query: query}
}
