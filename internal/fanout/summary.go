package fanout

import (
	"context"
	"errors"
	"fmt"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// summarize advances the summary of a long chain, so that a reader of the delivery needs only
// the plan and a page of chunks. The worker calls summarize after each chunk that is done.
//
// The summary grows by pages of PlanChunks chunks that are all done. The worker that ends the
// last chunk of a page finds the page done, and continues with the next page. If the worker
// dies before that, its message is redelivered. A chunk that is done never changes, so any
// worker may write the summary.
func (w *Worker) summarize(ctx context.Context, postID string) error {
	key := schema.DeliveryPlanKey(postID)
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: key, Consistent: true})
	if err != nil {
		return fmt.Errorf("read the delivery plan of post %s: %w", postID, err)
	}
	for it := res.Item; it != nil; {
		plan, err := schema.ParsePlan(*it)
		if err != nil || plan.Planned <= int64(w.cfg.PlanChunks*w.cfg.ChunkSize) {
			return err
		}
		sum, done, err := w.donePage(ctx, postID, plan.Sum)
		if err != nil || !done {
			return err
		}
		same := table.Cond(table.Equal{Name: schema.AttrUpto, Value: table.S(plan.Sum.Upto)})
		if plan.Sum.Upto == "" {
			same = table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrUpto}}
		}
		written, err := w.cfg.Store.Update(ctx, table.UpdateInput{
			Key: key, If: same, ReturnNew: true,
			Set: []table.Attr{
				{Name: schema.AttrUpto, Value: table.S(sum.Upto)},
				{Name: schema.AttrSumChunks, Value: table.N(sum.Total)},
				{Name: schema.AttrSumEntries, Value: table.N(sum.Delivered)},
				{Name: schema.AttrSumSkipped, Value: table.N(sum.Skipped)},
				{Name: schema.AttrSumDone, Value: table.N(sum.Last.UnixMilli())},
			},
		})
		it = written.Item
		if failed, ok := errors.AsType[*table.ConditionError](err); ok { // another worker has advanced the summary
			it, err = failed.Old, nil
		}
		if err != nil {
			return fmt.Errorf("write the summary of the delivery of post %s: %w", postID, err)
		}
	}
	return nil
}

// donePage adds the page of chunks after a summary to the summary. done reports whether the
// chunks are all done and do not include the last chunk of the chain.
func (w *Worker) donePage(ctx context.Context, postID string, sum schema.Chain) (_ schema.Chain, done bool, err error) {
	before := sum.Total
	for page, err := range w.cfg.Store.Query(ctx, table.Query{
		PK: schema.DeliveryPK(postID), Low: schema.ChunkSK(sum.Upto), High: schema.SortChunkEnd,
		PageSize: w.cfg.PlanChunks, Consistent: true,
	}) {
		if err != nil {
			return sum, false, fmt.Errorf("read the delivery chunks of post %s: %w", postID, err)
		}
		for _, it := range page.Items {
			c, err := schema.ParseChunk(it)
			if err != nil {
				return sum, false, err
			}
			sum.Add(c)
		}
		full := len(page.Items) == w.cfg.PlanChunks && sum.Total > before
		return sum, full && sum.Done == sum.Total && !sum.Ended, nil
	}
	return sum, false, nil
}
