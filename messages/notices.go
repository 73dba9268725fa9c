package messages

import "errors"

// Commented means that a comment is being made or deleted. The API sends it before the transaction,
// so that a crash in between loses nothing. The consumer looks the comment up in the table.
type Commented struct {
	Header
	PostID string `json:"post_id" id:"ulid"`
	// AuthorID is the post's author, UserID the comment's author.
	AuthorID  string `json:"author_id" id:"user,group"`
	CommentID string `json:"comment_id" id:"ulid"`
	UserID    string `json:"user_id" id:"user"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// Mentioned means that a post or a comment mentions a user. For a comment it is sent together with
// Commented.
type Mentioned struct {
	Header
	// UserID is the mentioned user, ActorID the author of the post or the comment.
	UserID  string `json:"user_id" id:"user,group"`
	ActorID string `json:"actor_id" id:"user"`
	PostID  string `json:"post_id" id:"ulid"`
	// CommentID is the comment of the post that mentions the user, absent if the post itself does.
	CommentID string `json:"comment_id,omitempty" id:"ulid"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// Reposted means that a repost was written, or is being ended. The consumer of the notices looks the repost up in the table.
// The aggregator of likes counts the repost: there EventID is the version, which is the repost's id, or an id above it for the
// end. So the end is sent after the repost has ended.
type Reposted struct {
	Header
	// PostID is the original, AuthorID its author, and UserID the author of the repost. The count needs neither user.
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id,omitempty" id:"user,group"`
	RepostID string `json:"repost_id" id:"ulid"`
	UserID   string `json:"user_id,omitempty" id:"user"`
	Deleted  bool   `json:"deleted,omitempty"`
}

// Notified means that a user has a new notification, or that a notification has changed. The event is sent
// after the check of mutes and blocks, so a push or a mail can follow. The event's id is the place of the
// action in the user's list.
type Notified struct {
	Header
	UserID string `json:"user_id" id:"user,group"`
	// NoticeKind is the kind of the notification, and Target its post, absent for a follow.
	NoticeKind string `json:"kind" jsonschema:"enum=like,enum=comment,enum=follow,enum=mention,enum=repost"`
	Target     string `json:"target,omitempty" id:"ulid"`
	ActorID    string `json:"actor_id" id:"user"`
}

func (e *Notified) check() error {
	if e.NoticeKind == "" {
		return errors.New("kind is missing")
	}
	return nil
}
