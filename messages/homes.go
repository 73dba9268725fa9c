package messages

import (
	"errors"
	"fmt"
)

// Followed means that a follow was committed. It requests the backfill: a copy of the
// author's recent posts into the follower's timeline.
type Followed struct {
	Header
	FollowerID string `json:"follower_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	AuthorID   string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// From is the lowest post id that the home shows of this author.
	From string `json:"from" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// MarkVersion is the version of the home mark that this backfill may end.
	MarkVersion string `json:"mark_version" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// FollowID is the id of the event about the follow for other programs. It is absent if
	// there is no such event: an import or a repair makes no new follow.
	FollowID string `json:"follow_id,omitempty" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
}

// Unfollowed requests the removal of an unfollowed author's entries from the timeline of a
// former follower. A home read that had to skip many entries sends it.
type Unfollowed struct {
	Header
	FollowerID string `json:"follower_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	AuthorID   string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// MarkVersion is the version of the home mark of the unfollow. The removal ends when
	// another mark is stored.
	MarkVersion string `json:"mark_version" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// Before is the post below which the removal continues, "" for the newest entry.
	Before string `json:"before,omitempty" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
}

// MarkWalk requests the next step of the mark walk of an author whose mode is changing.
// The walk prepares the homes of all followers for pulled posts, or ends that.
type MarkWalk struct {
	Header
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// Walker is the first event of the walk, "" in that event itself. If there are
	// several walks, one continues and the rest wait.
	Walker string `json:"walker,omitempty" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
}

// Seen means that a reader read its home, and that its edges need later days: they have
// no day yet, or their last day is near.
type Seen struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
}

// Returned means that a reader came back after fan-out may have skipped posts. It requests
// the entries that the reader's home lacks.
type Returned struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// V is the number of the return. The message ends only this return.
	V int64 `json:"v" jsonschema:"minimum=1"`
}

// Kind implements Event.
func (*Followed) Kind() Kind { return KindFollowed }

// Kind implements Event.
func (*Unfollowed) Kind() Kind { return KindUnfollowed }

// Kind implements Event.
func (*MarkWalk) Kind() Kind { return KindMarkWalk }

// Kind implements Event.
func (*Seen) Kind() Kind { return KindSeen }

// Kind implements Event.
func (*Returned) Kind() Kind { return KindReturned }

// Group implements Event: a follower's backfills wait for each other.
func (e *Followed) Group() string { return e.FollowerID }

// Group implements Event: the removals of a follower wait for each other.
func (e *Unfollowed) Group() string { return e.FollowerID }

// Group implements Event: an author's walks wait for each other.
func (e *MarkWalk) Group() string { return e.AuthorID }

// Group implements Event: the refreshes of a reader wait for each other.
func (e *Seen) Group() string { return e.UserID }

// Group implements Event: the returns of a reader wait for each other.
func (e *Returned) Group() string { return e.UserID }

func (e *Followed) check() error {
	err := errors.Join(userID("follower_id", e.FollowerID), userID("author_id", e.AuthorID),
		ulid("from", e.From), ulid("mark_version", e.MarkVersion))
	if e.FollowID != "" {
		err = errors.Join(err, ulid("follow_id", e.FollowID))
	}
	return err
}

func (e *Unfollowed) check() error {
	err := errors.Join(userID("follower_id", e.FollowerID), userID("author_id", e.AuthorID), ulid("mark_version", e.MarkVersion))
	if e.Before != "" {
		err = errors.Join(err, ulid("before", e.Before))
	}
	return err
}

func (e *MarkWalk) check() error {
	err := userID("author_id", e.AuthorID)
	if e.Walker != "" {
		err = errors.Join(err, ulid("walker", e.Walker))
	}
	return err
}

func (e *Seen) check() error { return userID("user_id", e.UserID) }

func (e *Returned) check() error {
	err := userID("user_id", e.UserID)
	if e.V < 1 {
		err = errors.Join(err, fmt.Errorf("v is %d, below 1", e.V))
	}
	return err
}
