package messages

// Followed means that a follow was committed. It requests the backfill: a copy of the
// author's recent posts into the follower's timeline.
type Followed struct {
	Header
	FollowerID string `json:"follower_id" id:"user,group"`
	AuthorID   string `json:"author_id" id:"user"`
	// From is the lowest post id that the home shows of this author.
	From string `json:"from" id:"ulid"`
	// MarkVersion is the version of the home mark that this backfill may end.
	MarkVersion string `json:"mark_version" id:"ulid"`
	// FollowID is the id of the event about the follow for other programs. It is absent if
	// there is no such event: an import or a repair makes no new follow.
	FollowID string `json:"follow_id,omitempty" id:"ulid"`
}

// Unfollowed requests the removal of an unfollowed author's entries from the timeline of a
// former follower. A home read that had to skip many entries sends it. On the topic of notices it takes
// the notification of the follow back: it is sent before the transaction, and the consumer looks the mark up.
type Unfollowed struct {
	Header
	FollowerID string `json:"follower_id" id:"user,group"`
	AuthorID   string `json:"author_id" id:"user"`
	// MarkVersion is the version of the home mark of the unfollow. The removal ends when
	// another mark is stored.
	MarkVersion string `json:"mark_version" id:"ulid"`
	// Before is the post below which the removal continues, "" for the newest entry.
	Before string `json:"before,omitempty" id:"ulid"`
}

// MarkWalk requests the next step of the mark walk of an author whose mode is changing.
// The walk prepares the homes of all followers for pulled posts, or ends that.
type MarkWalk struct {
	Header
	AuthorID string `json:"author_id" id:"user,group"`
	// Walker is the first event of the walk, "" in that event itself. If there are
	// several walks, one continues and the rest wait.
	Walker string `json:"walker,omitempty" id:"ulid"`
}

// Seen means that a reader read its home, and that its edges need later days: they have
// no day yet, or their last day is near.
type Seen struct {
	Header
	UserID string `json:"user_id" id:"user,group"`
}

// Returned means that a reader came back after fan-out may have skipped posts. It requests
// the entries that the reader's home lacks.
type Returned struct {
	Header
	UserID string `json:"user_id" id:"user,group"`
	// V is the number of the return. The message ends only this return.
	V int64 `json:"v" jsonschema:"minimum=1"`
}

func (e *Returned) check() error { return atLeastOne("v", e.V) }
