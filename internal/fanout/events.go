package fanout

import (
	"context"
	"fmt"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// delivered sends PostDelivered once the delivery of a post is complete. err is the outcome
// of the message that perhaps ended it. The message is acked after that, and each further
// one of the post sends the event again: so a crash in between loses none, and the last of
// several chunks that end at the same time finds all of them done.
func (w *Worker) delivered(ctx context.Context, postID, requestID string, err error) error {
	if err != nil || w.cfg.Events == nil {
		return err
	}
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.DeliveryPlanKey(postID), Consistent: true})
	if err != nil {
		return fmt.Errorf("read the delivery plan of post %s: %w", postID, err)
	}
	if res.Item == nil { // deleted before its delivery began, or expired since
		return nil
	}
	plan, err := schema.ParsePlan(*res.Item)
	if err != nil {
		return err
	}
	e := &messages.PostDelivered{
		Header: messages.Header{EventID: postID, Time: w.cfg.Now().UTC(), RequestID: requestID},
		PostID: postID, AuthorID: plan.Author, Pulled: plan.State == schema.PlanPulled,
	}
	if !e.Pulled {
		chain, err := w.chain(ctx, postID, plan.Sum)
		if err != nil || !chain.Ended || chain.Done < chain.Total {
			return err
		}
		e.Delivered, e.Skipped = chain.Delivered, chain.Skipped
	}
	return w.cfg.Events(ctx, e)
}

// chain adds the chunks behind a summary to it, up to the first page with a chunk that is
// not done.
func (w *Worker) chain(ctx context.Context, postID string, sum schema.Chain) (schema.Chain, error) {
	for page, err := range w.cfg.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(postID), Low: schema.ChunkSK(sum.Upto), High: schema.SortChunkEnd,
		PageSize: w.cfg.PlanChunks, Consistent: true,
	}) {
		if err != nil {
			return sum, fmt.Errorf("read the delivery chunks of post %s: %w", postID, err)
		}
		for _, it := range page.Items {
			c, err := schema.ParseChunk(it)
			if err != nil {
				return sum, err
			}
			sum.Add(c)
		}
		if sum.Done < sum.Total {
			return sum, nil
		}
	}
	return sum, nil
}

// follow ends a backfill, and then sends Followed to others. A message that finds the
// backfill done sends it again. The event's id is the version of the follow's mark.
func (w *Worker) follow(ctx context.Context, e *messages.Followed) error {
	if err := w.followed(ctx, e); err != nil || w.cfg.Events == nil {
		return err
	}
	out := *e
	out.EventID = e.MarkVersion
	return w.cfg.Events(ctx, &out)
}
