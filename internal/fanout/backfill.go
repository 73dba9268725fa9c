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

// markLinger is the time for which a home mark outlives its backfill, so that a home read that
// began before the posts were copied still merges them in.
const markLinger = time.Minute

// markSlack is the time for which a home mark outlives its merging of posts, and the entries that the mark
// hides. Clocks differ, so the table may delete the mark early by up to markSlack.
const markSlack = time.Hour

// followed copies the author's posts, from the first post that the follow shows, into the
// follower's timeline. Then the home mark merges no more posts, and expires.
//
// The mark hides entries of posts below the follow's first post, which are entries of an
// earlier follow or of a late fan-out. Such entries have expired when the first post expires.
// If the follow shows every post of the author, no entry has to be hidden.
//
// The post list is read consistently, so the list has every post that was committed before the
// follow. The fan-out of later posts finds the edge (I1). If the author is pulled or will soon
// be pulled, no posts are copied: the mark continues to merge the posts.
//
// The stored mark counts, not the version in the event: a later follow may have written another
// mark, and a mark walk gives a mark a new version. An unfollow during the copying is safe,
// too: because of the mark of the unfollow, homes leave the author out, and the last write of
// followed fails.
func (w *Worker) followed(ctx context.Context, e *messages.Followed) error {
	for {
		began := w.cfg.Now()
		res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.MarkKey(e.FollowerID, e.AuthorID), Consistent: true})
		if err != nil {
			return fmt.Errorf("read the home mark of %s for %s: %w", e.FollowerID, e.AuthorID, err)
		}
		if res.Item == nil || !schema.KnownMark(*res.Item) {
			return nil
		}
		mark, err := schema.ParseMark(*res.Item)
		if err != nil || mark.Kind != schema.MarkBackfill || !mark.TTL.IsZero() {
			return err
		}
		if ended, err := w.endMark(ctx, mark, began, e.RequestID); err != nil || ended {
			return err
		}
	}
}

// endMark ends the mark of a backfill, or turns the mark into a pulled mark. It returns false
// if the mark has changed since the read.
func (w *Worker) endMark(ctx context.Context, mark schema.Mark, began time.Time, requestID string) (ended bool, err error) {
	// The mode is read after the mark. In the opposite order, an unfollow and a new follow
	// between the two reads could make a mark that neither the walk nor this backfill saw.
	mode, _, _, err := w.readAuthor(ctx, mark.Author)
	if err != nil {
		return false, err
	}
	if mode.State == schema.ModeSwitching || mode.State == schema.ModePull {
		pulled := mark
		pulled.Kind, pulled.V = schema.MarkPulled, mode.V
		changed, err := w.replaceMark(ctx, pulled, &mark)
		return changed == nil, err
	}
	copied, err := w.copyPosts(ctx, mark, began)
	if err != nil {
		return false, err
	}
	until := w.cfg.Now().Add(markLinger)
	lives, err := w.cfg.Lifetimes.Current(ctx)
	if err != nil {
		return false, err
	}
	ttl := until.Add(markSlack)
	if first, err := id.Time(mark.From); err == nil && first.Add(lives.Written(first)+markSlack).After(ttl) {
		ttl = first.Add(lives.Written(first) + markSlack)
	}
	_, err = w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.MarkKey(mark.User, mark.Author),
		Set: []table.Attr{
			{Name: schema.AttrUntil, Value: table.N(until.Unix())},
			{Name: table.AttrTTL, Value: table.N(ttl.Unix())},
		},
		If: unchanged(mark),
	})
	if _, changed := errors.AsType[*table.ConditionError](err); changed {
		return false, nil
	}
	if err != nil {
		return false, markError(err, mark.User, mark.Author)
	}
	w.cfg.Log.Debug("backfilled", zap.String("user_id", mark.User), zap.String("author_id", mark.Author),
		zap.Int("posts", copied), zap.String("request_id", requestID))
	return true, nil
}

// copyPosts writes entries for the posts that homes merge in because of the mark, except posts
// that are too old for a timeline.
func (w *Worker) copyPosts(ctx context.Context, mark schema.Mark, began time.Time) (copied int, err error) {
	oldest, err := w.oldestShown(ctx)
	if err != nil {
		return 0, err
	}
	oldest = max(mark.From, oldest)
	if err := w.cfg.Clock.Doubt(); err != nil {
		return 0, err // homes merge the posts until the clock is right
	}
	for page, err := range w.cfg.Store.Query(ctx, table.Query{
		PK: schema.PostsPK(mark.Author), Low: schema.PostSK(oldest), PageSize: w.cfg.PageSize, Consistent: true,
		Project: []string{schema.AttrLikeShards, table.AttrTTL},
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
			if writes, err = w.appendEntry(ctx, writes, mark.User, stored); err != nil {
				return copied, err
			}
		}
		if len(writes) == 0 {
			continue
		}
		if err := w.awake(began); err != nil {
			return copied, err
		}
		if err := w.writeAll(ctx, writes); err != nil {
			return copied, fmt.Errorf("copy posts of %s to %s: %w", mark.Author, mark.User, err)
		}
		copied += len(writes)
	}
	return copied, nil
}
