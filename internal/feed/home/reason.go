package home

import (
	"fmt"
	"slices"
	"time"

	"fanfare/internal/feed/delivery"
	"fanfare/internal/schema"
)

// Reason is the reason why a home by push shows or does not show a post. Each post has one reason.
type Reason string

// The values of Reason. Homes show a post only for the first eight reasons.
const (
	// ReasonOwn means that the user wrote the post.
	ReasonOwn Reason = "own"
	// ReasonPushed means that the fan-out of the post wrote the entry.
	ReasonPushed Reason = "pushed"
	// ReasonCopied means that the post is older than the follow, and the follow's backfill copied the
	// post.
	ReasonCopied Reason = "copied"
	// ReasonMerged means that the home merges the post in, because the follow's backfill has not ended, or
	// ended less than a minute ago.
	ReasonMerged Reason = "merged"
	// ReasonPulled means that the home merges the post in, because the author is pulled.
	ReasonPulled Reason = "pulled"
	// ReasonSkipped means that the user is away, and fan-out skipped the user. The home is read by pull,
	// at least in the gap, so the next read shows the post.
	ReasonSkipped Reason = "skipped"
	// ReasonReturned means that fan-out skipped the user, and the user's return wrote the entry.
	ReasonReturned Reason = "returned"
	// ReasonByPull means that the entry is missing, but the home is read by pull, because the user is away
	// or returns.
	ReasonByPull Reason = "by_pull"
	// ReasonDeleted means that the author deleted the post.
	ReasonDeleted Reason = "deleted"
	// ReasonEnded means that the post has reached its end.
	ReasonEnded Reason = "ended"
	// ReasonTakenDown means that a service deleted the post.
	ReasonTakenDown Reason = "taken_down"
	// ReasonExpired means that the post is too old for homes.
	ReasonExpired Reason = "expired"
	// ReasonUnfollowed means that the user has unfollowed the author, which hides the post.
	ReasonUnfollowed Reason = "unfollowed"
	// ReasonMuted means that the user mutes the author, which hides the post. Without the mute, the home
	// would show the post now or soon.
	ReasonMuted Reason = "muted"
	// ReasonNotFollowed means that the user does not follow the author.
	ReasonNotFollowed Reason = "not_followed"
	// ReasonBeforeFollow means that the post is older than the first post that the follow shows.
	ReasonBeforeFollow Reason = "before_follow"
	// ReasonQueued means that the delivery has not reached the user yet.
	ReasonQueued Reason = "queued"
	// ReasonDeadLetter means that the delivery stopped at a dead letter.
	ReasonDeadLetter Reason = "dead_letter"
	// ReasonOriginal means that the post is a repost whose original is gone, or is hidden by a mute or a block.
	ReasonOriginal Reason = "original"
	// ReasonRepeat means that the home shows the post at a newer reference (I16).
	ReasonRepeat Reason = "repeat"
	// ReasonMissing means that no other reason holds. A missing post breaks I1.
	ReasonMissing Reason = "missing"
)

// Shown reports whether homes show a post for this reason.
func (r Reason) Shown() bool {
	return slices.Contains([]Reason{ReasonOwn, ReasonPushed, ReasonCopied, ReasonMerged, ReasonPulled, ReasonSkipped, ReasonReturned, ReasonByPull}, r)
}

// Explanation is the reason for one post in one home. Operators get it as JSON.
type Explanation struct {
	Post   string `json:"post_id"`
	Author string `json:"author_id"`
	User   string `json:"-"`
	// InHome reports whether the home shows the post.
	InHome bool   `json:"in_home"`
	Reason Reason `json:"reason"`
	// Chunk is the number of the chunk of the post's delivery that contains the user. The first chunk has
	// the number 1. Chunk is 0 if the chunk is not planned, or not among the first DeliveryPage chunks.
	Chunk int `json:"chunk,omitempty"`
	// At is the time of the reason, or zero. It is the time at which the chunk was done, the author was
	// followed or unfollowed, the letter became dead, the post expired, the merging ends, or the user went
	// away or returned.
	At time.Time `json:"at,omitzero"`
	// DeadLetter is the id of the dead letter of ReasonDeadLetter, and Topic its topic.
	DeadLetter string `json:"dead_letter,omitempty"`
	Topic      string `json:"topic,omitempty"`
	// RepostOf is the original of a repost, and Newer the newer reference of ReasonRepeat.
	RepostOf string `json:"repost_of,omitempty"`
	Newer    string `json:"newer_post_id,omitempty"`
	// PostText is the text of a living post that is recent enough for homes.
	PostText string `json:"post_text,omitempty"`
	// Text is the reason as a sentence.
	Text string `json:"text"`
	// TakenDown is the take-down of ReasonTakenDown, and died the reason of the dead letter.
	TakenDown *schema.TakeDown `json:"-"`
	died      string
	// link is the chunk with the number Chunk, nil if the chunk is not planned.
	link *schema.Chunk
}

// String returns the reason as a sentence.
func (e Explanation) String() string {
	at := e.At.UTC().Format(time.RFC3339)
	switch e.Reason {
	case ReasonOwn:
		return e.User + " wrote it"
	case ReasonPushed:
		if e.At.IsZero() {
			return "it was pushed, by a chunk that is not done yet"
		}
		return fmt.Sprintf("chunk %s pushed it, done at %s", e.number(), at)
	case ReasonCopied:
		return fmt.Sprintf("the backfill copied it, after %s followed %s at %s", e.User, e.Author, at)
	case ReasonMerged:
		if !e.At.IsZero() {
			return "the mark of the follow merges it in until " + at
		}
		return fmt.Sprintf("the mark of the follow merges it in, until the posts of %s are copied", e.Author)
	case ReasonPulled:
		return fmt.Sprintf("a mark merges it in, because %s is pulled", e.Author)
	case ReasonSkipped:
		return fmt.Sprintf("fan-out skipped it, as %s is away since %s: the home is read by pull there", e.User, at)
	case ReasonReturned:
		return fmt.Sprintf("the return of %s wrote it, done at %s", e.User, at)
	case ReasonByPull:
		return fmt.Sprintf("the home is read by pull, as %s is away since %s or returns", e.User, at)
	case ReasonDeleted:
		return "its author deleted it"
	case ReasonEnded:
		return "the post ended at " + at
	case ReasonTakenDown:
		return fmt.Sprintf("%s took it down at %s: %s", e.TakenDown.By, at, e.TakenDown.Reason)
	case ReasonExpired:
		return "it expired at " + at
	case ReasonUnfollowed:
		return fmt.Sprintf("%s unfollowed %s at %s", e.User, e.Author, at)
	case ReasonMuted:
		return fmt.Sprintf("it is hidden by a mute: %s muted %s at %s", e.User, e.Author, at)
	case ReasonNotFollowed:
		return fmt.Sprintf("%s does not follow %s", e.User, e.Author)
	case ReasonBeforeFollow:
		return fmt.Sprintf("it is older than the posts that are shown since %s followed %s at %s", e.User, e.Author, at)
	case ReasonQueued:
		if e.link == nil {
			return "its delivery is still queued"
		}
		return fmt.Sprintf("its delivery is still queued: chunk %s is not done", e.number())
	case ReasonDeadLetter:
		return fmt.Sprintf("its delivery stopped at dead letter %s of %s at %s: %s", e.DeadLetter, e.Topic, at, e.died)
	case ReasonOriginal:
		return fmt.Sprintf("it is a repost of %s, which is gone, or hidden by a mute or a block", e.RepostOf)
	case ReasonRepeat:
		return "it shows at its newer repost " + e.Newer
	case ReasonMissing:
		return "nothing accounts for it: ask again, and please report this as a defect if the answer stays"
	}
	return string(e.Reason)
}

func (e Explanation) number() string {
	if e.Chunk == 0 {
		return fmt.Sprintf("above %d", delivery.PageSize)
	}
	return fmt.Sprint(e.Chunk)
}
