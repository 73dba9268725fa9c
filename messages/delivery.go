package messages

import "fmt"

// FanoutPlan asks a planner to cut further followers of a post into chunks.
type FanoutPlan struct {
	Header
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id" id:"user,group"`
	// First is the first key of the chunk to plan next, "" for the open start.
	First string `json:"first,omitempty" id:"bound"`
}

// FanoutChunk asks a worker to deliver a post to the followers of one key range.
type FanoutChunk struct {
	Header
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id" id:"user,group"`
	// First is the lowest follower id of the range, "" for the open start. It names the
	// chunk in the post's delivery record.
	First string `json:"first,omitempty" id:"bound"`
	// End is the lowest follower id above the range, "" for the open end.
	End string `json:"end,omitempty" id:"bound"`
}

// PostDelivered means that the delivery of a post is complete. Fanfare sends it, LikeCounted,
// Followed, Notified and PostTakenDown to the queue that FANFARE_EVENTS_QUEUE names, and never reads
// that queue. With FANFARE_EVENTS_KEPT, GET /v1/events has the same events. The event's id is the post's id.
type PostDelivered struct {
	Header
	PostID   string `json:"post_id" id:"ulid"`
	AuthorID string `json:"author_id" id:"user,group"`
	// Delivered is the number of followers with the post in their timelines. Skipped is
	// the number of away followers: they get the post when they return.
	Delivered int64 `json:"delivered" jsonschema:"minimum=0"`
	Skipped   int64 `json:"skipped" jsonschema:"minimum=0"`
	// Pulled means that the post is in no timeline: its author has very many followers, and
	// homes read its posts from the author's own list.
	Pulled bool `json:"pulled"`
}

func (e *FanoutChunk) check() error {
	if e.End != "" && e.End <= e.First {
		return fmt.Errorf("end %q is not above first %q", e.End, e.First)
	}
	return nil
}
