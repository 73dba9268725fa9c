package messages

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"fanfare/internal/id"
)

// PostCreated means that a post exists: it is the durable commit of a post, put on the
// queue before the table is written.
type PostCreated struct {
	Header
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id" id:"user,group"`
	Content
	Reference
	// LikeShards is the number of partitions of the post's like list. It never changes.
	// Fanfare's API always sets it. Another producer omits it: then the worker decides
	// the number, and writes the post without a look for the API's write.
	LikeShards int `json:"like_shards,omitempty" jsonschema:"minimum=0,maximum=100"`
}

// PostDeleted means that a post was deleted, and requests the removal of the post's comments
// and likes. The call whose transaction deleted the post, or may have, sends the message after
// the transaction. If a crash in between loses the message, an auditor sends it.
type PostDeleted struct {
	Header
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id" id:"user,group"`
	// Mentions are the ids that the post mentioned.
	Mentions []string `json:"mentions,omitempty" jsonschema:"maxItems=50,uniqueItems=true" id:"user"`
}

func (e *PostCreated) check() error {
	var all faults
	e.Content.Check(all.refuse)
	e.Reference.check(e.Content, all.refuse)
	if e.RepostOf != "" && e.LikeShards == 0 {
		all.refuse("repost_of", "is of another producer's post: only the API makes reposts, at most one of each post")
	}
	if at, bad := id.Time(e.PostID); bad == nil && !e.ExpiresAt.IsZero() && !e.End().After(at) {
		all.refuse("expires_at", "is not after the post, in whole seconds")
	}
	return errors.Join(shards(e.LikeShards), errors.Join(all...))
}

func (e *PostDeleted) check() error {
	var all faults
	CheckMentions(e.Mentions, all.refuse)
	return errors.Join(all...)
}

// End returns the time from which no read shows the post, in whole seconds. It is zero for a
// post without an end.
func (e *PostCreated) End() time.Time { return e.ExpiresAt.UTC().Truncate(time.Second) }

// faults collects the errors of fields.
type faults []error

func (f *faults) refuse(field, detail string) { *f = append(*f, errors.New(field+" "+detail)) }

// MaxReason is the limit of the reason of a take-down, in Unicode code points.
const MaxReason = 500

// PostTakenDown means that a service deleted the post, and that the post's comments and likes are
// gone, too. The event's id is the post's id.
type PostTakenDown struct {
	Header
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id" id:"user,group"`
	// Reason is one line. By is the sub of the service's token, or "operator", and At is the time of the take-down.
	Reason string    `json:"reason" jsonschema:"minLength=1,maxLength=500"`
	By     string    `json:"by" jsonschema:"minLength=1"`
	At     time.Time `json:"at"`
}

func (e *PostTakenDown) check() error {
	var err error
	if n := utf8.RuneCountInString(e.Reason); n < 1 || n > MaxReason {
		err = errors.Join(err, fmt.Errorf("reason has %d characters: it must have 1 to %d", n, MaxReason))
	}
	if e.By == "" || e.At.IsZero() {
		err = errors.Join(err, errors.New("by or at is missing"))
	}
	return err
}
