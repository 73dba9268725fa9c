package likeagg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"fanfare/internal/invariants"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// window has the messages of one post from a span of time. A window collects messages, is
// closed, looks the post up, stamps the likes, flushes once and answers the messages. The
// pool's workers run these steps.
type window struct {
	cfg       *Config
	collector *collector
	post      string
	openedAt  time.Time

	// The collector's mutex guards these fields while the window collects.
	closed   bool
	messages int
	// actions has one action for each user, in the order of arrival.
	actions []*action
	byUser  map[string]*action

	// inc is the incarnation of the window. stamp is the flush that is to count the likes
	// that the window writes.
	inc   *incarnation
	stamp schema.Flush
	// shards is the number of the post's like shards, as stored with the post. author is the author of the post.
	shards int
	author string
	// expiry is the time from which the post's likes and their count may be deleted, zero for never.
	expiry time.Time
	// gate holds back the window's turns while many of its requests wait.
	gate gate
	// unresolved counts the requests of unknown outcome. Only assertions read it.
	unresolved atomic.Int64
	// ledger is the count item as last read, nil before the first read. Only the worker that
	// calls judge uses ledger.
	ledger *schema.LikeCount
	fences int
	// flushed is the count item after the flush, nil before the flush.
	flushed *table.Item
	// span is the trace span of the window, nil if the window has none.
	span oteltrace.Span
}

// begin looks the post up, once for each window, and lets the pool apply the actions.
func (w *window) begin(ctx context.Context) {
	ctx = w.traced(ctx)
	ref, err := w.lookup(ctx)
	switch {
	case err != nil:
		w.end(ctx, err)
	case ref == nil:
		for _, a := range w.actions {
			if messages.IsReposter(a.user) { // the original was there before the repost, so it is gone for good
				continue
			}
			a.err = unknownPost(w.post, a.receives, w.collector.cfg.Now())
		}
		w.end(ctx, nil)
	case ref.Deleted: // likes of a deleted post have no effect
		w.end(ctx, nil)
	case ref.Gone(w.cfg.Now()): // an ended post has no effects of likes either, unless the clock is in doubt
		w.end(ctx, w.cfg.Clock.Doubt())
	default:
		w.shards = ref.LikeShards
		w.author = ref.Author
		w.expiry = Expiry(*ref)
		w.round(ctx, w.actions)
	}
}

// round takes actions one step further, concurrently. Then one worker judges the likes that the
// actions found, and the next round writes the next states, until no action is left.
func (w *window) round(ctx context.Context, actions []*action) {
	w.collector.pool.enqueue(&w.gate, len(actions), func(i int) {
		actions[i].err = w.act(ctx, actions[i])
	}, func() {
		var met, next []*action
		for _, a := range actions {
			if lost, ok := errors.AsType[*lostError](a.err); ok {
				w.end(ctx, lost)
				return
			}
			if a.err == nil && a.stamped == nil {
				met = append(met, a)
			}
		}
		err := w.judge(ctx, met)
		if lost, ok := errors.AsType[*lostError](err); ok {
			w.end(ctx, lost)
			return
		}
		for _, a := range met {
			if a.err = cmp.Or(a.err, err); a.err == nil && a.next != nil {
				next = append(next, a)
			}
		}
		if len(next) > 0 {
			w.round(ctx, next)
			return
		}
		w.finish(ctx)
	})
}

// lookup reads the post by id, nil if the post is absent. The window needs to know whether the post was
// deleted, and the number of the post's shards, which may be wrong in an event. A stale answer is good enough
// for both: the shards never change, and the deletion could also happen a moment later. Only the absence of
// the post needs a consistent read.
func (w *window) lookup(ctx context.Context) (*schema.PostRef, error) {
	for _, consistent := range []bool{false, true} {
		var res table.GetResult
		err := w.attempt(ctx, nil, func() (err error) {
			res, err = w.cfg.Store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(w.post), Consistent: consistent})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the post: %w", err)
		}
		if res.Item != nil {
			ref, err := schema.ParsePostRef(*res.Item)
			if err != nil {
				return nil, fmt.Errorf("read the post: %w", err)
			}
			return &ref, nil
		}
	}
	return nil, nil
}

// unknownPost returns the error of a like of an absent post: the like waits, because the event
// of the post may be in flight, and is refused later. If the post's time is ahead of the clock,
// the event of the post waits until the post is due, and so does the like.
func unknownPost(post string, receives int, now time.Time) error {
	if early, ok := errors.AsType[*messages.EarlyError](messages.CheckIDAge("post_id", post, now)); ok {
		return &queue.Later{After: early.Wait, Reason: "its post is not due yet"}
	}
	if receives > queue.MaxAttempts {
		return messages.Permanent(messages.ReasonNoPost, "%s", post)
	}
	return &queue.Later{After: queue.Backoff(receives), Counts: true, Reason: "there is no such post yet"}
}

// finish flushes the changes of the actions, if they stamped anything.
func (w *window) finish(ctx context.Context) {
	delta, stamped := map[string]int64{}, int64(0)
	for _, a := range w.actions {
		if a.stamped != nil {
			invariants.Check(a.stamped.Flush == w.stamp, "I3: window %s is to count a like stamped %s", w.stamp, a.stamped.Flush)
			stamped++
			delta[a.stamped.Kind]++
			delta[a.stamped.Base]--
		}
	}
	if stamped == 0 {
		w.end(ctx, nil)
		return
	}
	w.end(ctx, w.flush(ctx, w.changes(delta, stamped)))
}

// changes returns the sum of each kind that a window changes. The result always includes the sum of likes.
func (w *window) changes(delta map[string]int64, stamped int64) []table.Attr {
	add := []table.Attr{{Name: schema.AttrLikes, Value: table.N(delta[schema.KindLike])}}
	for _, kind := range slices.Sorted(maps.Keys(delta)) {
		by := delta[kind]
		invariants.Check(-stamped <= by && by <= stamped, "I3: %d users change the count of kind %q of post %s by %d", stamped, kind, w.post, by)
		if kind != "" && kind != schema.KindLike && by != 0 {
			add = append(add, table.Attr{Name: schema.AttrCount(kind), Value: table.N(by)})
		}
	}
	return add
}

// flush adds to the post's counts of all kinds, once, and adds its entry to the ledger. One update
// writes the counts and the entry, because the ledger counts all kinds of a window together.
func (w *window) flush(ctx context.Context, add []table.Attr) error {
	invariants.Check(w.unresolved.Load() == 0, "I3: flush %s of post %s while %d requests have an unknown outcome", w.stamp, w.post, w.unresolved.Load())
	in := table.UpdateInput{
		Set: []table.Attr{
			{Name: schema.AttrFlushed(w.stamp.Inc), Value: table.N(w.stamp.Seq)},
			{Name: schema.AttrAsOf, Value: table.N(w.cfg.Now().UnixMilli())},
		},
		Add:       add,
		If:        table.All{notFlushed(w.stamp), table.AttrAbsent{Name: schema.AttrFenced(w.stamp.Inc)}},
		ReturnNew: true,
	}
	res, err := w.updateCount(ctx, in)
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		if seq := schema.ParseLikeCount(failed.Old).Done[w.stamp.Inc]; seq >= w.stamp.Seq {
			invariants.Check(seq == w.stamp.Seq, "I3: post %s has flush %d of incarnation %s before flush %d", w.post, seq, w.stamp.Inc, w.stamp.Seq)
			w.flushed = failed.Old
			return nil // an earlier try was applied, but its answer was lost
		}
		return &lostError{"fenced by another aggregator", nil}
	}
	if err != nil {
		return &lostError{"the flush failed", err}
	}
	w.flushed = res.Item
	return nil
}

// updateCount updates the post's count item. The update may be the first write of the item.
func (w *window) updateCount(ctx context.Context, in table.UpdateInput) (res table.WriteResult, err error) {
	in.Key = schema.LikeCountKey(w.post)
	if !w.expiry.IsZero() {
		in.Set = append(in.Set, table.Attr{Name: table.AttrTTL, Value: table.N(w.expiry.Unix())})
	}
	err = w.attempt(ctx, nil, func() (err error) {
		res, err = w.cfg.Store.Update(ctx, in)
		return err
	})
	return res, err
}

// end answers the window's messages, prunes, and lets the post's next window start. If err is
// not nil, all messages fail.
func (w *window) end(ctx context.Context, err error) {
	lost, isLost := errors.AsType[*lostError](err)
	out := Outcome{Messages: w.messages, Flushed: w.flushed != nil, Lost: isLost, Fences: w.fences}
	if isLost {
		log := w.cfg.Log.With(zap.String("post_id", w.post), zap.Int("messages", w.messages), zap.Error(err), trace.ID(ctx))
		if caught, ok := errors.AsType[*panics.Error](err); ok {
			log = log.With(zap.String("stack", caught.Stack))
		}
		log.Warn("a window ended without its flush, its messages come again")
		if lost.err == nil || ctx.Err() != nil {
			err = &queue.Later{Reason: lost.reason}
		}
	}
	for _, a := range w.actions {
		if err != nil {
			a.err = err
		}
		if a.err == nil && a.stamped != nil {
			out.Applied++
		}
	}
	w.tell(ctx)
	for _, a := range w.actions {
		w.collector.settle(ctx, a.messages, a.err)
		if a.left {
			w.collector.leaves.ended(len(a.messages))
		}
	}
	out.Lag = time.Since(w.openedAt)
	if w.flushed != nil {
		out.LedgerBytes = table.Size(*w.flushed)
		if out.Pruned, err = w.prune(ctx, *w.flushed); err != nil {
			w.cfg.Log.Warn("a ledger was not pruned, a later flush tries again", zap.String("post_id", w.post), zap.Error(err))
		}
	}
	w.endSpan(out, lost)
	if w.cfg.Observe != nil {
		w.cfg.Observe(out)
	}
	w.collector.ended(ctx, w, isLost)
}
