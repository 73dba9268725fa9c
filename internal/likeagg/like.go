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

// likeTTL is the life of an item that is neither liked nor counted. It must refuse
// older messages, so it outlives all of them, on clocks that differ too.
const likeTTL = messages.MaxAge + 3*24*time.Hour

// apply stores a user's action under this window's stamp. It returns the like as it
// was stamped, or nil if the action was already counted or is outdated.
func (w *window) apply(ctx context.Context, a *action) (stamped *schema.Like, err error) {
	var old *schema.Like
	if !a.liked || a.receives > 1 {
		// There nearly always is a like: a read is cheaper than a put that fails.
		if old, err = w.read(ctx, a); err != nil {
			return nil, err
		}
	}
	for {
		next := &schema.Like{Liked: a.liked, Version: a.version}
		var unchanged table.Cond = table.Absent{}
		if old != nil {
			if old.Flush == w.stamp {
				return old, nil // this window wrote it, though the answer was lost
			}
			if next, err = w.nextState(ctx, a, old); next == nil || err != nil {
				return nil, err
			}
			unchanged = table.All{
				table.Equal{Name: schema.AttrFlush, Value: table.S(old.Flush.String())},
				table.Equal{Name: schema.AttrVersion, Value: table.S(old.Version)},
			}
		}
		var written bool
		if old, written, err = w.put(ctx, a, next, unchanged); err != nil || written {
			return old, err
		}
	}
}

// nextState returns the state that follows old, which another flush was to count. It
// is nil if there is nothing to do.
func (w *window) nextState(ctx context.Context, a *action, old *schema.Like) (*schema.Like, error) {
	counted, err := w.counted(ctx, a, old.Flush)
	if err != nil {
		return nil, err
	}
	next := &schema.Like{Liked: a.liked, Version: a.version, Base: old.Liked}
	if counted {
		if old.Version >= a.version {
			return nil, nil
		}
		return next, nil
	}
	next.Base = old.Base
	if old.Version >= a.version { // newer than this action, and now this window's to count
		next.Liked, next.Version = old.Liked, old.Version
	}
	return next, nil
}

// put writes next with this window's stamp if cond holds. If cond does not hold, it
// returns the stored like instead, nil for none.
func (w *window) put(ctx context.Context, a *action, next *schema.Like, cond table.Cond) (now *schema.Like, written bool, err error) {
	next.Post, next.User, next.LikeShards = w.post, a.user, w.shards
	next.Flush, next.Indexed = w.stamp, w.cfg.IndexLikes
	next.TTL = time.Time{}
	if !next.Liked && !next.Base {
		next.TTL = w.cfg.Now().Add(likeTTL)
	}
	in := table.PutInput{Item: next.Item(), If: cond}
	err = w.attempt(ctx, a.version, func() error {
		_, err := w.cfg.Store.Put(ctx, in)
		return err
	})
	if err == nil {
		return next, true, nil
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return nil, false, fmt.Errorf("write a like: %w", err)
	}
	now, err = parseLike(failed.Old)
	return now, false, err
}

func (w *window) read(ctx context.Context, a *action) (*schema.Like, error) {
	var res table.GetResult
	err := w.attempt(ctx, a.version, func() (err error) {
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
