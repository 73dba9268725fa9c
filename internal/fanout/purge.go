package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

const (
	// purgeAfter is how long after its event a deletion is certainly over: made, or given
	// up, by whichever clock. By then nobody writes comments or likes of the post any more,
	// but for a process that stood still. Items that it writes stay, and nobody sees them.
	purgeAfter = messages.MaxAhead + time.Minute
	// purgePages is the number of pages that one receive of a message removes.
	purgePages = 20
)

// postDeleted removes the comments and likes of a deleted post, and lets its like count
// expire: the ledger there has to outlive every like that is in flight (docs/LIKES.md).
// The tombstone, the delivery record and the entries expire by themselves.
//
// One receive removes purgePages pages at most, then the message waits for its turn again.
// Removed items are not met again, so the message needs no position.
func (w *Worker) postDeleted(ctx context.Context, e *messages.PostDeleted) error {
	asked, err := id.Time(e.EventID)
	if err != nil {
		return err
	}
	due := asked.Add(purgeAfter)
	queue.Due(ctx, due)
	if wait := due.Sub(w.cfg.Now()); wait > 0 {
		return &queue.Later{After: wait, Reason: "the deletion may still be under way"}
	}
	if err := w.cfg.Clock.Doubt(); err != nil {
		return err
	}
	ref, err := w.postRef(ctx, e.PostID, e.AuthorID)
	if err != nil || !ref.Deleted {
		return err
	}
	lists := []string{schema.CommentsPK(ref.ID)}
	for shard := range ref.LikeShards {
		lists = append(lists, schema.LikesPK(ref.ID, shard, ref.LikeShards))
	}
	pages := 0
	for _, pk := range lists {
		if err := w.purge(ctx, pk, &pages); err != nil {
			return err
		}
	}
	lives, err := w.cfg.Lifetimes.Current(ctx)
	if err != nil {
		return err
	}
	_, err = w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.LikeCountKey(ref.ID),
		Set: []table.Attr{{Name: table.AttrTTL, Value: table.N(w.cfg.Now().Add(lives.Longest() + schema.DeliveryKept).Unix())}},
		If:  table.Exists{},
	})
	if _, unliked := errors.AsType[*table.ConditionError](err); err != nil && !unliked {
		return fmt.Errorf("end the like count of post %s: %w", ref.ID, err)
	}
	if err := w.endPurge(ctx, ref); err != nil {
		return err
	}
	w.cfg.Log.Debug("purged", zap.String("post_id", ref.ID), zap.Int("pages", pages), zap.String("request_id", e.RequestID), trace.ID(ctx))
	return nil
}

// endPurge notes in the tombstone that its purge is over, so no auditor asks for another one.
func (w *Worker) endPurge(ctx context.Context, ref schema.PostRef) error {
	if ref.Purged {
		return nil
	}
	_, err := w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.PostByIDKey(ref.ID), Set: []table.Attr{{Name: schema.AttrPurged, Value: table.N(1)}},
		If: table.Equal{Name: schema.AttrDeleted, Value: table.N(1)},
	})
	if _, expired := errors.AsType[*table.ConditionError](err); err != nil && !expired {
		return fmt.Errorf("end the purge of post %s: %w", ref.ID, err)
	}
	return nil
}

// purge deletes the items of a partition. It adds to pages, and stops at purgePages. It
// writes one part at a time and leaves the number of writers alone: one partition takes few
// writes, and its throttling must not slow down the fan-out of others (I8).
func (w *Worker) purge(ctx context.Context, pk string, pages *int) error {
	for page, err := range w.cfg.Store.Query(ctx, table.Query{PK: pk, PageSize: w.cfg.PageSize, Consistent: true, Project: []string{}}) {
		if err != nil {
			return fmt.Errorf("read %s: %w", pk, err)
		}
		if len(page.Items) == 0 {
			continue
		}
		if *pages == purgePages {
			return &queue.Later{Reason: "more of the post is left"}
		}
		*pages++
		writes := make([]table.BatchWrite, len(page.Items))
		for i, it := range page.Items {
			writes[i].Delete = it.Key
		}
		if _, err := w.cfg.Store.BatchWrite(ctx, writes); err != nil {
			return fmt.Errorf("delete a page of %s: %w", pk, err)
		}
	}
	return nil
}
