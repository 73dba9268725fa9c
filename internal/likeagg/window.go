package likeagg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/id"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// window is one post's messages of one time: looked at, stamped, flushed once,
// answered. Its steps run on the pool's workers.
type window struct {
	run     *run
	post    *post
	actions []*action
	count   int
	opened  time.Time
	// my is the flush that is to count what the window writes.
	my schema.Flush
	// shards is the post's number of like shards, as stored with the post.
	shards int

	mu sync.Mutex
	// seen is the count item as last read, nil if it was not.
	seen *schema.LikeCount
	// busy holds what a worker does for all of them.
	busy   map[string]chan struct{}
	fences int
}

// endedError ends a window as a crash would: nothing more is sent, nothing acked,
// and its incarnation is not used again.
type endedError struct {
	reason string
	err    error
}

func (e *endedError) Error() string {
	if e.err == nil {
		return "window ended: " + e.reason
	}
	return fmt.Sprintf("window ended: %s: %v", e.reason, e.err)
}

func (e *endedError) Unwrap() error { return e.err }

// maxStrange is how many failures of an unknown kind a request may have in a row
// before its window ends.
const maxStrange = 5

// attempt sends one request until its outcome is known: its error is nil, one that
// says that nothing was written, or an endedError. version is the event id of the
// message at work, "" for the window as a whole.
func (w *window) attempt(ctx context.Context, version string, send func() error) error {
	const first, most = 50 * time.Millisecond, 5 * time.Second
	strange, delay := 0, first
	for {
		if err := w.awake(ctx, version); err != nil {
			return err
		}
		err := panics.Catch(send) // after a panic of the store the outcome is unknown, too
		if err == nil || known(err) {
			return err
		}
		if queue.Transient(err) {
			strange = 0
		} else if strange++; strange >= maxStrange {
			return &endedError{"the table fails in an unknown way", err}
		}
		// A jitter of half of the delay spreads the workers that failed together.
		jitter := w.run.jitter(delay / 2)
		timer := time.NewTimer(delay/2 + jitter)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		delay = min(2*delay, most)
	}
}

func (r *run) jitter(below time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.cfg.Random() % uint64(below))
}

// awake refuses to go on in another age than the window began in: its stamps might
// be believed counted and its guards be gone.
func (w *window) awake(ctx context.Context, version string) error {
	now := w.run.cfg.Now()
	switch {
	case ctx.Err() != nil:
		return &endedError{"stopped", ctx.Err()}
	case older(w.my.Inc, 1, now):
		return &endedError{"its incarnation is of another day than today and yesterday", nil}
	case version != "" && messages.CheckIDAge("event_id", version, now) != nil:
		return &endedError{"its message grew too old", nil}
	}
	return nil
}

// known tells whether err says that nothing was written.
func known(err error) bool {
	if _, ok := errors.AsType[*table.ConditionError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*table.CancelledError](err); ok {
		return true
	}
	_, ok := errors.AsType[*table.InvalidError](err)
	return ok
}

// begin looks the post up, once a window, and lets the pool apply the actions.
func (w *window) begin(ctx context.Context) {
	ref, err := w.lookup(ctx)
	if err == nil && ref != nil && !ref.Deleted && w.old() {
		_, err = w.ledger(ctx, &action{})
	}
	switch {
	case err != nil:
		w.end(ctx, err, false)
	case ref == nil:
		for _, a := range w.actions {
			a.err = unknownPost(w.post.id, a.receives)
		}
		w.end(ctx, nil, false)
	case ref.Deleted: // likes of a deleted post have no effect
		w.end(ctx, nil, false)
	default:
		w.shards = ref.LikeShards
		w.run.pool.run(len(w.actions), func(i int) {
			a := w.actions[i]
			a.stamped, a.err = w.apply(ctx, a)
		}, func() { w.finish(ctx) })
	}
}

// lookup reads the post by id, nil if there is none: whether it was deleted, and its
// number of shards, which an event may have wrong. A stale answer does for what
// never changes and for a delete at the same time; that there is no post needs a
// consistent one.
func (w *window) lookup(ctx context.Context) (*schema.PostRef, error) {
	for _, consistent := range []bool{false, true} {
		var res table.GetResult
		err := w.attempt(ctx, "", func() (err error) {
			res, err = w.run.cfg.Store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(w.post.id), Consistent: consistent})
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

// unknownPost waits for a post whose event may be on its way, then gives up.
func unknownPost(post string, receives int) error {
	if receives > queue.MaxAttempts {
		return &messages.PermanentError{Reason: fmt.Sprintf("there is no post %s", post)}
	}
	return &queue.Later{After: queue.Backoff(receives), Reason: "there is no such post yet"}
}

// old tells whether the post is old enough for its ledger to have something to
// prune; a younger one need not be looked at.
func (w *window) old() bool {
	made, err := id.Time(w.post.id)
	return err == nil && dayOf(w.run.cfg.Now())-dayOf(made) > pruningDays
}

// finish flushes what the actions changed, if they stamped anything.
func (w *window) finish(ctx context.Context) {
	var delta int64
	stamped := 0
	for _, a := range w.actions {
		if ended, ok := errors.AsType[*endedError](a.err); ok {
			w.end(ctx, ended, false)
			return
		}
		if a.stamped != nil {
			stamped++
			delta += counts(a.stamped.Liked) - counts(a.stamped.Base)
		}
	}
	if stamped == 0 {
		w.end(ctx, nil, false)
		return
	}
	w.end(ctx, w.flush(ctx, delta), true)
}

func counts(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// flush adds delta to the post's count, once, and enters itself in the ledger.
func (w *window) flush(ctx context.Context, delta int64) error {
	now := w.run.cfg.Now()
	in := table.UpdateInput{
		Key: schema.LikeCountKey(w.post.id),
		Set: []table.Attr{
			{Name: schema.AttrFlushed(w.my.Inc), Value: table.N(w.my.Seq)},
			{Name: schema.AttrAsOf, Value: table.N(now.UnixMilli())},
		},
		Add:    []table.Attr{{Name: schema.AttrLikes, Value: table.N(delta)}},
		Remove: prunable(w.seen, now),
		If:     table.All{notFlushed(w.my), table.AttrAbsent{Name: schema.AttrFenced(w.my.Inc)}},
	}
	err := w.attempt(ctx, "", func() error {
		_, err := w.run.cfg.Store.Update(ctx, in)
		return err
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		if schema.ParseLikeCount(failed.Old).Done[w.my.Inc] >= w.my.Seq {
			return nil // it had been applied, and the answer was lost
		}
		return &endedError{"fenced by another aggregator", nil}
	}
	if err != nil {
		return &endedError{"the flush failed", err}
	}
	return nil
}

// end answers the window's messages and makes way for the post's next window. err
// fails all of them.
func (w *window) end(ctx context.Context, err error, owed bool) {
	ended, lost := errors.AsType[*endedError](err)
	out := Outcome{Messages: w.count, Flushed: owed && err == nil, Lost: lost, Fences: w.fences}
	if lost {
		w.run.retire(w.my.Inc)
		log := w.run.cfg.Log.With(zap.String("post_id", w.post.id), zap.Int("messages", w.count), zap.Error(err))
		if caught, ok := errors.AsType[*panics.Error](err); ok {
			log = log.With(zap.String("stack", caught.Stack))
		}
		log.Warn("a window ended without its flush, its messages come again")
		if ended.err == nil || ctx.Err() != nil {
			err = &queue.Later{Reason: ended.reason}
		}
	}
	for _, a := range w.actions {
		if err != nil {
			a.err = err
		}
		if a.err == nil && a.stamped != nil {
			out.Applied++
		}
		w.run.settle(ctx, a.messages, a.err)
	}
	out.Lag = time.Since(w.opened)
	if w.run.cfg.Observe != nil {
		w.run.cfg.Observe(out)
	}
	w.run.ended(ctx, w.post)
}

// settle answers messages, by the rules of queue.Handler.
func (r *run) settle(ctx context.Context, msgs []*message.Message, err error) {
	defer r.answered(len(msgs))
	answerer := queue.Answerer{Topic: queue.TopicLikes, Dead: r.cfg.Broker, Log: r.cfg.Log}
	for _, msg := range msgs {
		answerer.Answer(ctx, msg, err, ctx.Err() != nil)
	}
}
