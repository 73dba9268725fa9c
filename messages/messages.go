// Package messages defines the events that Fanfare's processes and other producers
// exchange through queues: their types, their JSON, their versions.
//
// An event is one flat JSON object: type, version, event_id, time, and the
// fields of its type. The wire rules:
//
//   - Unknown fields are ignored, so that a newer producer may add fields. Otherwise the
//     JSON is strict (package strictjson): a name matches letter by letter, and occurs
//     once.
//   - An unknown type, an unknown version or a bad payload is a *PermanentError:
//     redelivery cannot help, so the consumer dead-letters it with the reason (I6).
//   - Consumers learn a new version before any producer sends it.
//   - Fields that only Fanfare's own API can fill are optional, because other
//     producers may publish PostCreated, Liked and Unliked themselves.
//   - The payload is valid UTF-8, and SQS accepts it whatever its text is: control
//     characters, U+FFFE and U+FFFF are escaped.
//
// The golden files in testdata pin the wire format. The JSON Schema files in schema
// are generated from these types. The package must never know a queue or a table.
package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/strictjson"
)

// Version is the schema version that this package writes, and the newest version that it
// reads.
const Version = 1

// Kind names the type of an event, on the wire and in logs.
type Kind string

// The kinds of event.
const (
	KindPostCreated    Kind = "PostCreated"
	KindLiked          Kind = "Liked"
	KindUnliked        Kind = "Unliked"
	KindReacted        Kind = "Reacted"
	KindFollowed       Kind = "Followed"
	KindUnfollowed     Kind = "Unfollowed"
	KindPostDeleted    Kind = "PostDeleted"
	KindMarkWalk       Kind = "MarkWalk"
	KindSeen           Kind = "Seen"
	KindReturned       Kind = "Returned"
	KindUserForgotten  Kind = "UserForgotten"
	KindProfileChanged Kind = "ProfileChanged"
	KindFanoutPlan     Kind = "FanoutPlan"
	KindFanoutChunk    Kind = "FanoutChunk"
	// KindPostDelivered is sent only to other programs, KindLikeCounted also to the
	// notices: see PostDelivered.
	KindPostDelivered Kind = "PostDelivered"
	KindLikeCounted   Kind = "LikeCounted"
	// KindPostTakenDown is sent only to other programs.
	KindPostTakenDown Kind = "PostTakenDown"
)

// The limits of a post, in Unicode code points.
const (
	MaxText     = 5000
	MaxImageURL = 2048
)

// MaxAge is the largest age, by the time of its id, at which a consumer applies an event
// and a redrive sends it again. The guards against a second application only have to live
// longer than MaxAge; docs/LIKES.md names the guards of likes.
const MaxAge = 30 * 24 * time.Hour

// MaxAhead bounds how far the id of an event, or of its post, may be ahead of a
// consumer's clock. An event from further ahead waits.
const MaxAhead = 5 * time.Minute

// MaxWait bounds how long an event from further ahead waits until it is due. It is below
// the 14 days for which SQS keeps a message.
const MaxWait = 24 * time.Hour

// Event is one of this package's pointer types.
type Event interface {
	Kind() Kind
	// Head returns the part that all events share, to read and to fill.
	Head() *Header
	// Group is the key of fairness: a message waits for the messages of its own group,
	// and not for messages of other groups.
	Group() string
	// check returns the errors of the fields of this type.
	check() error
}

// Header is the part that all events share.
type Header struct {
	// EventID is a ULID, new for each event. Its time is the event's age.
	EventID string `json:"event_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	// Time is the time at which the event was made, RFC 3339, UTC.
	Time time.Time `json:"time"`
	// RequestID is the id of the HTTP request that caused the event, for logs.
	RequestID string `json:"request_id,omitempty"`
}

// Head implements Event.
func (h *Header) Head() *Header { return h }

// PostCreated means that a post exists: it is the durable commit of a post, put on the
// queue before the table is written.
type PostCreated struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	Text     string `json:"text"`
	ImageURL string `json:"image_url,omitempty"`
	// LikeShards is the number of partitions of the post's like list. It never changes.
	// Fanfare's API always sets it. Another producer omits it: then the worker decides
	// the number, and writes the post without a look for the API's write.
	LikeShards int `json:"like_shards,omitempty" jsonschema:"minimum=0,maximum=100"`
	// PostKind, Data, Mentions and ExpiresAt are optional: see post.go.
	PostKind  string          `json:"kind,omitempty" jsonschema:"pattern=^[a-z][a-z0-9_.-]{0\\,31}$"`
	Data      json.RawMessage `json:"data,omitempty" jsonschema:"type=object"`
	Mentions  []string        `json:"mentions,omitempty" jsonschema:"maxItems=50,uniqueItems=true,pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
}

// Liked means that a user likes a post. EventID is the version of the user's action: the
// action with the higher id is the later one.
type Liked struct{ Like }

// Unliked means that a user has no reaction to a post any more, of whatever kind it was.
type Unliked struct{ Like }

// Reacted means that a user's reaction to a post has a kind other than like. It replaces the user's
// former reaction.
type Reacted struct {
	Like
	Reaction string `json:"kind" jsonschema:"pattern=^[a-z][a-z0-9]{0\\,11}$"`
}

// Like is the content of Liked, Unliked and Reacted. The ids of all three are versions in one order.
type Like struct {
	Header
	PostID string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// AuthorID is the post's author and LikeShards its number of like shards. A producer
	// may omit them; then the consumer reads them from the table.
	AuthorID   string `json:"author_id,omitempty" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	LikeShards int    `json:"like_shards,omitempty" jsonschema:"minimum=0,maximum=100"`
	// Stored is a hint that the user has acted on the post before. Then the consumer reads
	// first, because its put would fail.
	Stored bool `json:"stored,omitempty"`
}

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

// PostDeleted means that a post was deleted, and requests the removal of the post's comments
// and likes. The call whose transaction deleted the post, or may have, sends the message after
// the transaction. If a crash in between loses the message, an auditor sends it.
type PostDeleted struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// Mentions are the ids that the post mentioned.
	Mentions []string `json:"mentions,omitempty" jsonschema:"maxItems=50,uniqueItems=true,pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
}

// UserForgotten requests the removal of a user, and of all that the user made before the
// event.
type UserForgotten struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
}

// ProfileChanged requests the change of a user's name or image in the user's recent posts. It
// is sent before the profile changes, so that a crash in between loses nothing.
type ProfileChanged struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// V is the version of the changed profile.
	V int64 `json:"v" jsonschema:"minimum=1"`
	// Before is the post below which the change continues, "" for the newest post.
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

// FanoutPlan asks a planner to continue to cut a post's followers into chunks.
type FanoutPlan struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// First is the first key of the chunk to plan next, "" for the open start.
	First string `json:"first,omitempty"`
}

// FanoutChunk asks a worker to deliver a post to the followers of one key range.
type FanoutChunk struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// First is the lowest follower id of the range, "" for the open start. It names the
	// chunk in the post's delivery record.
	First string `json:"first,omitempty"`
	// End is the lowest follower id above the range, "" for the open end.
	End string `json:"end,omitempty"`
}

// PostDelivered means that the delivery of a post is complete. Fanfare sends it, LikeCounted,
// Followed, Notified and PostTakenDown to the queue that FANFARE_EVENTS_QUEUE names, and never reads
// that queue. The event's id is the post's id.
type PostDelivered struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// Delivered is the number of followers with the post in their timelines. Skipped is
	// the number of away followers: they get the post when they return.
	Delivered int64 `json:"delivered" jsonschema:"minimum=0"`
	Skipped   int64 `json:"skipped" jsonschema:"minimum=0"`
	// Pulled means that the post is in no timeline: its author has very many followers, and
	// homes read its posts from the author's own list.
	Pulled bool `json:"pulled"`
}

// LikeCounted means that a user's action on a post is in the post's like count. The event's
// id is the id of the action's event.
type LikeCounted struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	UserID   string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// Reaction is the kind of the user's reaction, "" for none, and Liked reports whether it is like.
	Reaction string `json:"kind" jsonschema:"pattern=^([a-z][a-z0-9]{0\\,11})?$"`
	Liked    bool   `json:"liked"`
	// LikeCount is the post's count with this action and other actions of the same flush.
	// It is absent if an earlier attempt made the flush.
	LikeCount *int64 `json:"like_count,omitempty" jsonschema:"minimum=0"`
}

// Kind implements Event.
func (*PostCreated) Kind() Kind { return KindPostCreated }

// Kind implements Event.
func (*Liked) Kind() Kind { return KindLiked }

// Kind implements Event.
func (*Unliked) Kind() Kind { return KindUnliked }

// Kind implements Event.
func (*Reacted) Kind() Kind { return KindReacted }

// Kind implements Event.
func (*Followed) Kind() Kind { return KindFollowed }

// Kind implements Event.
func (*Unfollowed) Kind() Kind { return KindUnfollowed }

// Kind implements Event.
func (*PostDeleted) Kind() Kind { return KindPostDeleted }

// Kind implements Event.
func (*UserForgotten) Kind() Kind { return KindUserForgotten }

// Kind implements Event.
func (*ProfileChanged) Kind() Kind { return KindProfileChanged }

// Kind implements Event.
func (*MarkWalk) Kind() Kind { return KindMarkWalk }

// Kind implements Event.
func (*Seen) Kind() Kind { return KindSeen }

// Kind implements Event.
func (*Returned) Kind() Kind { return KindReturned }

// Kind implements Event.
func (*FanoutPlan) Kind() Kind { return KindFanoutPlan }

// Kind implements Event.
func (*FanoutChunk) Kind() Kind { return KindFanoutChunk }

// Kind implements Event.
func (*PostDelivered) Kind() Kind { return KindPostDelivered }

// Kind implements Event.
func (*LikeCounted) Kind() Kind { return KindLikeCounted }

// Group implements Event: an author's posts wait for each other.
func (e *PostCreated) Group() string { return e.AuthorID }

// Group implements Event: the likes of one post wait for each other.
func (e *Like) Group() string { return e.PostID }

// Group implements Event: a follower's backfills wait for each other.
func (e *Followed) Group() string { return e.FollowerID }

// Group implements Event: the removals of a follower wait for each other.
func (e *Unfollowed) Group() string { return e.FollowerID }

// Group implements Event: an author's deletions wait for each other.
func (e *PostDeleted) Group() string { return e.AuthorID }

// Group implements Event.
func (e *UserForgotten) Group() string { return e.UserID }

// Group implements Event. A user who often changes a profile delays nobody else (I8).
func (e *ProfileChanged) Group() string { return e.UserID }

// Group implements Event: an author's walks wait for each other.
func (e *MarkWalk) Group() string { return e.AuthorID }

// Group implements Event: the refreshes of a reader wait for each other.
func (e *Seen) Group() string { return e.UserID }

// Group implements Event: the returns of a reader wait for each other.
func (e *Returned) Group() string { return e.UserID }

// Group implements Event: an author's plans wait for each other (I8).
func (e *FanoutPlan) Group() string { return e.AuthorID }

// Group implements Event: an author's chunks wait for each other (I8).
func (e *FanoutChunk) Group() string { return e.AuthorID }

// Group implements Event: the deliveries of an author wait for each other.
func (e *PostDelivered) Group() string { return e.AuthorID }

// Group implements Event: the counted likes of a post wait for each other.
func (e *LikeCounted) Group() string { return e.PostID }

func (e *PostCreated) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), shards(e.LikeShards), e.checkOptional())
}

func (e *Like) check() error {
	err := errors.Join(postID(e.PostID), userID("user_id", e.UserID), shards(e.LikeShards))
	if e.AuthorID != "" {
		err = errors.Join(err, userID("author_id", e.AuthorID))
	}
	return err
}

func (e *Reacted) check() error {
	err := e.Like.check()
	if !ValidReaction(e.Reaction) || e.Reaction == KindLike {
		err = errors.Join(err, fmt.Errorf("kind %q is no reaction: it must be 1 to %d of a-z 0-9 that begin with a letter, and like is a Liked", e.Reaction, MaxReaction))
	}
	return err
}

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

func (e *PostDeleted) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), checkMentions(e.Mentions))
}

func (e *UserForgotten) check() error { return userID("user_id", e.UserID) }

func (e *ProfileChanged) check() error {
	err := userID("user_id", e.UserID)
	if e.V < 1 {
		err = errors.Join(err, fmt.Errorf("v is %d, below 1", e.V))
	}
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

func (e *FanoutPlan) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), keyBound("first", e.First))
}

func (e *FanoutChunk) check() error {
	err := errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), keyBound("first", e.First), keyBound("end", e.End))
	if e.End != "" && e.End <= e.First {
		err = errors.Join(err, fmt.Errorf("end %q is not above first %q", e.End, e.First))
	}
	return err
}

func (e *PostDelivered) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID))
}

func (e *LikeCounted) check() error {
	err := errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), userID("user_id", e.UserID))
	if e.Reaction != "" && !ValidReaction(e.Reaction) || e.Liked != (e.Reaction == KindLike) {
		err = errors.Join(err, fmt.Errorf("kind %q and liked %v do not go together", e.Reaction, e.Liked))
	}
	return err
}

func postID(s string) error { return ulid("post_id", s) }

func ulid(field, s string) error {
	if !id.Valid(s) {
		return fmt.Errorf("%s is not a ULID", field)
	}
	return nil
}

func userID(field, s string) error {
	if !id.ValidUser(s) {
		return fmt.Errorf("%s is not a user id", field)
	}
	return nil
}

// keyBound accepts "" for an open end.
func keyBound(field, s string) error {
	if s == "" {
		return nil
	}
	return userID(field, s)
}

func shards(n int) error {
	if n < 0 || n > MaxLikeShards {
		return fmt.Errorf("like_shards is not between 0 and %d", MaxLikeShards)
	}
	return nil
}

// MaxLikeShards is the largest number of partitions of a like list: their names
// have two digits.
const MaxLikeShards = 100

// EarlyError postpones an event whose id is further ahead of the consumer's clock than
// MaxAhead. Either clock may be wrong, and time mends both, so the message is
// redelivered.
type EarlyError struct {
	Reason string
	// Wait is the time until the event is due by the consumer's clock.
	Wait time.Duration
}

func (e *EarlyError) Error() string { return "message came too early: " + e.Reason }

// envelope is the part of an event that Decode reads first.
type envelope struct {
	Type    Kind `json:"type"`
	Version int  `json:"version"`
}

// newEvent returns an empty event of a kind.
func newEvent(kind Kind) (Event, bool) {
	switch kind {
	case KindPostCreated:
		return new(PostCreated), true
	case KindLiked:
		return new(Liked), true
	case KindUnliked:
		return new(Unliked), true
	case KindReacted:
		return new(Reacted), true
	case KindFollowed:
		return new(Followed), true
	case KindUnfollowed:
		return new(Unfollowed), true
	case KindPostDeleted:
		return new(PostDeleted), true
	case KindUserForgotten:
		return new(UserForgotten), true
	case KindProfileChanged:
		return new(ProfileChanged), true
	case KindMarkWalk:
		return new(MarkWalk), true
	case KindSeen:
		return new(Seen), true
	case KindReturned:
		return new(Returned), true
	case KindFanoutPlan:
		return new(FanoutPlan), true
	case KindFanoutChunk:
		return new(FanoutChunk), true
	case KindPostDelivered:
		return new(PostDelivered), true
	case KindLikeCounted:
		return new(LikeCounted), true
	case KindPostTakenDown:
		return new(PostTakenDown), true
	case KindCommented:
		return new(Commented), true
	case KindMentioned:
		return new(Mentioned), true
	case KindNotified:
		return new(Notified), true
	}
	return nil, false
}

// Encode returns the JSON of an event. It fails on fields that no consumer would accept,
// so that a defect is found at its source.
func Encode(e Event) ([]byte, error) {
	if e == nil || reflect.ValueOf(e).IsNil() {
		return nil, errors.New("encode an event: it is nil")
	}
	if err := check(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	out := bytes.NewBuffer(make([]byte, 0, 512))
	out.WriteString(opening(e.Kind()))
	at := out.Len() - 1
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	payload := slices.Delete(bytes.TrimSuffix(out.Bytes(), []byte("\n")), at+1, at+2) // the brace of e
	return escapeNoncharacters(payload), nil
}

// opening is the beginning of every payload of a kind that Encode writes.
func opening(kind Kind) string {
	return `{"type":"` + string(kind) + `","version":` + strconv.Itoa(Version) + `,`
}

// envelopeOf reads the type and the version of an event. If they come first, as Encode
// writes them, it needs no decoder.
func envelopeOf(payload []byte) (env envelope, err error) {
	if rest, ok := bytes.CutPrefix(payload, []byte(`{"type":"`)); ok {
		kind, _, _ := bytes.Cut(rest, []byte(`"`))
		if _, known := newEvent(Kind(kind)); known && bytes.HasPrefix(payload, []byte(opening(Kind(kind)))) {
			return envelope{Kind(kind), Version}, nil
		}
	}
	return env, strictjson.Unmarshal(payload, &env)
}

// Decode reads an event. Every error is a *PermanentError.
func Decode(payload []byte) (Event, error) {
	env, err := envelopeOf(payload)
	if err != nil {
		return nil, Permanent(ReasonUnreadable, "the payload is not a JSON object with type and version: %v", err)
	}
	e, ok := newEvent(env.Type)
	if !ok {
		return nil, Permanent(ReasonUnknown, "unknown type %q", env.Type)
	}
	if env.Version != Version {
		return nil, Permanent(ReasonUnknown, "%s has version %d, this consumer reads version %d: deploy a newer one, then redrive", env.Type, env.Version, Version)
	}
	if err := strictjson.Unmarshal(payload, e); err != nil {
		return nil, Permanent(ReasonUnreadable, "%s: %v", env.Type, err)
	}
	if err := check(e); err != nil {
		return nil, Permanent(ReasonUnreadable, "%s: %v", env.Type, err)
	}
	return e, nil
}

// CheckAge refuses an event by the time of its id. An event that is further ahead than
// MaxAhead is an *EarlyError. An event that is older than MaxAge, or would have to wait for
// longer than MaxWait, is a *PermanentError.
func CheckAge(e Event, now time.Time) error {
	return CheckIDAge("event_id", e.Head().EventID, now)
}

// CheckIDAge is CheckAge for any id that an event carries.
func CheckIDAge(field, ulid string, now time.Time) error {
	at, err := id.Time(ulid)
	wait := at.Sub(now) - MaxAhead
	switch {
	case err != nil:
		return Permanent(ReasonUnreadable, "%s: %v", field, err)
	case now.Sub(at) > MaxAge:
		return Permanent(ReasonTooOld, "%s is of %s: older than %s, it can no longer be applied", field, at.Format(time.RFC3339), MaxAge)
	case wait > MaxWait:
		return Permanent(ReasonFarAhead, "%s is of %s: more than %s ahead of the clock", field, at.Format(time.RFC3339), MaxAhead+MaxWait)
	case wait > 0:
		return &EarlyError{fmt.Sprintf("%s is of %s: more than %s ahead of the clock", field, at.Format(time.RFC3339), MaxAhead), wait}
	}
	return nil
}

func check(e Event) error {
	err := ulid("event_id", e.Head().EventID)
	if e.Head().Time.IsZero() {
		err = errors.Join(err, errors.New("time is missing"))
	}
	return errors.Join(err, e.check())
}

// escapeNoncharacters writes U+FFFE and U+FFFF as JSON escapes. Both are valid Unicode,
// but SQS refuses a body that has them. Decode restores them.
func escapeNoncharacters(b []byte) []byte {
	if !bytes.Contains(b, []byte("\xEF\xBF")) { // the first bytes of both
		return b
	}
	b = bytes.ReplaceAll(b, []byte("\uFFFE"), []byte(`\ufffe`))
	return bytes.ReplaceAll(b, []byte("\uFFFF"), []byte(`\uffff`))
}
