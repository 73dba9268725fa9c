package messages

import (
	"errors"
	"fmt"
	"strings"
)

// Liked means that a user likes a post. EventID is the version of the user's action: the
// action with the higher id is the later one.
type Liked struct{ Like }

// Unliked means that a user no longer has a reaction to a post, of whatever kind it was.
type Unliked struct{ Like }

// Reacted means that a user's reaction to a post has a kind other than like. It replaces the user's
// former reaction.
type Reacted struct {
	Like
	Reaction string `json:"kind" jsonschema:"pattern=^[a-z][a-z0-9]{0\\,11}$"`
}

// Like is the content of Liked, Unliked and Reacted. The ids of all three kinds are versions in one order.
type Like struct {
	Header
	PostID string `json:"post_id" id:"ulid,group"`
	UserID string `json:"user_id" id:"user"`
	// AuthorID is the post's author, and LikeShards is the post's number of like shards. A producer may omit
	// both. Then the consumer reads them from the table.
	AuthorID   string `json:"author_id,omitempty" id:"user"`
	LikeShards int    `json:"like_shards,omitempty" jsonschema:"minimum=0,maximum=100"`
	// Stored is a hint that the user has acted on the post before. Then the consumer reads
	// first, because its put would fail.
	Stored bool `json:"stored,omitempty"`
}

// LikeCounted means that a user's action on a post is in the post's like count. The event's
// id is the id of the action's event.
type LikeCounted struct {
	Header
	PostID   string `json:"post_id" id:"ulid,group"`
	AuthorID string `json:"author_id" id:"user"`
	UserID   string `json:"user_id" id:"user"`
	// Reaction is the kind of the user's reaction, "" for none. Liked reports whether the kind is like.
	Reaction string `json:"kind" jsonschema:"pattern=^([a-z][a-z0-9]{0\\,11})?$"`
	Liked    bool   `json:"liked"`
	// LikeCount is the post's count with this action and other actions of the same flush.
	// It is absent if an earlier attempt made the flush.
	LikeCount *int64 `json:"like_count,omitempty" jsonschema:"minimum=0"`
}

func (e *Like) check() error { return shards(e.LikeShards) }

func (e *Reacted) check() error {
	err := e.Like.check()
	if !ValidReaction(e.Reaction) || e.Reaction == KindLike {
		err = errors.Join(err, fmt.Errorf("kind %q is no reaction: it must be 1 to %d of a-z 0-9 that begin with a letter, and like is a Liked", e.Reaction, MaxReaction))
	}
	return err
}

func (e *LikeCounted) check() error {
	if e.Reaction != "" && !ValidReaction(e.Reaction) || e.Liked != (e.Reaction == KindLike) {
		return fmt.Errorf("kind %q and liked %v do not go together", e.Reaction, e.Liked)
	}
	return nil
}

const (
	// KindLike is the kind of reaction that every system has.
	KindLike = "like"
	// KindRepost is the kind of the reposts among the counts of a post. ValidReaction refuses it, so no reaction has it.
	KindRepost = "~repost"
	// MaxReaction is the longest name of a kind of reaction.
	MaxReaction = 12
)

// ValidReaction reports whether s can be a kind of reaction.
func ValidReaction(s string) bool {
	return s != "" && len(s) <= MaxReaction && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// Action returns the event for a user's new reaction to a post, "" for none.
func Action(like Like, reaction string) Event {
	switch reaction {
	case "":
		return &Unliked{like}
	case KindLike:
		return &Liked{like}
	default:
		return &Reacted{like, reaction}
	}
}

// Reposter returns the name under which a repost counts, in the place of a user. It is no user id.
func Reposter(repost string) string { return reposter + repost }

// RepostBy returns the repost that counts under a name. ok is false for a user.
func RepostBy(name string) (repost string, ok bool) { return strings.CutPrefix(name, reposter) }

// IsReposter reports whether a repost counts under a name.
func IsReposter(name string) bool { return strings.HasPrefix(name, reposter) }

const reposter = "~"

// ActionOf returns the content of an event that Action makes, and its kind of reaction. A repost counts as an action of its
// own, whatever its user did before: the ids of two reposts by one user may be in any order. ok is false for other events.
func ActionOf(e Event) (like *Like, reaction string, ok bool) {
	switch e := e.(type) {
	case *Liked:
		return &e.Like, KindLike, true
	case *Unliked:
		return &e.Like, "", true
	case *Reacted:
		return &e.Like, e.Reaction, true
	case *Reposted:
		reaction = KindRepost
		if e.Deleted {
			reaction = ""
		}
		return &Like{Header: e.Header, PostID: e.PostID, UserID: Reposter(e.RepostID), AuthorID: e.AuthorID}, reaction, true
	}
	return nil, "", false
}
