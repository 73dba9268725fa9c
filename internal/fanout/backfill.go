package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// markLinger is how long a home mark outlives its backfill, so that a home read
// which began before the copies still merges the author's posts in.
const markLinger = time.Minute

// followed copies the author's posts from the follow's first one on into the
// follower's timeline, and then lets the home mark go.
//
// The post list is read consistently, so it holds every post that was committed
// before the follow; the fan-out of later ones sees the edge (I1). A mark of
// another version belongs to a later follow or unfollow, which has its own event or
// needs none: this one has nothing left to do. An unfollow that comes between is
// safe too: its mark leaves the author out, and the last write fails.
func (w *Worker) followed(ctx context.Context, e *messages.Followed) error {
	res, err := w.Store.Get(ctx, table.GetInput{Key: schema.MarkKey(e.FollowerID, e.AuthorID), Consistent: true})
	if err != nil {
		return fmt.Errorf("read the home mark of %s for %s: %w", e.FollowerID, e.AuthorID, err)
	}
	if res.Item == nil {
		return nil
	}
	mark, err := schema.ParseMark(*res.Item)
	if err != nil {
		return err
	}
	if mark.Kind != schema.MarkBackfill || mark.Version != e.MarkVersion || !mark.TTL.IsZero() {
		return nil
	}
	copied, err := w.copyPosts(ctx, mark)
	if err != nil {
		return err
	}
	_, err = w.Store.Update(ctx, table.UpdateInput{
		Key: res.Item.Key,
		Set: []table.Attr{{Name: table.AttrTTL, Value: table.N(w.Now().Add(markLinger).Unix())}},
		If: table.All{
			table.Equal{Name: schema.AttrKind, Value: table.S(string(schema.MarkBackfill))},
			table.Equal{Name: schema.AttrVersion, Value: table.S(e.MarkVersion)},
		},
	})
	if _, changed := errors.AsType[*table.ConditionError](err); changed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end the home mark of %s for %s: %w", e.FollowerID, e.AuthorID, err)
	}
	w.Log.Debug("backfilled", zap.String("user_id", e.FollowerID), zap.String("author_id", e.AuthorID),
		zap.Int("posts", copied), zap.String("request_id", e.RequestID))
	return nil
}

// copyPosts writes entries for the posts that the mark merges in, but for those that
// are deleted or too old for a timeline.
func (w *Worker) copyPosts(ctx context.Context, mark schema.Mark) (copied int, err error) {
	oldest := max(mark.From, id.Floor(w.Now().Add(-w.TimelineTTL)))
	for page, err := range w.Store.Query(ctx, table.Query{
		PK: schema.PostsPK(mark.Author), Low: schema.PostSK(oldest), PageSize: w.PageSize, Consistent: true,
		Project: []string{schema.AttrDeleted, schema.AttrLikeShards},
	}) {
		if err != nil {
			return copied, fmt.Errorf("read the posts of %s: %w", mark.Author, err)
		}
		writes := make([]table.BatchWrite, 0, len(page.Items))
		for _, it := range page.Items {
			stored, err := schema.ParsePost(it)
			if err != nil {
				return copied, err
			}
			if stored.Deleted {
				continue
			}
			p, err := w.newPost(stored.ID, mark.Author, stored.LikeShards)
			if err != nil {
				return copied, err
			}
			if !p.expired {
				key := table.Key{PK: schema.TimelinePK(mark.User), SK: p.sk}
				writes = append(writes, table.BatchWrite{Put: &table.Item{Key: key, Attrs: p.attrs}})
			}
		}
		if len(writes) == 0 {
			continue
		}
		if err := w.writeAll(ctx, writes); err != nil {
			return copied, fmt.Errorf("copy posts of %s to %s: %w", mark.Author, mark.User, err)
		}
		copied += len(writes)
	}
	return copied, nil
}
