package fanout

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// postCreated begins the delivery of a post, and ends it too if one page holds all
// followers.
func (w *Worker) postCreated(ctx context.Context, e *messages.PostCreated) error {
	if err := messages.CheckIDAge("post_id", e.PostID, w.Now()); err != nil {
		return err
	}
	p, err := w.newPost(e.PostID, e.AuthorID, e.LikeShards)
	if err != nil {
		return err
	}
	// The post first, the followers after it: see the package comment (I1).
	deleted, err := w.Posts.EnsurePost(ctx, e)
	if err != nil {
		return err
	}
	if deleted {
		w.Log.Info("not delivered: deleted", zap.String("post_id", p.id), zap.String("request_id", e.RequestID))
		return nil
	}
	first, err := w.followers(ctx, p.author, span{}, "")
	if err != nil {
		return err
	}
	again, err := w.begin(ctx, p, first)
	if err != nil {
		return err
	}
	if again {
		stored, err := w.stored(ctx, p.id, "")
		if err != nil {
			return err
		}
		if stored != nil {
			return w.resume(ctx, p, *stored, e.RequestID)
		}
	}
	if first.more {
		return w.sendPlan(ctx, p, e.RequestID)
	}
	return w.inline(ctx, p, first, e.RequestID)
}

// begin writes the head of the ledger, or adds an attempt to the one that is there.
func (w *Worker) begin(ctx context.Context, p post, first page) (again bool, err error) {
	followers := int64(len(first.items))
	if first.more {
		if followers, err = w.countFollowers(ctx, p.author); err != nil {
			return false, err
		}
	}
	head := schema.Plan{Post: p.id, Author: p.author, Planned: followers + 1, Started: w.Now(), Attempts: 1}
	_, err = w.Store.Put(ctx, table.PutInput{Item: head.Item(), If: table.Absent{}})
	if _, exists := errors.AsType[*table.ConditionError](err); exists {
		again = true
		_, err = w.Store.Update(ctx, table.UpdateInput{
			Key: schema.DeliveryPlanKey(p.id),
			Add: []table.Attr{{Name: schema.AttrAttempts, Value: table.N(1)}},
		})
	}
	if err != nil {
		return again, fmt.Errorf("write the delivery plan of post %s: %w", p.id, err)
	}
	return again, nil
}

func (w *Worker) countFollowers(ctx context.Context, author string) (int64, error) {
	items, _, err := table.Collect(w.Store.Query(ctx, table.Query{
		PK: schema.UserPK(author), Low: schema.SortCount, High: schema.SortCountEnd, Consistent: true,
	}), 0)
	if err != nil {
		return 0, fmt.Errorf("count the followers of %s: %w", author, err)
	}
	_, counts, err := schema.ParseUser(items)
	return counts.Followers, err
}

// inline delivers to all followers as one chunk, which is stored when it is done.
// Until then a crash leaves nothing but entries that the next try writes again.
func (w *Worker) inline(ctx context.Context, p post, all page, requestID string) error {
	var delivered int64
	if !p.expired {
		var err error
		if delivered, err = w.write(ctx, p, all.items); err != nil {
			return err
		}
	}
	chunk := schema.Chunk{Post: p.id, Done: w.Now(), Delivered: delivered}
	_, err := w.Store.Put(ctx, table.PutInput{Item: chunk.Item(), If: table.Absent{}})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok && failed.Old != nil {
		// Another worker has planned meanwhile: what is stored decides.
		stored, err := schema.ParseChunk(*failed.Old)
		if err != nil {
			return err
		}
		return w.resume(ctx, p, stored, requestID)
	}
	if err != nil {
		return fmt.Errorf("write the delivery chunk of post %s: %w", p.id, err)
	}
	return nil
}

// resume goes on with a delivery whose first chunk is stored.
func (w *Worker) resume(ctx context.Context, p post, first schema.Chunk, requestID string) error {
	if first.End != "" {
		return w.sendPlan(ctx, p, requestID)
	}
	if !first.Done.IsZero() {
		return nil
	}
	return w.deliverChunk(ctx, p.author, first)
}

func (w *Worker) sendPlan(ctx context.Context, p post, requestID string) error {
	head, err := w.header(requestID)
	if err != nil {
		return err
	}
	return w.publish(ctx, &messages.FanoutPlan{Header: head, PostID: p.id, AuthorID: p.author})
}
