package removal

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/queue"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// AskToForget begins to remove a user and all records of the user. The event is the durable commit
// (I5): workers remove the rest, by Forget. The profile is deleted at once, so the user cannot write
// any more. The user may make a new profile, and keeps all records of the new life.
func (r *Removals) AskToForget(ctx context.Context, user string) (event string, err error) {
	now, err := r.feed.Standing(ctx, user)
	if err != nil {
		return "", err
	}
	return r.askToForget(ctx, user, now)
}

// askToForget does the work of AskToForget with the state of the user that was read.
func (r *Removals) askToForget(ctx context.Context, user string, now feed.Standing) (event string, err error) {
	// If this process's clock is far ahead and another process repeats the call, the event's id could end
	// the next life, too (I12).
	if err := r.access.Clock.Doubt(); err != nil {
		return "", &fault.Error{Kind: fault.Unavailable, Detail: "the clock of this process is in doubt: try again", RetryAfter: fault.RetryAfter, Err: err}
	}
	floor := now.Removal().Event
	if now.Profile != nil {
		floor = max(floor, now.Profile.After)
	}
	event, err = r.access.IDs.After(floor)
	if err != nil {
		return "", fmt.Errorf("removal: %w", err)
	}
	// A process that slept after the read would make an id above a life that began in the meantime. The
	// ids of such a life are at least feed.LifeGap after the read, so an id in the first half of that time
	// does not end the life. If the process's clock was ahead, its ids stay ahead until the real time
	// reaches them.
	latest := now.Asked
	if at := access.TimeOf(floor); at.After(latest) {
		latest = at
	}
	if r.access.Now().Sub(now.Asked) > feed.LifeGap/2 || access.TimeOf(event).Sub(latest) > feed.LifeGap/2 {
		return "", &fault.Error{Kind: fault.Unavailable, Detail: "the removal took too long to begin: try again", RetryAfter: fault.RetryAfter}
	}
	e := &messages.UserForgotten{UserID: user}
	if err := r.access.PublishAs(ctx, queue.TopicBackfills, e, event); err != nil {
		return "", err
	}
	if _, err := r.feed.EndLife(ctx, user, e.EventID, now); err != nil {
		r.access.Log.Warn("profile not removed: a worker will remove it", zap.String("request_id", r.access.RequestID(ctx)), trace.ID(ctx),
			zap.String("user_id", user), zap.Error(err))
	}
	return e.EventID, nil
}

// Remove removes a user and all records of the user, except likes. Workers have to count likes first,
// so the event stays in the queue for the workers. Remove calls progress with the number of removed
// records.
func (r *Removals) Remove(ctx context.Context, user string, progress func(removed int)) error {
	event, err := r.AskToForget(ctx, user)
	if err != nil {
		return err
	}
	for removed := 0; ; {
		done, err := r.Forget(ctx, user, event, removeStep)
		if err != nil {
			return err
		}
		removed += done.Sum()
		progress(removed)
		if done.Sum() == done.Likes {
			return nil
		}
	}
}

// removeStep is the number of records between two calls of progress.
const removeStep = 100

// Knowledge is the state of a user id before a removal.
type Knowledge string

// These constants are the states of a user id.
const (
	// Known is an id with a profile. Removed is an id whose profile was removed.
	Known   Knowledge = "known"
	Removed Knowledge = "removed"
	// Unknown is an id that has no user and had no user, as far back as removals are remembered.
	Unknown Knowledge = "unknown"
)

// Remembered returns the state of a user id, as far as the table has items about the id's life.
func (r *Removals) Remembered(ctx context.Context, user string) (Knowledge, error) {
	now, err := r.feed.Standing(ctx, user)
	switch {
	case err != nil:
		return "", err
	case now.Profile != nil:
		return Known, nil
	case now.Note != nil:
		return Removed, nil
	default:
		return Unknown, nil
	}
}

// removalEvery is the minimum time between two calls of DeleteProfile that remove a profile of one
// user. Each removal has a message that waits for an hour, so a user has 60 such messages at most
// (I11).
const removalEvery = time.Minute

// DeleteProfile requests a removal for the user's own call, as AskToForget does. DeleteProfile has no
// effect while a removal is in progress, because the event was sent before the note was written.
func (r *Removals) DeleteProfile(ctx context.Context, user string) error {
	now, err := r.feed.Standing(ctx, user)
	if err != nil || now.Profile == nil && now.Note != nil {
		return err
	}
	if wait := now.Removal().At.Add(removalEvery).Sub(r.access.Now()); now.Profile != nil && wait > 0 {
		return &fault.Error{Kind: fault.TooSoon, RetryAfter: min(wait, removalEvery), Detail: "you were removed less than a minute ago: try again later"}
	}
	_, err = r.askToForget(ctx, user, now)
	return err
}
