package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const (
	// walkWriters is the number of marks that one walk writes at the same time. It is far
	// below the writers of deliveries, because deliveries have priority.
	walkWriters = 16
	// walkRest is the time without a step after which another message may continue a walk.
	walkRest = 30 * time.Second
	// longestStep is the maximum time from a read to the writes that depend on it. A worker
	// that slept for longer reads again. By more than longestStep, the mark of an unfollow
	// outlives every entry, and every mark that could be stored under the same key (I2).
	longestStep = time.Hour
)

// walk continues the mark walk of an author after the stored last follower, by up to PlanChunks
// pages. The walk that handles the last page changes the mode.
//
// Each page of followers is read consistently, after the mode was read. So a follower without
// an edge on its page followed later, and the backfill of the follow finds the mode. A second
// walk over a page changes nothing.
func (w *Worker) walk(ctx context.Context, e *messages.MarkWalk) error {
	walker := e.Walker
	if walker == "" {
		walker = e.EventID
	}
	if more, err := w.walkPages(ctx, e.AuthorID, walker); err != nil || !more {
		return err
	}
	head, err := w.header(e.RequestID)
	if err != nil {
		return err
	}
	return w.publish(ctx, queue.TopicBackfills, &messages.MarkWalk{Header: head, AuthorID: e.AuthorID, Walker: walker})
}

// walkPages walks PlanChunks pages. It takes one of the few places for walks, because most workers of the
// topic are for backfills (I8). It reports whether more pages follow. It frees its place before the next
// message is sent.
func (w *Worker) walkPages(ctx context.Context, author, walker string) (more bool, err error) {
	select {
	case w.walks <- struct{}{}:
		defer func() { <-w.walks }()
	default:
		return false, &queue.Later{After: walkRest, Reason: "other mark walks are under way"}
	}
	for range w.cfg.PlanChunks {
		began := w.cfg.Now()
		mode, _, _, err := w.readAuthor(ctx, author)
		if err != nil || mode.State != schema.ModeSwitching && mode.State != schema.ModeLeaving {
			return false, err
		}
		if rest := mode.WalkedAt.Add(walkRest).Sub(began); mode.Walker != walker && rest > 0 {
			return false, &queue.Later{After: rest, Reason: "another walk goes on"}
		}
		after := ""
		if mode.Walked != "" {
			after = schema.UserSK(mode.Walked)
		}
		page, err := w.followers(ctx, author, span{}, after)
		if err != nil {
			return false, err
		}
		if err := w.markPage(ctx, mode, page.items, began); err != nil {
			return false, err
		}
		if !page.more {
			return false, w.endWalk(ctx, mode)
		}
		if err := w.walked(ctx, mode, page.last(), walker); err != nil {
			return false, err
		}
	}
	return true, nil
}

// walked stores the last follower of the walk, unless another walk has come further or is complete.
func (w *Worker) walked(ctx context.Context, mode schema.Mode, last, walker string) error {
	user, ok := schema.UserOfSK(last)
	if !ok {
		return &schema.ParseError{Key: table.Key{PK: schema.FollowersPK(mode.Author), SK: last}, Problem: "not a follower"}
	}
	_, err := w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.ModeKey(mode.Author),
		Set: []table.Attr{
			{Name: schema.AttrWalked, Value: table.S(user)},
			{Name: schema.AttrWalker, Value: table.S(walker)},
			{Name: schema.AttrWalkedAt, Value: table.N(w.cfg.Now().UnixMilli())},
		},
		If: table.All{
			table.Equal{Name: schema.AttrModeV, Value: table.N(mode.V)},
			table.Any{table.AttrAbsent{Name: schema.AttrWalked}, table.Less{Name: schema.AttrWalked, Value: table.S(user)}},
		},
	})
	if _, further := errors.AsType[*table.ConditionError](err); err != nil && !further {
		return fmt.Errorf("store the walk of the marks for %s: %w", mode.Author, err)
	}
	return nil
}

// endWalk ends the change of mode whose walk is complete, unless another walk has already ended the change.
func (w *Worker) endWalk(ctx context.Context, mode schema.Mode) error {
	end := schema.ModePull
	if mode.State == schema.ModeLeaving {
		end = schema.ModePush
	}
	_, err := w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.ModeKey(mode.Author), Set: []table.Attr{{Name: schema.AttrMode, Value: table.S(string(end))}},
		If: table.Equal{Name: schema.AttrModeV, Value: table.N(mode.V)},
	})
	if _, changed := errors.AsType[*table.ConditionError](err); changed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("change the mode of %s to %s: %w", mode.Author, end, err)
	}
	w.cfg.Log.Info("mode of an author changed", zap.String("author_id", mode.Author), zap.String("mode", string(end)), zap.Int64("version", mode.V))
	return nil
}

// markPage handles the marks of a page of followers.
func (w *Worker) markPage(ctx context.Context, mode schema.Mode, followers []table.Item, began time.Time) error {
	for part := range slices.Chunk(followers, walkWriters) {
		if err := w.awake(began); err != nil {
			return err
		}
		errs, versions := make([]error, len(part)), make([]string, len(part))
		for i := range part { // the order of the followers allows a simulation to replay the page
			if versions[i], errs[i] = w.newID(); errs[i] != nil {
				return errs[i]
			}
		}
		var marks sync.WaitGroup
		for i, edge := range part {
			marks.Go(func() {
				errs[i] = panics.Catch(func() error {
					user, ok := schema.UserOfSK(edge.Key.SK)
					if !ok {
						return &schema.ParseError{Key: edge.Key, Problem: "not a follower"}
					}
					if mode.State == schema.ModeLeaving {
						return w.endPull(ctx, mode, user)
					}
					return w.beginPull(ctx, mode, user, versions[i])
				})
			})
		}
		marks.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// awake returns an error if a worker slept too long since began: then no write may rely on the worker's reads.
func (w *Worker) awake(began time.Time) error {
	if slept := w.cfg.Now().Sub(began); slept > longestStep {
		return &queue.Later{Reason: fmt.Sprintf("the worker stood still for %s", slept)}
	}
	return nil
}

// beginPull makes the home of a follower merge the author's posts in, if the follower's mark
// allows that. The mark of an unfollow stays, and so does the mark of a later walk. If there is
// no mark, the new mark hides no entries, because the entries that the home has shown so far
// stay.
func (w *Worker) beginPull(ctx context.Context, mode schema.Mode, user, version string) error {
	fresh := schema.Mark{User: user, Author: mode.Author, Kind: schema.MarkPulled, Pull: mode.Since, V: mode.V, Version: version}
	for {
		stored, err := w.replaceMark(ctx, fresh, nil)
		if err != nil || stored == nil || !schema.KnownMark(*stored) {
			return err
		}
		mark, err := schema.ParseMark(*stored)
		if err != nil || mark.Kind == schema.MarkUnfollowed || mark.V >= mode.V {
			return err
		}
		kept := fresh // the new mark has no ttl
		kept.From, kept.Pull, kept.Version = mark.From, mark.Pull, mark.Version
		if mark.Kind == schema.MarkPulled {
			kept.Pull = min(mark.Pull, mode.Since)
		}
		if stored, err = w.replaceMark(ctx, kept, &mark); err != nil || stored == nil {
			return err
		}
	}
}

// endPull sets the expiry of a follower's pulled mark to the time when every pulled post has
// left the homes. A running backfill may have read the previous mode and may be about to turn
// its mark into a pulled mark, so endPull gives the mark of a backfill a new version.
func (w *Worker) endPull(ctx context.Context, mode schema.Mode, user string) error {
	for {
		lives, err := w.cfg.Lifetimes.Current(ctx)
		if err != nil {
			return err
		}
		res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.MarkKey(user, mode.Author), Consistent: true})
		if err != nil {
			return markError(err, user, mode.Author)
		}
		if res.Item == nil || !schema.KnownMark(*res.Item) {
			return nil
		}
		mark, err := schema.ParseMark(*res.Item)
		old := mark
		switch {
		case err != nil:
			return err
		case mark.Kind == schema.MarkPulled && mark.V <= mode.V:
			mark.TTL = mode.At.Add(lives.Longest() + markSlack)
		case mark.Kind != schema.MarkBackfill || !mark.TTL.IsZero():
			return nil
		}
		if stored, err := w.replaceMark(ctx, mark, &old); err != nil || stored == nil {
			return err
		}
	}
}

// replaceMark replaces the mark old by m. If old is nil, no mark must be stored. If m has the version of old, m
// gets a new version. If the stored mark is not old, replaceMark returns the stored mark, or an empty item if
// there is no mark.
func (w *Worker) replaceMark(ctx context.Context, m schema.Mark, old *schema.Mark) (stored *table.Item, err error) {
	same := table.Cond(table.Absent{})
	if old != nil {
		same = unchanged(*old)
		if m.Version == old.Version {
			if m.Version, err = w.newIDAfter(old.Version); err != nil {
				return nil, err
			}
		}
	}
	_, err = w.cfg.Store.Put(ctx, table.PutInput{Item: m.Item(), If: same})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return cmp.Or(failed.Old, &table.Item{}), nil
	}
	return nil, markError(err, m.User, m.Author)
}

// unchanged returns the condition that a mark is as it was read. The end of a backfill gives the mark a ttl, and
// no new version.
func unchanged(mark schema.Mark) table.Cond {
	ends := table.Cond(table.AttrAbsent{Name: table.AttrTTL})
	if !mark.TTL.IsZero() {
		ends = table.Equal{Name: table.AttrTTL, Value: table.N(mark.TTL.Unix())}
	}
	return table.All{table.Equal{Name: schema.AttrVersion, Value: table.S(mark.Version)}, ends}
}

func markError(err error, user, author string) error {
	if err != nil {
		return fmt.Errorf("write the home mark of %s for %s: %w", user, author, err)
	}
	return nil
}
