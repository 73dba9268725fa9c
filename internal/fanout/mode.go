package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// The mode of an author decides whether the author's posts are pushed or pulled
// (docs/HYBRID.md). A follower F misses no pulled post P (I1): the worker read the mode pull
// after P was stored, so the mark walk was complete by then. If F's edge was committed before
// the walk read the page of F, the walk left a mark, and F's home merges P because of this
// mark. Otherwise the follow left a mark that merges P. The backfill of the follow reads the
// mode after the mark, and keeps the mark.

// readAuthor reads the mode, the number of followers and the profile (nil for none) of an author, consistently.
func (w *Worker) readAuthor(ctx context.Context, author string) (mode schema.Mode, followers int64, profile *schema.Profile, err error) {
	items, _, err := table.Collect(w.cfg.Store.Query(ctx, table.Query{PK: schema.UserPK(author), Consistent: true}), 0)
	if err != nil {
		return mode, 0, nil, fmt.Errorf("read the author %s: %w", author, err)
	}
	profile, counts, err := schema.ParseUser(items)
	if err != nil {
		return mode, 0, nil, err
	}
	mode, err = schema.ParseMode(author, items)
	return mode, counts.Followers, profile, err
}

// restTime is the minimum time between two changes of an author's mode. After this time no worker of the
// previous walk writes. It also prevents processes with different limits from changing an author's mode with
// every post.
const restTime = 2 * time.Hour

// steer changes the mode of an author whose number of followers has passed the limit, and sends
// the first message of the mark walk. During a walk, steer sends that message again for every
// post: if a worker crashes between the change and the message, the author's next post repairs
// this. steer returns the mode by which the post is handled: a post that changes the mode is
// pushed.
func (w *Worker) steer(ctx context.Context, mode schema.Mode, followers int64, requestID string) (schema.Mode, error) {
	limit, now := w.cfg.PushLimit, w.cfg.Now()
	next := schema.Mode{Author: mode.Author, V: mode.V + 1, Since: mode.Since, At: now}
	switch rested := !now.Before(mode.At.Add(restTime)) && w.cfg.Clock.Doubt() == nil; {
	case rested && mode.State == schema.ModePush && limit > 0 && followers > limit:
		since, err := w.newID()
		if err != nil {
			return mode, err
		}
		next.State, next.Since = schema.ModeSwitching, since
	case rested && mode.State == schema.ModePull && (limit == 0 || 10*followers < 8*limit):
		next.State = schema.ModeLeaving
	case mode.State == schema.ModePush || mode.State == schema.ModePull:
		return mode, nil
	}
	if next.State != "" {
		same := table.Cond(table.Equal{Name: schema.AttrModeV, Value: table.N(mode.V)})
		if mode.V == 0 {
			same = table.Absent{}
		}
		_, err := w.cfg.Store.Put(ctx, table.PutInput{Item: next.Item(), If: same})
		if _, changed := errors.AsType[*table.ConditionError](err); err != nil && !changed {
			return mode, fmt.Errorf("change the mode of %s to %s: %w", mode.Author, next.State, err)
		}
		mode = next
	}
	head, err := w.header(requestID)
	if err != nil {
		return mode, err
	}
	return mode, w.publish(ctx, queue.TopicBackfills, &messages.MarkWalk{Header: head, AuthorID: mode.Author})
}
