package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"fanfare/internal/id"
	"fanfare/internal/strictjson"
)

// The limits of a post, in Unicode code points.
const (
	MaxText     = 5000
	MaxImageURL = 2048
)

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
	// PostKind, Data, Mentions and ExpiresAt are optional: checkOptional bounds them.
	PostKind  string          `json:"kind,omitempty" jsonschema:"pattern=^[a-z][a-z0-9_.-]{0\\,31}$"`
	Data      json.RawMessage `json:"data,omitempty" jsonschema:"type=object"`
	Mentions  []string        `json:"mentions,omitempty" jsonschema:"maxItems=50,uniqueItems=true,pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
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

// Kind implements Event.
func (*PostCreated) Kind() Kind { return KindPostCreated }

// Kind implements Event.
func (*PostDeleted) Kind() Kind { return KindPostDeleted }

// Group implements Event: an author's posts wait for each other.
func (e *PostCreated) Group() string { return e.AuthorID }

// Group implements Event: an author's deletions wait for each other.
func (e *PostDeleted) Group() string { return e.AuthorID }

func (e *PostCreated) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), shards(e.LikeShards), e.checkOptional())
}

func (e *PostDeleted) check() error {
	return errors.Join(postID(e.PostID), userID("author_id", e.AuthorID), checkMentions(e.Mentions))
}

// The limits of the optional fields of a post, and of a comment and a profile. MaxPostData and
// MaxSmallData are bytes of the compact form of data.
const (
	MaxKind      = 32
	MaxMentions  = 50
	MaxPostData  = 4096
	MaxSmallData = 1024
	MaxDataDepth = 16
)

// ValidKind reports whether s is the kind of a post: a lower-case letter, then at most 31 lower-case
// letters, digits, and characters of "_.-".
func ValidKind(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter, other := c >= 'a' && c <= 'z', c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != "" && len(s) <= MaxKind
}

// MentionFaults returns the faults of a list of mentioned users, with their places in the list.
// It does not look at the length of the list.
func MentionFaults(users []string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i, user := range users {
			fault := ""
			switch {
			case !id.ValidUser(user):
				fault = "is not a user id"
			case slices.Contains(users[:i], user):
				fault = "occurs more than once"
			}
			if fault != "" && !yield(i, fault) {
				return
			}
		}
	}
}

// CompactData returns the compact form of custom data, bounded by most bytes. If it refuses
// the data, it returns the fault, and the path of the faulty member.
func CompactData(data []byte, most int) (compact, place, fault string) {
	compact, err := strictjson.Object(data, most, MaxDataDepth)
	if refused, ok := errors.AsType[*strictjson.Error](err); ok {
		return "", refused.Field, refused.Detail
	}
	return compact, "", ""
}

// End returns the time from which no read shows the post, in whole seconds. It is zero for a
// post without an end.
func (e *PostCreated) End() time.Time {
	if e.ExpiresAt == nil {
		return time.Time{}
	}
	return e.ExpiresAt.UTC().Truncate(time.Second)
}

// checkOptional returns the errors of the optional fields of a post.
func (e *PostCreated) checkOptional() error {
	err := checkMentions(e.Mentions)
	if e.PostKind != "" && !ValidKind(e.PostKind) {
		err = errors.Join(err, fmt.Errorf("kind is not a lower-case letter and up to %d lower-case letters, digits, or characters of \"_.-\"", MaxKind-1))
	}
	if e.Data != nil {
		if _, bad := strictjson.Object(e.Data, MaxPostData, MaxDataDepth); bad != nil {
			err = errors.Join(err, fmt.Errorf("data: %w", bad))
		}
	}
	if at, bad := id.Time(e.PostID); bad == nil && e.ExpiresAt != nil && !e.End().After(at) {
		err = errors.Join(err, errors.New("expires_at is not after the post, in whole seconds"))
	}
	return err
}

func checkMentions(users []string) error {
	var errs []error
	if len(users) > MaxMentions {
		errs = append(errs, fmt.Errorf("mentions has %d users, more than %d", len(users), MaxMentions))
	}
	for i, fault := range MentionFaults(users) {
		errs = append(errs, fmt.Errorf("mentions[%d] %s", i, fault))
	}
	return errors.Join(errs...)
}

// MaxReason is the limit of the reason of a take-down, in Unicode code points.
const MaxReason = 500

// PostTakenDown means that a service deleted the post, and that the post's comments and likes are
// gone, too. The event's id is the post's id.
type PostTakenDown struct {
	Header
	PostID   string `json:"post_id" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	AuthorID string `json:"author_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// Reason is one line. By is the sub of the service's token, and At is the time of the take-down.
	Reason string    `json:"reason" jsonschema:"minLength=1,maxLength=500"`
	By     string    `json:"by" jsonschema:"minLength=1"`
	At     time.Time `json:"at"`
}

// Kind implements Event.
func (*PostTakenDown) Kind() Kind { return KindPostTakenDown }

// Group implements Event.
func (e *PostTakenDown) Group() string { return e.AuthorID }

func (e *PostTakenDown) check() error {
	err := errors.Join(postID(e.PostID), userID("author_id", e.AuthorID))
	if n := utf8.RuneCountInString(e.Reason); n < 1 || n > MaxReason {
		err = errors.Join(err, fmt.Errorf("reason has %d characters: it must have 1 to %d", n, MaxReason))
	}
	if e.By == "" || e.At.IsZero() {
		err = errors.Join(err, errors.New("by or at is missing"))
	}
	return err
}
