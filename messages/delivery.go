package messages

import (
	"errors"
	"fmt"
)

// FanoutPlan asks a planner to cut further followers of a post into chunks.
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

// Kind implements Event.
func (*FanoutPlan) Kind() Kind { return KindFanoutPlan }

// Kind implements Event.
func (*FanoutChunk) Kind() Kind { return KindFanoutChunk }

// Kind implements Event.
func (*PostDelivered) Kind() Kind { return KindPostDelivered }

// Group implements Event: an author's plans wait for each other (I8).
func (e *FanoutPlan) Group() string { return e.AuthorID }

// Group implements Event: an author's chunks wait for each other (I8).
func (e *FanoutChunk) Group() string { return e.AuthorID }

// Group implements Event: the deliveries of an author wait for each other.
func (e *PostDelivered) Group() string { return e.AuthorID }

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
