package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// removalRetry is the time until the retry of a removal that conflicted with another write of
// the same items, or that lacked capacity.
const removalRetry = time.Second

// unfollowed removes the author's entries from the timeline of a user who unfollowed the
// author. Homes leave these entries out in any case. Without the entries, a home has less to
// skip.
//
// The user may follow the author again at any moment, and the backfill of the new follow writes
// entries that must stay (I1). So entries are deleted in transactions that check the mark of
// the unfollow. The new follow replaces this mark before its backfill begins. A transaction
// after the new follow, however late, deletes nothing.
func (w *Worker) unfollowed(ctx context.Context, e *messages.Unfollowed) error {
	key := schema.MarkKey(e.FollowerID, e.AuthorID)
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: key, Consistent: true})
	if err != nil {
		return fmt.Errorf("read the home mark of %s for %s: %w", e.FollowerID, e.AuthorID, err)
	}
	if res.Item == nil || res.Item.Str(schema.AttrKind) != string(schema.MarkUnfollowed) || res.Item.Str(schema.AttrVersion) != e.MarkVersion {
		return nil
	}
	before, removed := e.Before, 0
	for range w.cfg.PlanChunks {
		var entries []table.Key
		if entries, before, err = w.entriesOf(ctx, e.FollowerID, e.AuthorID, before); err != nil {
			return err
		}
		still, err := w.removeEntries(ctx, e, entries)
		if err != nil || !still {
			return err
		}
		removed += len(entries)
		if before == "" {
			break
		}
	}
	w.cfg.Log.Debug("entries of an unfollowed author removed", zap.String("user_id", e.FollowerID), zap.String("author_id", e.AuthorID),
		zap.Int("entries", removed), zap.String("request_id", e.RequestID))
	if before == "" {
		return nil
	}
	head, err := w.header(e.RequestID)
	if err != nil {
		return err
	}
	return w.publish(ctx, queue.TopicBackfills, &messages.Unfollowed{
		Header: head, FollowerID: e.FollowerID, AuthorID: e.AuthorID, MarkVersion: e.MarkVersion, Before: before,
	})
}

// entriesOf reads the page of user's timeline below the post before, "" for the first page. It
// returns the keys of the author's entries, and the last post of the page, "" if the timeline
// ends. The read need not be consistent: if the read misses an entry, homes still leave the
// entry out.
func (w *Worker) entriesOf(ctx context.Context, user, author, before string) (entries []table.Key, last string, err error) {
	q := table.Query{PK: schema.TimelinePK(user), Descending: true, PageSize: w.cfg.PageSize, Project: []string{}}
	if before != "" {
		q.After = schema.PostSK(before)
	}
	for page, err := range w.cfg.Store.Query(ctx, q) {
		if err != nil {
			return nil, "", fmt.Errorf("read the timeline of %s: %w", user, err)
		}
		for _, it := range page.Items {
			entry, err := schema.ParseEntry(it)
			if err != nil {
				return nil, "", err
			}
			last = entry.Post
			if entry.Author == author {
				entries = append(entries, it.Key)
			}
		}
		if !page.More {
			return entries, "", nil
		}
		if last != "" { // a page whose entries have all expired has no position
			break
		}
	}
	return entries, last, nil
}

// removeEntries deletes entries, as many in a transaction as fit beside the check of the mark.
// It reports whether the stored mark is still the mark of the unfollow.
func (w *Worker) removeEntries(ctx context.Context, e *messages.Unfollowed, entries []table.Key) (still bool, err error) {
	ops := make([]table.TransactOp, 0, table.MaxTransact)
	for len(entries) > 0 {
		ops = append(ops[:0], table.TransactOp{Check: &table.CheckInput{Key: schema.MarkKey(e.FollowerID, e.AuthorID), If: table.All{
			table.Equal{Name: schema.AttrKind, Value: table.S(string(schema.MarkUnfollowed))},
			table.Equal{Name: schema.AttrVersion, Value: table.S(e.MarkVersion)},
		}}})
		n := min(len(entries), table.MaxTransact-1)
		for _, key := range entries[:n] {
			ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: key}})
		}
		entries = entries[n:]
		_, err := w.cfg.Store.Transact(ctx, table.TransactInput{Ops: ops})
		if cancelled, ok := errors.AsType[*table.CancelledError](err); ok {
			if cancelled.Failed(0) {
				return false, nil // the user follows the author again
			}
			return false, &queue.Later{After: removalRetry, Reason: err.Error()}
		}
		if err != nil {
			return false, fmt.Errorf("remove entries of %s from the timeline of %s: %w", e.AuthorID, e.FollowerID, err)
		}
	}
	return true, nil
}
