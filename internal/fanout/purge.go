package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// purgeAfter is the time from the event of a deletion until the deletion is certainly made
	// or given up, by any clock. After that time only a process that was suspended writes
	// comments or likes of the post. Items of such a process stay, and nobody sees them.
	purgeAfter = messages.MaxAhead + time.Minute
	// purgePages is the maximum number of pages that one receive of a message removes.
	purgePages = 20
)

// postDeleted removes the comments and likes of a deleted post, and sets the expiry of its like
// count: the ledger in the count has to outlive every like in flight (docs/LIKES.md). The
// tombstone, the delivery record and the entries already have an expiry.
//
// One receive removes up to purgePages pages, and then the message waits for its redelivery. A
// later receive does not find removed items again, so the message needs no position.
func (w *Worker) postDeleted(ctx context.Context, e *messages.PostDeleted) (subject, error) {
	asked, err := id.Time(e.EventID)
	if err != nil {
		return nothing{}, err
	}
	due := asked.Add(purgeAfter)
	queue.Due(ctx, due)
	if wait := due.Sub(w.cfg.Now()); wait > 0 {
		return nothing{}, &queue.Later{After: wait, Reason: "the deletion may still be under way"}
	}
	if err := w.cfg.Clock.Doubt(); err != nil {
		return nothing{}, err
	}
	ref, err := w.postRef(ctx, e.PostID, e.AuthorID)
	if err != nil || !ref.Deleted {
		return nothing{}, err
	}
	lists := []string{schema.CommentsPK(ref.ID)}
	for shard := range ref.LikeShards {
		lists = append(lists, schema.LikesPK(ref.ID, shard, ref.LikeShards))
	}
	if err := w.purgeNotices(ctx, ref, e.Mentions); err != nil {
		return nothing{}, err
	}
	pages := 0
	for _, pk := range lists {
		if err := w.purge(ctx, ref.ID, pk, &pages); err != nil {
			return nothing{}, err
		}
	}
	if err := w.uncount(ctx, ref, e.RequestID); err != nil {
		return nothing{}, err
	}
	lives, err := w.cfg.Lifetimes.Current(ctx)
	if err != nil {
		return nothing{}, err
	}
	_, err = w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.LikeCountKey(ref.ID),
		Set: []table.Attr{{Name: table.AttrTTL, Value: table.N(w.cfg.Now().Add(lives.Longest() + schema.DeliveryKept).Unix())}},
		If:  table.Exists{},
	})
	if _, unliked := errors.AsType[*table.ConditionError](err); err != nil && !unliked {
		return nothing{}, fmt.Errorf("end the like count of post %s: %w", ref.ID, err)
	}
	if err := w.endPurge(ctx, ref); err != nil {
		return nothing{}, err
	}
	w.cfg.Log.Debug("purged", zap.String("post_id", ref.ID), zap.Int("pages", pages), zap.String("request_id", e.RequestID), trace.ID(ctx))
	return deletion{ref, e.RequestID}, nil
}

// uncount takes a deleted repost out of the count of its original, unless the original is gone, too. The deletion has usually
// done that. But its process may have died.
func (w *Worker) uncount(ctx context.Context, ref schema.PostRef, requestID string) error {
	if ref.RepostOf == "" {
		return nil
	}
	of, err := w.postByID(ctx, ref.RepostOf)
	if err != nil || of == nil || of.Deleted {
		return err
	}
	version, err := w.newIDAfter(ref.ID)
	if err != nil {
		return err
	}
	return w.count(ctx, messages.Reposted{PostID: of.ID, AuthorID: of.Author, RepostID: ref.ID, UserID: ref.Author, Deleted: true}, version, requestID)
}

// purgeNotices deletes the notifications of a post: the notifications of its author and of its
// mentioned users. After a read that shows the post alive, a worker writes such a notification
// within a minute or not at all.
func (w *Worker) purgeNotices(ctx context.Context, ref schema.PostRef, mentioned []string) error {
	if w.cfg.Notices == nil {
		return nil
	}
	var keys []table.Key
	for _, kind := range schema.NoticeKinds {
		if kind.OnOwnPost() {
			keys = append(keys, schema.NoticeKey(ref.Author, kind, ref.ID))
		}
	}
	if _, err := w.cfg.Store.BatchWrite(ctx, deletesOf(append(keys, noticesOfMentions(ref.ID, slices.Clone(mentioned))...))); err != nil {
		return fmt.Errorf("delete the notifications of post %s: %w", ref.ID, err)
	}
	return nil
}

// noticesOfMentions returns the keys of the mentioned users' notifications, each key once.
func noticesOfMentions(post string, users []string) (keys []table.Key) {
	slices.Sort(users)
	for _, user := range slices.Compact(users) {
		keys = append(keys, schema.NoticeKey(user, schema.NoticeMention, post))
	}
	return keys
}

func deletesOf(keys []table.Key) []table.BatchWrite {
	writes := make([]table.BatchWrite, len(keys))
	for i, key := range keys {
		writes[i].Delete = key
	}
	return writes
}

// endPurge notes in the tombstone that its purge is over, so that no auditor requests
// another purge.
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

// purge deletes the items of a partition of a post, and the notifications of the users that the
// partition's comments mention. It counts in pages, and stops at purgePages. It writes one part at a
// time and does not change the number of writers: one partition takes few writes, and its throttling
// must not slow down the fan-out of other posts (I8).
func (w *Worker) purge(ctx context.Context, post, pk string, pages *int) error {
	for page, err := range w.cfg.Store.Query(ctx, table.Query{PK: pk, PageSize: w.cfg.PageSize, Consistent: true, Project: []string{schema.AttrMentions}}) {
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
		var keys []table.Key
		var mentioned []string
		for _, it := range page.Items {
			keys = append(keys, it.Key)
			users := schema.MentionsOf(it)
			mentioned = append(mentioned, users[:min(len(users), schema.NoticedMentions)]...)
		}
		// The notifications are deleted first: once the comments are gone, nobody finds the notifications.
		if notices := noticesOfMentions(post, mentioned); w.cfg.Notices != nil && len(notices) > 0 {
			if _, err := w.cfg.Store.BatchWrite(ctx, deletesOf(notices)); err != nil {
				return fmt.Errorf("delete the notifications of mentions of post %s: %w", post, err)
			}
		}
		if _, err := w.cfg.Store.BatchWrite(ctx, deletesOf(keys)); err != nil {
			return fmt.Errorf("delete a page of %s: %w", pk, err)
		}
	}
	return nil
}
