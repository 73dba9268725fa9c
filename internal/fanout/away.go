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

	"fanfare/internal/backoff"
	"fanfare/internal/panics"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// Away readers are skipped: docs/HYBRID.md, section 2. Each edge of a reader has no day, or a
// day at or after the day of the reader's presence (I1). Only the edges of a reader with a
// presence have a day, and the edges are raised before the presence. A walk over the followees
// raises each follow that was committed before the walk reads it. A later follow reads the day
// upto, which is raised before the walk.

// awayReaders is the number of edges that a refresh or a return raises at the same time, and
// the number of post lists that a return reads at the same time.
const awayReaders = walkWriters

const (
	// manyFollowees is the number of followees above which a page in the gap needs more than
	// one round trip to read the followees' lists.
	manyFollowees = 100
	// fewEntries fill two pages of a home, and are more than a look of a live home needs.
	// manyEntries fill the largest page and the window of a live home.
	fewEntries, manyEntries = 50, 200
)

// ReturnPosts returns the number of posts that a return writes as entries, for a reader with so
// many followees. An entry costs a write unit, even if nobody reads it. A page in the gap reads
// the list of each followee, but only if the reader scrolls so far: docs/decisions/0035.
func ReturnPosts(followees int) int {
	if followees > manyFollowees {
		return manyEntries
	}
	return fewEntries
}

// seen enrols a reader, or raises the days of its edges and then of its presence. A crash at any point does no
// harm: fan-out always pushes to edges without a day, and pushes longer to edges whose day is later than the
// presence's day.
func (w *Worker) seen(ctx context.Context, e *messages.Seen) error {
	until := schema.DayOf(w.cfg.Now()) + schema.DaysAhead(w.cfg.ActiveDays)
	if err := w.cfg.Clock.Doubt(); err != nil {
		return err
	}
	p, err := w.presence(ctx, e.UserID)
	if err != nil {
		return err
	}
	switch {
	case p == nil && w.cfg.ActiveDays == 0, p != nil && (p.State != schema.PresenceHere || until <= p.Until):
		return nil
	case p == nil:
		if enrolled, err := w.enrol(ctx, e.UserID, until); err != nil || !enrolled {
			return err
		}
		_, err := w.raiseEdges(ctx, e.UserID, until)
		return err
	}
	if _, err := w.raise(ctx, e.UserID, until); err != nil {
		return err
	}
	// If the refresh is late, fan-out may have skipped posts before an edge was raised. In this
	// case the presence stays, and the reader returns later.
	if err := w.cfg.Clock.Doubt(); err != nil {
		return err
	}
	if schema.DayOf(w.cfg.Now()) >= p.Until {
		return nil
	}
	_, err = w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.PresenceKey(e.UserID), Set: []table.Attr{{Name: schema.AttrUntil, Value: table.N(int64(until))}},
		If: table.All{
			table.Equal{Name: schema.AttrModeV, Value: table.N(p.V)}, table.Equal{Name: schema.AttrUntil, Value: table.N(int64(p.Until))},
		},
	})
	return presenceError(err, e.UserID)
}

// enrol makes the presence of a reader, unless another worker or a follow has made it.
func (w *Worker) enrol(ctx context.Context, user string, until schema.Day) (enrolled bool, err error) {
	first := schema.Presence{User: user, State: schema.PresenceHere, Until: until}
	_, err = w.cfg.Store.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{
		{Put: &table.PutInput{Item: first.Item(), If: table.Absent{}}},
		{Update: &table.UpdateInput{
			Key: schema.CountsKey(user), Set: []table.Attr{{Name: schema.AttrUptoDay, Value: table.N(int64(until))}},
			If: table.AttrAbsent{Name: schema.AttrUptoDay},
		}},
	}})
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok && !cancelled.Retryable() {
		return false, nil
	}
	return err == nil, presenceError(err, user)
}

// returned ends the return of a reader. It raises the edges, and then writes entries of the
// newest posts that fan-out may have skipped. So the delivery of each post finds the raised
// edge, or the post was stored before returned reads the posts of its author. returned writes
// the presence last; until then the home is pulled.
func (w *Worker) returned(ctx context.Context, e *messages.Returned) error {
	began := w.cfg.Now()
	if err := w.cfg.Clock.Doubt(); err != nil {
		return err
	}
	p, err := w.presence(ctx, e.UserID)
	if err != nil || p == nil || p.State != schema.PresenceReturning || p.V != e.V {
		return err
	}
	until := schema.DayOf(began) + schema.DaysAhead(w.cfg.ActiveDays)
	followees, err := w.raise(ctx, e.UserID, until)
	if err != nil {
		return err
	}
	most := w.cfg.ReturnPosts(followees)
	missed, err := w.missedPosts(ctx, *p, most)
	if err != nil {
		return err
	}
	if err := w.writeMissed(ctx, e.UserID, missed, began); err != nil {
		return err
	}
	if err := w.awake(began); err != nil {
		return err
	}
	here := table.UpdateInput{
		Key: schema.PresenceKey(e.UserID),
		Set: []table.Attr{
			{Name: schema.AttrPresence, Value: table.S(string(schema.PresenceHere))},
			{Name: schema.AttrUntil, Value: table.N(int64(until))},
			{Name: schema.AttrAsOf, Value: table.N(w.cfg.Now().UnixMilli())},
		},
		If: table.All{
			table.Equal{Name: schema.AttrPresence, Value: table.S(string(schema.PresenceReturning))},
			table.Equal{Name: schema.AttrModeV, Value: table.N(p.V)},
		},
	}
	if len(missed) < most {
		here.Remove = []string{schema.AttrGapLow}
	} else {
		here.Set = append(here.Set, table.Attr{Name: schema.AttrGapHigh, Value: table.S(missed[most-1].ID)})
	}
	if _, err = w.cfg.Store.Update(ctx, here); err == nil {
		w.cfg.Log.Debug("reader returned", zap.String("user_id", e.UserID), zap.Int("posts", len(missed)), zap.String("request_id", e.RequestID), trace.ID(ctx))
	}
	return presenceError(err, e.UserID)
}

func (w *Worker) presence(ctx context.Context, user string) (*schema.Presence, error) {
	res, err := w.cfg.Store.Get(ctx, table.GetInput{Key: schema.PresenceKey(user), Consistent: true})
	if err != nil {
		return nil, fmt.Errorf("read the presence of %s: %w", user, err)
	}
	if res.Item == nil {
		return nil, nil
	}
	p, err := schema.ParsePresence(*res.Item)
	return &p, err
}

// presenceError wraps the error of a write of a presence. It returns nil if another worker has
// changed the presence.
func presenceError(err error, user string) error {
	if _, changed := errors.AsType[*table.ConditionError](err); changed || err == nil {
		return nil
	}
	return fmt.Errorf("write the presence of %s: %w", user, err)
}

// raise notes a day in the reader's counts, and then raises all edges to this day. It returns
// the number of followees. The counts contain the expected number of edges. If the walk finds
// fewer edges, the transaction of a follow may be only partly visible: its edge was made before
// the note, and has a lower day. In this case raise waits until that edge is visible, and
// raises the edges again (I1).
func (w *Worker) raise(ctx context.Context, user string, until schema.Day) (followees int, err error) {
	day := table.N(int64(until))
	res, err := w.cfg.Store.Update(ctx, table.UpdateInput{
		Key: schema.CountsKey(user), Set: []table.Attr{{Name: schema.AttrUptoDay, Value: day}}, ReturnNew: true,
		If: table.Any{table.AttrAbsent{Name: schema.AttrUptoDay}, table.Less{Name: schema.AttrUptoDay, Value: day}},
	})
	counts := res.Item
	if noted, ok := errors.AsType[*table.ConditionError](err); ok {
		counts = noted.Old
	}
	if err := presenceError(err, user); err != nil {
		return 0, err
	}
	followees, err = w.raiseEdges(ctx, user, until)
	if err != nil || counts == nil || int64(followees) >= counts.Int(schema.AttrFollowing) {
		return followees, err
	}
	if err := backoff.Wait(ctx, table.VisibleWithin); err != nil {
		return 0, err
	}
	return w.raiseEdges(ctx, user, until)
}

// raiseEdges raises the reader's edges that exist and have a lower day or no day. It returns
// the number of followees.
func (w *Worker) raiseEdges(ctx context.Context, user string, until schema.Day) (followees int, err error) {
	return w.eachFollowee(ctx, user, func(author schema.Edge) error {
		day := table.N(int64(until))
		_, err := w.cfg.Store.Update(ctx, table.UpdateInput{
			Key: schema.FollowerKey(author.Other, user), Set: []table.Attr{{Name: schema.AttrUntil, Value: day}},
			If: table.All{table.Exists{}, table.Any{table.AttrAbsent{Name: schema.AttrUntil}, table.Less{Name: schema.AttrUntil, Value: day}}},
		})
		if _, passed := errors.AsType[*table.ConditionError](err); err != nil && !passed {
			return fmt.Errorf("raise the edge of %s to %s: %w", user, author.Other, err)
		}
		return nil
	})
}

// eachFollowee reads all followees of a reader, consistently, and calls do for each followee.
// Up to awayReaders calls run at the same time. It returns the number of followees.
func (w *Worker) eachFollowee(ctx context.Context, user string, do func(schema.Edge) error) (followees int, err error) {
	for page, err := range w.cfg.Store.Query(ctx, table.Query{
		PK: schema.FollowingPK(user), PageSize: w.cfg.PageSize, Consistent: true, Project: []string{schema.AttrSince, schema.AttrFrom},
	}) {
		if err != nil {
			return 0, fmt.Errorf("read the followees of %s: %w", user, err)
		}
		followees += len(page.Items)
		for part := range slices.Chunk(page.Items, awayReaders) {
			errs := make([]error, len(part))
			var calls sync.WaitGroup
			for i, it := range part {
				calls.Go(func() {
					errs[i] = panics.Catch(func() error {
						edge, err := schema.ParseEdge(it)
						if err != nil {
							return err
						}
						return do(edge)
					})
				})
			}
			calls.Wait()
			if err := errors.Join(errs...); err != nil {
				return 0, err
			}
		}
	}
	return followees, nil
}

// missedPosts returns up to most of the followees' newest living posts since the reader's gap
// began, newest first.
func (w *Worker) missedPosts(ctx context.Context, p schema.Presence, most int) ([]schema.Post, error) {
	var mu sync.Mutex
	var newest []schema.Post
	low, err := w.oldestShown(ctx)
	if err != nil {
		return nil, err
	}
	low = max(low, p.Lo)
	_, err = w.eachFollowee(ctx, p.User, func(author schema.Edge) error {
		mu.Lock()
		from := max(low, author.From)
		mu.Unlock()
		posts, err := w.newestPosts(ctx, author.Other, from, most)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		newest = append(newest, posts...)
		slices.SortFunc(newest, func(a, b schema.Post) int { return cmp.Compare(b.ID, a.ID) })
		if len(newest) >= most {
			newest = newest[:most]
			low = newest[most-1].ID
		}
		return nil
	})
	return newest, err
}

// newestPosts returns up to most of an author's newest posts whose id is from or higher.
func (w *Worker) newestPosts(ctx context.Context, author, from string, most int) (posts []schema.Post, err error) {
	for page, err := range w.cfg.Store.Query(ctx, table.Query{
		PK: schema.PostsPK(author), Low: schema.PostSK(from), Descending: true, PageSize: most, Consistent: true,
		Project: []string{schema.AttrLikeShards, table.AttrTTL},
	}) {
		if err != nil {
			return nil, fmt.Errorf("read the posts of %s: %w", author, err)
		}
		for _, it := range page.Items {
			post, err := schema.ParsePost(it)
			if err != nil {
				return nil, err
			}
			if gone, err := w.gone(post.Ref(0)); gone || err != nil {
				if err != nil {
					return nil, err
				}
				continue
			}
			if posts = append(posts, post); len(posts) == most {
				return posts, nil
			}
		}
	}
	return posts, nil
}

// writeMissed writes entries of posts, unless the worker slept after its first read.
func (w *Worker) writeMissed(ctx context.Context, user string, missed []schema.Post, began time.Time) error {
	var writes []table.BatchWrite
	var err error
	for _, stored := range missed {
		if writes, err = w.appendEntry(ctx, writes, user, stored); err != nil {
			return err
		}
	}
	if len(writes) == 0 {
		return nil
	}
	if err := w.awake(began); err != nil {
		return err
	}
	if err := w.writeAll(ctx, writes); err != nil {
		return fmt.Errorf("write the entries of %s's return: %w", user, err)
	}
	return nil
}
