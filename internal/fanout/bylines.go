package fanout

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// bylinesMost is the maximum number of bylines that one receive of a message changes.
const bylinesMost = 500

// profileChanged writes a new name or image into the bylines of the user's posts
// (docs/decisions/0037). spec/Bylines.tla is the model.
//
// The event is sent before the profile changes, so profileChanged waits for the change. It gives
// up when no post from before the event still shows a byline. If a newer change of the profile
// was stored, the newer event makes the walk, so many changes at once cost one walk (I11). The
// delivery of a post that is created during the walk compares the byline with the profile.
func (w *Worker) profileChanged(ctx context.Context, e *messages.ProfileChanged) error {
	asked, err := id.Time(e.EventID)
	if err != nil {
		return err
	}
	now := w.cfg.Now()
	if err := w.cfg.Clock.Doubt(); err != nil {
		return err
	}
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.ProfileKey(e.UserID), Consistent: true})
	if err != nil {
		return fmt.Errorf("read the profile of %s: %w", e.UserID, err)
	}
	if res.Item == nil {
		return nil // the user was removed, and so were the posts
	}
	profile, err := schema.ParseProfile(*res.Item)
	if err != nil {
		return err
	}
	switch {
	case profile.V < e.V && now.Sub(asked) < schema.BylineShown:
		return &queue.Later{After: -1, Reason: "the change of the profile may still be under way"}
	case profile.V < e.V: // the profile was never changed, so nothing is late
		queue.Due(ctx, asked.Add(schema.BylineShown))
		return nil
	case profile.V > e.V:
		return nil
	}
	oldest := id.Floor(now.Add(-2 * schema.BylineShown)) // twice the span, because clocks may be hours apart
	last, changed, err := w.changeBylines(ctx, e.UserID, e.Before, oldest, profile.Byline())
	if err != nil {
		return err
	}
	w.cfg.Log.Debug("bylines changed", zap.String("user_id", e.UserID), zap.Int("posts", changed), zap.String("request_id", e.RequestID), trace.ID(ctx))
	if last == "" {
		return nil
	}
	head, err := w.header(e.RequestID)
	if err != nil {
		return err
	}
	return w.publish(ctx, queue.TopicBackfills, &messages.ProfileChanged{Header: head, UserID: e.UserID, V: e.V, Before: last})
}

// changeBylines gives the byline b to the posts of author from oldest to before (excluded) that
// have an older byline. If it stops before the end, it returns the last post that it read.
func (w *Worker) changeBylines(ctx context.Context, author, before, oldest string, b schema.Byline) (last string, changed int, err error) {
	q := table.Query{
		PK: schema.PostsPK(author), Low: schema.PostSK(oldest), Descending: true, PageSize: w.cfg.PageSize,
		Consistent: true, Project: []string{schema.AttrBylineV},
	}
	if before != "" {
		if before <= oldest {
			return "", 0, nil
		}
		q.After = schema.PostSK(before)
	}
	pages := 0
	for page, err := range w.cfg.Store.Query(ctx, q) {
		if err != nil {
			return "", 0, fmt.Errorf("read the posts of %s: %w", author, err)
		}
		for _, it := range page.Items {
			p, err := schema.ParsePost(it)
			if err != nil {
				return "", 0, err
			}
			if last = p.ID; !it.Has(schema.AttrBylineV) || p.Byline.V >= b.V {
				continue
			}
			if err := w.sign(ctx, author, p.ID, b); err != nil {
				return "", 0, err
			}
			if changed++; changed == bylinesMost {
				return last, changed, nil
			}
		}
		if pages++; page.More && pages == w.cfg.PlanChunks {
			return last, changed, nil
		}
	}
	return "", changed, nil
}

// sign gives a post the byline b, unless the post was deleted, has no byline, or has a byline that is at least
// as new.
func (w *Worker) sign(ctx context.Context, author, post string, b schema.Byline) error {
	_, err := w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.PostKey(author, post), Set: b.Attrs(), If: table.Less{Name: schema.AttrBylineV, Value: table.N(b.V)},
	})
	if _, kept := errors.AsType[*table.ConditionError](err); err != nil && !kept {
		return fmt.Errorf("change the byline of post %s: %w", post, err)
	}
	return nil
}
