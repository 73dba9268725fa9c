package likeagg

import (
	"context"
	"slices"

	"fanfare/internal/schema"
	"fanfare/messages"
)

// tell sends LikeCounted for each action of a user that is counted by this window's flush, or by another
// flush whose aggregator may have died before it sent the event. The messages are acked
// afterwards. If the send fails, the messages are redelivered, and a later window finds their
// likes counted and sends the event again.
func (w *window) tell(ctx context.Context) {
	if w.cfg.Events == nil {
		return
	}
	var count *int64
	if w.flushed != nil {
		count = new(schema.ParseLikeCount(w.flushed).Shown())
	}
	var told []*action
	var events []messages.Event
	for _, a := range w.actions {
		kind, counted := a.counted()
		if !counted || messages.IsReposter(a.user) {
			continue
		}
		e := &messages.LikeCounted{
			Header: messages.Header{EventID: a.version, Time: w.cfg.Now().UTC()},
			PostID: w.post, AuthorID: w.author, UserID: a.user, Reaction: kind, Liked: kind == schema.KindLike, LikeCount: count,
		}
		told, events = append(told, a), append(events, e)
	}
	for part := range slices.Chunk(events, mostTold) {
		if err := w.cfg.Events(ctx, part...); err != nil {
			for _, a := range told {
				a.err = err
			}
			return
		}
	}
}

// mostTold is the maximum number of events in one send, because a send has a time limit.
const mostTold = 500

// counted reports whether the state of a is counted, unless a later action replaced the state:
// the later action has a message of its own. kind is the state.
func (a *action) counted() (kind string, counted bool) {
	for _, like := range []*schema.Like{a.stamped, a.old} {
		if a.err == nil && like != nil && like.Version == a.version {
			return like.Kind, true
		}
	}
	return "", false
}
