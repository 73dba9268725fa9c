package messages

import "errors"

// The kinds of event about notifications. The consumer of notices also reads LikeCounted and Followed.
const (
	KindCommented Kind = "Commented"
	KindMentioned Kind = "Mentioned"
	// KindNotified is sent only to other programs: see PostDelivered.
	KindNotified Kind = "Notified"
)

// Commented means that a comment is being made or deleted. The API sends it before the transaction,
// so that a crash in between loses nothing. The consumer looks the comment up in the table.
type Commented struct {
	Header
	PostID string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// AuthorID is the post's author, UserID the comment's author.
	AuthorID  string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	CommentID string `json:"comment_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	UserID    string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// Mentioned means that a post or a comment mentions a user. For a comment it is sent together with
// Commented.
type Mentioned struct {
	Header
	// UserID is the mentioned user, ActorID the author of the post or the comment.
	UserID  string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	ActorID string `json:"actor_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	PostID  string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// CommentID is the comment of the post that mentions the user, absent if the post itself does.
	CommentID string `json:"comment_id,omitempty" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// Notified means that a user has a new notification, or that a notification has changed. The event is sent
// after the check of mutes and blocks, so a push or a mail can follow. The event's id is the place of the
// action in the user's list.
type Notified struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// NoticeKind is the kind of the notification, and Target its post, absent for a follow.
	NoticeKind string `json:"kind" jsonschema:"enum=like,enum=comment,enum=follow,enum=mention"`
	Target     string `json:"target,omitempty" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	ActorID    string `json:"actor_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
}

// Kind implements Event.
func (*Commented) Kind() Kind { return KindCommented }

// Kind implements Event.
func (*Mentioned) Kind() Kind { return KindMentioned }

// Kind implements Event.
func (*Notified) Kind() Kind { return KindNotified }

// Group implements Event: the notices for a user wait for each other.
func (e *Commented) Group() string { return e.AuthorID }

// Group implements Event: the notices for a user wait for each other.
func (e *Mentioned) Group() string { return e.UserID }

// Group implements Event.
func (e *Notified) Group() string { return e.UserID }

func (e *Commented) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), ulid("comment_id", e.CommentID), userID("user_id", e.UserID))
}

func (e *Mentioned) check() error {
	err := errors.Join(userID("user_id", e.UserID), userID("actor_id", e.ActorID), postID(e.PostID))
	if e.CommentID != "" {
		err = errors.Join(err, ulid("comment_id", e.CommentID))
	}
	return err
}

func (e *Notified) check() error {
	err := errors.Join(userID("user_id", e.UserID), userID("actor_id", e.ActorID))
	if e.NoticeKind == "" {
		err = errors.Join(err, errors.New("kind is missing"))
	}
	if e.Target != "" {
		err = errors.Join(err, ulid("target", e.Target))
	}
	return err
}
