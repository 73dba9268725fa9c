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

// postCreated begins the delivery of a post. If one page holds all followers, it also
// completes the delivery. living reports whether the table has the post.
func (w *Worker) postCreated(ctx context.Context, e *messages.PostCreated) (living bool, err error) {
	if err := w.cfg.Clock.CheckAge("post_id", e.PostID, w.cfg.Now()); err != nil {
		return false, err
	}
	posted, err := id.Time(e.PostID)
	if err != nil {
		return false, err
	}
	queue.Due(ctx, posted) // a post may be dated after its event, and then the event has waited
	// The post must be stored before followers are read: see the package comment (I1).
	stored, err := w.cfg.Posts.EnsurePost(ctx, e)
	if err != nil {
		return false, err
	}
	if stored.Deleted {
		w.cfg.Log.Info("not delivered: the post was deleted or has ended, or its author was removed", zap.String("post_id", e.PostID), zap.String("request_id", e.RequestID), trace.ID(ctx))
		return false, nil
	}
	// The like shards of the event may be absent.
	return true, w.deliver(ctx, stored, true, e.RequestID)
}

// Deliver begins the delivery of a post that is in the table, as postCreated does. The post may
// have any age. The caller has read or written the post (I1).
func (w *Worker) Deliver(ctx context.Context, ref schema.PostRef) error {
	return w.deliver(ctx, schema.Post{ID: ref.ID, Author: ref.Author, LikeShards: ref.LikeShards, Content: schema.Content{ExpiresAt: ref.End}}, false, "")
}

func (w *Worker) deliver(ctx context.Context, stored schema.Post, compare bool, requestID string) error {
	p, err := w.newPost(ctx, stored.Ref(0))
	if err != nil {
		return err
	}
	// The mode is read after the post was stored: see mode.go (I1). The profile is read after the post
	// was stored, too. A byline walk that begins after this read finds the post. An earlier walk may
	// miss the post, but its byline is in the profile that is read here.
	mode, followers, profile, err := w.readAuthor(ctx, p.author)
	if err != nil {
		return err
	}
	if compare && profile != nil && stored.Byline.V < profile.V {
		if err := w.sign(ctx, p.author, p.id, profile.Byline()); err != nil {
			return err
		}
	}
	if mode, err = w.steer(ctx, mode, followers, requestID); err != nil {
		return err
	}
	plan := schema.Plan{Post: p.id, Author: p.author, Planned: 1, Started: w.cfg.Now(), Attempts: 1, TTL: p.recordTTL}
	var first page
	if mode.Pulls(p.id) {
		plan.State = schema.PlanPulled
	} else {
		if first, err = w.followers(ctx, p.author, span{}, ""); err != nil {
			return err
		}
		if !first.more {
			followers = int64(len(first.items))
		}
		plan.Planned += followers
	}
	state, begun, err := w.begin(ctx, plan)
	if err != nil || state == schema.PlanPulled {
		return err
	}
	if plan.State == schema.PlanPulled { // an earlier attempt found another mode, and decided for push
		if first, err = w.followers(ctx, p.author, span{}, ""); err != nil {
			return err
		}
	}
	if begun {
		stored, err := w.storedChunk(ctx, p.id, "")
		if err != nil {
			return err
		}
		if stored != nil {
			return w.resume(ctx, p, *stored, requestID)
		}
	}
	if first.more {
		return w.sendPlan(ctx, p, requestID)
	}
	return w.inline(ctx, p, first, requestID)
}

// begin writes the plan of the delivery. If an earlier attempt has begun the delivery, begin
// adds an attempt to the stored plan, and the stored state counts.
func (w *Worker) begin(ctx context.Context, plan schema.Plan) (state string, begun bool, err error) {
	_, err = w.cfg.Store.Put(ctx, table.PutInput{Item: plan.Item(), If: table.Absent{}})
	if _, begun = errors.AsType[*table.ConditionError](err); begun {
		var res table.WriteResult
		res, err = w.cfg.Store.Update(ctx, table.UpdateInput{
			Key: schema.DeliveryPlanKey(plan.Post), ReturnNew: true,
			Add: []table.Attr{{Name: schema.AttrAttempts, Value: table.N(1)}},
			// A worker may sleep after its put until the plan has expired. A plan that this update
			// made would never expire. So the message fails, and its next try puts a plan.
			If: table.Exists{},
		})
		if err == nil {
			plan, err = schema.ParsePlan(*res.Item)
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("write the delivery plan of post %s: %w", plan.Post, err)
	}
	return plan.State, begun, nil
}

// inline delivers the post to all followers as one chunk, which is stored when it is done. If
// the worker crashes before that, only entries are left, which the next try writes again.
func (w *Worker) inline(ctx context.Context, p post, all page, requestID string) error {
	var delivered, skipped int64
	if !p.expired {
		var err error
		if delivered, skipped, err = w.write(ctx, p, all.items); err != nil {
			return err
		}
	}
	chunk := schema.Chunk{Post: p.id, Done: w.cfg.Now(), Delivered: delivered, Skipped: skipped, TTL: p.recordTTL}
	describe(ctx, chunk)
	_, err := w.cfg.Store.Put(ctx, table.PutInput{Item: chunk.Item(), If: table.Absent{}})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok && failed.Old != nil {
		// Another worker has planned the delivery since the read, and the stored chain counts.
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

// resume continues a delivery whose first chunk is stored.
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
	return w.publish(ctx, queue.TopicChunks, &messages.FanoutPlan{Header: head, PostID: p.id, AuthorID: p.author})
}
