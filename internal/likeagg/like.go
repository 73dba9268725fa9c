package likeagg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const (
	// Outlived is longer than the age of any message that is applied, even if clocks differ.
	Outlived = messages.MaxAge + 3*24*time.Hour
	// likeTTL is the life of an uncounted item without a reaction. The item must exist as long
	// as it has to refuse older messages.
	likeTTL = Outlived
	// keptAfterEnd is the time for which the likes of a post with an end, and their count, outlive the post.
	// It is longer than any window.
	keptAfterEnd = 24 * time.Hour
)

// Expiry returns when the likes of a post and their count may be deleted, zero for never.
func Expiry(post schema.PostRef) time.Time {
	if post.End.IsZero() {
		return time.Time{}
	}
	return post.End.Add(keptAfterEnd)
}

// act takes an action one step further. Afterwards the action is stamped, has failed, or has
// found a like that another flush is to count.
func (w *window) act(ctx context.Context, a *action) error {
	if a.next == nil {
		if err := w.withinLife(ctx, a); err != nil {
			return err
		}
		a.next = &schema.Like{Kind: a.kind, Version: a.version}
		if a.kind == "" || a.stored || a.receives > 1 {
			// The like nearly always exists, and a read is cheaper than a put that fails.
			if old, err := w.read(ctx, a); err != nil || old != nil {
				w.meet(a, old)
				return err
			}
		}
	}
	old, written, err := w.put(ctx, a)
	switch {
	case err != nil:
		return err
	case written:
		a.stamped = a.next
	default:
		w.meet(a, old)
	}
	return nil
}

// withinLife turns a reaction of a user's former life into the end of a reaction.
func (w *window) withinLife(ctx context.Context, a *action) error {
	return w.attempt(ctx, a, func() error {
		former, err := w.ofFormerLife(ctx, a)
		if err == nil && former {
			a.kind = ""
		}
		return err
	})
}

// meet records the like that an action found, nil for none.
func (w *window) meet(a *action, old *schema.Like) {
	a.old, a.next = old, nil
	if old != nil && old.Flush == w.stamp {
		a.stamped = old // this window wrote the like, but the answer was lost
	}
}

// choose sets the next state of an action that found a like. counted reports whether that like was counted.
// a.next stays nil if nothing has to be written.
func (a *action) choose(counted bool) {
	old := a.old
	next := &schema.Like{Kind: a.kind, Version: a.version, Base: old.Kind}
	if counted {
		if old.Version < a.version {
			a.next = next
		}
		return
	}
	next.Base = old.Base
	if old.Version >= a.version { // the newer stored like is now this window's to count
		next.Kind, next.Version = old.Kind, old.Version
	}
	a.next = next
}

// put writes a's next state with this window's stamp, if the stored like is still a.old. Otherwise it returns
// the stored like, nil for none.
func (w *window) put(ctx context.Context, a *action) (now *schema.Like, written bool, err error) {
	next := a.next
	next.Post, next.User, next.LikeShards = w.post, a.user, w.shards
	next.Flush, next.Indexed = w.stamp, w.cfg.IndexLikes
	if next.Kind == "" && next.Base == "" {
		// If this process's clock is slow, the item might expire before messages that the item has to refuse.
		if ttl := w.cfg.Now().Add(likeTTL); w.cfg.Clock.Doubt() == nil {
			next.TTL = ttl
		}
	}
	if !w.expiry.IsZero() { // no like has an effect after the end, so no message has to be refused
		next.TTL = w.expiry
	}
	var unchanged table.Cond = table.Absent{}
	if a.old != nil {
		unchanged = table.All{
			table.Equal{Name: schema.AttrFlush, Value: table.S(a.old.Flush.String())},
			table.Equal{Name: schema.AttrVersion, Value: table.S(a.old.Version)},
		}
	}
	in := table.PutInput{Item: next.Item(), If: unchanged}
	unknown := false // a try has ended without an answer
	for tried := false; !tried && err == nil; {
		var former bool
		err = w.attempt(ctx, a, func() (err error) { former, err = w.ofFormerLife(ctx, a); return err })
		if err == nil && former {
			err = &lostError{"the user of a like was removed", nil}
		}
		if err != nil {
			return nil, false, err
		}
		// attempt checks the age just before the put, so no other call may come between the check and the put.
		err = w.attempt(ctx, a, func() error {
			if over := w.mayBeOver(a); over && tried {
				return &lostError{"its user may have been removed", nil}
			} else if over {
				return nil // the process slept since the last check of the user's life
			}
			before := unknown
			tried, unknown = true, true // a panic has no answer
			_, err := w.cfg.Store.Put(ctx, in)
			_, refused := errors.AsType[*table.ConditionError](err)
			unknown = before || err != nil && !refused && !undone(err)
			return err
		})
	}
	if err == nil {
		return nil, true, nil
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return nil, false, fmt.Errorf("write a like: %w", err)
	}
	if now, err = parseLike(failed.Old); err == nil && unknown && a.old == nil && now != nil && !now.TTL.IsZero() && now.Flush != w.stamp {
		// The expired item goes at any time, and then the condition holds for the try without an answer, if it comes so late.
		err = &lostError{"a try of a like may come after the end of the item that refuses it", nil}
	}
	return now, false, err
}

func (w *window) read(ctx context.Context, a *action) (*schema.Like, error) {
	var res table.GetResult
	err := w.attempt(ctx, a, func() (err error) {
		res, err = w.cfg.Store.Get(ctx, table.GetInput{Key: schema.LikeKey(w.post, a.user, w.shards), Consistent: true})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read a like: %w", err)
	}
	return parseLike(res.Item)
}

func parseLike(it *table.Item) (*schema.Like, error) {
	if it == nil {
		return nil, nil
	}
	l, err := schema.ParseLike(*it)
	if err != nil {
		return nil, err
	}
	return &l, nil
}
