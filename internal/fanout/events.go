package fanout

import (
	"context"
	"fmt"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// subject is the part of the table that a message changes, and that events report to other
// programs. The message that ends the work sends the subject's events, and so does each message
// that finds the work done (docs/decisions/0033).
type subject interface {
	// tell sends the events that the stored state requires. It may be repeated without harm:
	// the id of each event follows from the subject, and notices are merged by their posts.
	tell(ctx context.Context, w *Worker) error
}

// nothing is the subject of work without events.
type nothing struct{}

func (nothing) tell(context.Context, *Worker) error { return nil }

// delivery is the delivery of a post.
type delivery struct{ post, requestID string }

// tell sends PostDelivered if the delivery is complete. If several chunks end at the same time,
// the last chunk finds all chunks done. If a worker died before it sent the event, a
// redelivered message of the post finds the delivery done, and tell sends the event.
func (d delivery) tell(ctx context.Context, w *Worker) error {
	if w.cfg.Events == nil {
		return nil
	}
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.DeliveryPlanKey(d.post), Consistent: true})
	if err != nil {
		return fmt.Errorf("read the delivery plan of post %s: %w", d.post, err)
	}
	if res.Item == nil { // the post was deleted before its delivery began, or the record has expired
		return nil
	}
	plan, err := schema.ParsePlan(*res.Item)
	if err != nil {
		return err
	}
	e := &messages.PostDelivered{
		Header: messages.Header{EventID: d.post, Time: w.cfg.Now().UTC(), RequestID: d.requestID},
		PostID: d.post, AuthorID: plan.Author, Pulled: plan.State == schema.PlanPulled,
	}
	if !e.Pulled {
		chain, err := w.chain(ctx, d.post, plan.Sum)
		if err != nil || !chain.Ended || chain.Done < chain.Total {
			return err
		}
		e.Delivered, e.Skipped = chain.Delivered, chain.Skipped
	}
	return w.cfg.Events(ctx, e)
}

// chain adds the chunks after a summary to the summary. It stops at the first page that has a
// chunk that is not done.
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

// deletion is a deleted post whose comments and likes are gone.
type deletion struct {
	post      schema.PostRef
	requestID string
}

// tell sends PostTakenDown if a service deleted the post.
func (d deletion) tell(ctx context.Context, w *Worker) error {
	down := d.post.TakenDown
	if w.cfg.Events == nil || down == nil {
		return nil
	}
	return w.cfg.Events(ctx, &messages.PostTakenDown{
		Header: messages.Header{EventID: d.post.ID, Time: w.cfg.Now().UTC(), RequestID: d.requestID},
		PostID: d.post.ID, AuthorID: d.post.Author, Reason: down.Reason, By: down.By, At: down.At,
	})
}

// follow is a follow whose backfill is done.
type follow messages.Followed

// tell sends Followed, unless the follow comes from an import or a repair. The id of the event
// is the id of the follow, because a walk may give the mark a new version before the backfill is
// requested again.
func (f follow) tell(ctx context.Context, w *Worker) error {
	if f.FollowID == "" {
		return nil
	}
	out := messages.Followed(f)
	out.EventID, out.MarkVersion = f.FollowID, f.FollowID
	for _, send := range []func(context.Context, ...messages.Event) error{w.cfg.Events, w.cfg.Notices} {
		if send != nil {
			if err := send(ctx, &out); err != nil {
				return err
			}
		}
	}
	return nil
}

// posted is a stored post, with the users whom it notifies.
type posted struct {
	post *messages.PostCreated
	// living is false if the post was deleted or has ended, or was never made.
	living bool
	delivery
}

// tell sends the events of the delivery, Mentioned for each mentioned user, and Reposted for a repost. The work of the
// delivery is done, so a notice that the worker cannot send does not delay the post. A repost that was never made must not
// count, because it has no end that would take it out of the count again.
func (m posted) tell(ctx context.Context, w *Worker) error {
	if err := m.delivery.tell(ctx, w); err != nil {
		return err
	}
	var notices []messages.Event
	for _, user := range m.post.Mentions {
		notices = append(notices, &messages.Mentioned{UserID: user, ActorID: m.post.AuthorID, PostID: m.post.PostID})
	}
	if m.post.RepostOf != "" && m.living {
		repost := &messages.Reposted{PostID: m.post.RepostOf, AuthorID: m.post.OfAuthor, RepostID: m.post.PostID, UserID: m.post.AuthorID}
		if err := w.count(ctx, *repost, m.post.PostID, m.requestID); err != nil {
			return err
		}
		notices = append(notices, repost)
	}
	if len(notices) == 0 || w.cfg.Notices == nil {
		return nil
	}
	for _, e := range notices {
		head, err := w.header(m.requestID)
		if err != nil {
			return err
		}
		*e.Head() = head
	}
	return w.cfg.Notices(ctx, notices...)
}

// count lets the aggregator count a repost, or its end.
func (w *Worker) count(ctx context.Context, e messages.Reposted, version, requestID string) error {
	at, err := id.Time(version)
	if err != nil {
		return err
	}
	e.Header = messages.Header{EventID: version, Time: at, RequestID: requestID}
	return w.publish(ctx, queue.TopicLikes, &e)
}
