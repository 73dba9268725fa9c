package fanout

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/trace"
	"fanfare/messages"
)

const (
	// forgetMost is the maximum number of things that one receive of a message removes.
	forgetMost = 500
	// forgetAgain is the time after which a worker looks for remaining things. While only likes are left,
	// which an aggregator has to count, the time grows (Forgotten.Wait).
	forgetAgain = 10 * time.Second
	// forgetLast is the time from the removal of the profile to the last look: by then, all calls and
	// events that were in progress have been applied.
	forgetLast = time.Hour
)

// userForgotten removes a user, and everything that the user made, step by step. A later step does not find
// removed things again, or soon stops finding them, so the message needs no position. The last look is an
// hour after the removal of the profile. That time may be later than the event, because a late worker may
// have removed the profile.
func (w *Worker) userForgotten(ctx context.Context, e *messages.UserForgotten) error {
	if w.cfg.Users == nil {
		return &queue.Later{After: time.Minute, Reason: "this worker removes no users"}
	}
	asked, err := id.Time(e.EventID)
	if err != nil {
		return err
	}
	queue.Due(ctx, asked.Add(forgetLast))
	began := w.cfg.Now()
	done, err := w.cfg.Users.Forget(ctx, e.UserID, e.EventID, forgetMost)
	if err != nil {
		return err
	}
	if done.Overtaken {
		w.cfg.Log.Debug("a newer event removes the user", zap.String("user_id", e.UserID), zap.String("request_id", e.RequestID), trace.ID(ctx))
		return nil
	}
	last := cmp.Or(done.Left, asked).Add(forgetLast)
	queue.Due(ctx, last)
	rest := last.Sub(began)
	switch {
	case done.Removed >= forgetMost && done.Unliked == 0:
		return &queue.Later{Reason: "more of the user is left"}
	case done.Removed > done.Unliked:
		return &queue.Later{After: forgetAgain, Reason: "something of the user may be left"}
	case done.Removed > 0 || done.Wait > 0:
		wait := max(forgetAgain, done.Wait)
		if rest > 0 { // the last look is for more than likes
			wait = min(wait, max(forgetAgain, rest))
		}
		return &queue.Later{After: wait, Reason: "likes of the user are not counted as taken back"}
	case rest > 0:
		return &queue.Later{After: rest, Reason: "events of the user may be on their way"}
	}
	w.cfg.Log.Info("a user was forgotten", zap.String("user_id", e.UserID), zap.String("request_id", e.RequestID), trace.ID(ctx))
	return nil
}
