package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/trace"
	"fanfare/messages"
)

// Follow makes follower follow author. A call may be repeated: an existing follow does not change. The
// exception is a follow of a former life of follower or author, which a removal is about to delete.
// Follow renews such a follow.
//
// A new follower misses no post (I1) for these reasons. One transaction writes the edge and the home
// mark. Because of the mark, home reads merge in the author's own post list, from the id `from` on,
// until the backfill has copied that list. A post's fan-out puts the post into the table before the
// fan-out reads followers. So each post reaches the follower in one of two ways:
//
//   - The fan-out reads the page of followers, consistently, after this transaction. Then
//     the fan-out sees the edge.
//   - The fan-out reads the page before this transaction. Then the post was in the table
//     even earlier, and both the merge and the backfill see the post, because merge and
//     backfill begin after the transaction and read the post list consistently.
//
// `from` is read before the transaction, so every post after the follow is above `from`. Merge,
// backfill and pull all use the same `from`. A home read leaves out the author's entries below `from`:
// entries of an earlier follow, or of a late fan-out.
func (s *Service) Follow(ctx context.Context, follower, author string) error {
	return s.followAs(ctx, follower, author, false)
}

// FollowSilently is Follow for a follow that only the follower sees: the follow has no notification, is in no list of another user, and
// is not in the number of followers that the author shows. The delivery of posts knows no silence. A call on an existing follow
// does not change its silence.
func (s *Service) FollowSilently(ctx context.Context, follower, author string) error {
	return s.followAs(ctx, follower, author, true)
}

func (s *Service) followAs(ctx context.Context, follower, author string, silent bool) error {
	if err := notSelf(follower, author); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) { return s.follow(ctx, follower, author, silent) })
}

// follow makes one attempt of Follow. changed reports that another call has changed the follow after
// the read of this attempt.
func (s *Service) follow(ctx context.Context, follower, author string, silent bool) (changed bool, err error) {
	now, err := s.readFollow(ctx, follower, author, schema.CountsKey(follower))
	if err != nil {
		return false, err
	}
	now.silent = silent
	since := above(now.after, s.access.Now())
	if now.edge != nil {
		edge, err := schema.ParseEdge(*now.edge)
		if err != nil || !isFormer(edge.Version(), now.after) {
			return false, fault.Wrap("table", err)
		}
		return s.renewFollow(ctx, follower, author, now, since, since)
	}
	version, err := s.markVersion(now.mark, now.after)
	if err != nil {
		return false, err
	}
	now.use = s.useOf(follower, access.TimeOf(version), cost{own: unitsOfFollow}, now.counts)
	if err := s.refused(now.use); err != nil {
		return false, err
	}
	from, of, err := s.followFrom(ctx, author)
	if err != nil {
		return false, err
	}
	now.use.units = of.own + of.later
	mark := schema.Mark{User: follower, Author: author, Kind: schema.MarkBackfill, From: from, Version: version}
	if !silent { // a mark without a FollowID has no notification, whoever sends its event
		mark.FollowID = version
	}
	err = s.inTurn(ctx, now.use, func(u use) (err error) {
		if err = s.refused(u); err == nil {
			now.use = u
			changed, err = s.makeFollow(ctx, now, mark, since)
		}
		return err
	})
	if changed || err != nil {
		return changed, err
	}
	access.Cause(ctx, of.later)
	// The follow is durable, and the mark makes the home correct. If the event is lost here, a home read
	// that finds the old mark publishes the event again.
	err = s.access.Publish(ctx, queue.TopicBackfills, &messages.Followed{
		FollowerID: follower, AuthorID: author, From: from, MarkVersion: version, FollowID: mark.FollowID,
	})
	if err != nil {
		s.access.Log.Warn("backfill not requested: the follower's next home read will request it", zap.String("request_id", s.access.RequestID(ctx)), trace.ID(ctx),
			zap.String("follower", follower), zap.String("author", author), zap.Error(err))
	}
	return false, nil
}

// makeFollow sends a follow's transaction, with the home mark. changed reports that another call has
// changed the follow after the read of now.
func (s *Service) makeFollow(ctx context.Context, now following, mark schema.Mark, since time.Time) (changed bool, err error) {
	follower, author := mark.User, mark.Author
	until, enrols := s.edgeUntil(now.upto)
	count := s.oneMoreFollowing(follower, until, enrols)
	now.use.countTo(count)
	under := schema.DatedFollowerItem(author, follower, since, until)
	edge := schema.ImportedFollowingItem(follower, author, since, mark.From, above(now.after, since))
	if now.silent {
		under, edge = schema.SilentEdge(under), schema.SilentEdge(edge)
	}
	ops := []table.TransactOp{
		{Put: &table.PutInput{Item: under, If: table.Absent{}}},
		{Put: &table.PutInput{Item: edge, If: table.Absent{}}},
		{Update: count},
		{Update: countFollower(author, follower, 1, now.silent)},
		{Put: &table.PutInput{Item: mark.Item(), If: s.unchanged(now.mark)}},
	}
	if enrols {
		first := schema.Presence{User: follower, State: schema.PresenceHere, Until: until}
		ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: first.Item(), If: table.Absent{}}})
	}
	ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.BlockKey(follower, author), If: table.Absent{}}})
	err = s.access.TransactFollow(ctx, follower, author, ops...)
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok && cancelled.Failed(len(ops)-1) {
		return false, fault.BlockedBy(author)
	}
	if access.ConditionFailed(err) {
		if s.followsMost(err) {
			if ended, other := s.endFormerFollows(ctx, follower, now.own); ended || other != nil {
				return ended, cmp.Or(other, err)
			}
			return false, &fault.Error{
				Kind: fault.Limit, Of: "following", Detail: fmt.Sprintf("you follow %d users, the most that you may: unfollow one first", s.cfg.MaxFollowing),
			}
		}
		return true, err
	}
	if err != nil {
		return false, fault.Wrap("table", err)
	}
	return false, nil
}

// renewFollow brings a follow of a former life into the present life, and changes no counts. since is
// the time that the follow shows, v the time of its version. changed reports that another call has
// changed the follow after the read of now, or that the follow had another silence and has ended.
func (s *Service) renewFollow(ctx context.Context, follower, author string, now following, since, v time.Time) (changed bool, err error) {
	if now.silent != now.isSilent() {
		_, err := s.endFollow(ctx, follower, author, now)
		return true, err
	}
	item := schema.ImportedFollowingItem(follower, author, since, now.edge.Str(schema.AttrFrom), v)
	if now.silent {
		item = schema.SilentEdge(item)
	}
	under := &table.UpdateInput{
		Key: schema.FollowerKey(author, follower), If: table.Exists{},
		Set: []table.Attr{{Name: schema.AttrSince, Value: item.Get(schema.AttrSince)}},
	}
	block := schema.BlockKey(follower, author)
	err = s.access.TransactFollow(ctx, follower, author,
		table.TransactOp{Update: under},
		table.TransactOp{Put: &table.PutInput{Item: item, If: sameEdge(*now.edge)}},
		table.TransactOp{Check: &table.CheckInput{Key: block, If: table.Absent{}}},
	)
	if access.ConditionFailed(err) {
		return true, err
	}
	return false, fault.Wrap("table", err)
}

// edgeUntil returns the day of a new edge of a reader whose counts have the day upto. The day is the
// presence's day or a later day, or 0 for no day. enrols reports whether the follow makes the
// presence, because only a reader with a presence has edges with a day.
func (s *Service) edgeUntil(upto schema.Day) (until schema.Day, enrols bool) {
	if upto == 0 && s.access.ActiveDays == 0 {
		return 0, false
	}
	return max(upto, schema.DayOf(s.access.Now())+schema.DaysAhead(s.access.ActiveDays)), upto == 0
}

// oneMoreFollowing adds 1 to the number of users whom follower follows. This number must be below the
// limit. The count and the limit are exact (I4). A worker that raises the days of the reader's edges
// may have read the edges before the new edge exists, so the day of the new edge must not be below the
// worker's day.
func (s *Service) oneMoreFollowing(follower string, until schema.Day, enrols bool) *table.UpdateInput {
	update := access.AddTo(schema.CountsKey(follower), schema.AttrFollowing, 1)
	raised := table.Any{table.AttrAbsent{Name: schema.AttrUptoDay}}
	if until != 0 {
		raised = append(raised, table.Less{Name: schema.AttrUptoDay, Value: table.N(int64(until) + 1)})
	}
	if enrols {
		update.Set = []table.Attr{{Name: schema.AttrUptoDay, Value: table.N(int64(until))}}
	}
	update.If = raised
	if s.cfg.MaxFollowing > 0 {
		update.If = table.All{raised, table.Any{
			table.AttrAbsent{Name: schema.AttrFollowing}, table.Less{Name: schema.AttrFollowing, Value: table.N(s.cfg.MaxFollowing)},
		}}
	}
	return update
}

// followsMost reports whether a follow failed because the follower already follows as many users as
// the limit allows. An existing edge means that the follow was made before.
func (s *Service) followsMost(err error) bool {
	cancelled, ok := errors.AsType[*table.CancelledError](err)
	if !ok || s.cfg.MaxFollowing == 0 || cancelled.Failed(1) || !cancelled.Failed(2) {
		return false
	}
	counts := cancelled.Reasons[2].Old
	return counts != nil && counts.Int(schema.AttrFollowing) >= s.cfg.MaxFollowing
}

// followFrom returns the lowest post id that a new follow of author shows: the id of the author's
// Config.RecentPosts-th newest post, or id.Min if there are fewer. It skips posts that are too old
// for homes. It also returns the cost of the follow.
func (s *Service) followFrom(ctx context.Context, author string) (from string, of cost, err error) {
	oldest, err := s.access.OldestShown(ctx)
	if err != nil {
		return "", of, err
	}
	var recent page.Stretch[access.Ref]
	read, err := access.Measure(ctx, func(ctx context.Context) (err error) {
		recent, err = s.access.PostsBy(ctx, nil, author, access.Span{Low: oldest}, s.cfg.RecentPosts, s.cfg.RecentPosts)
		return err
	})
	if err != nil {
		return "", of, err
	}
	shown := min(len(recent.Items), s.cfg.RecentPosts)
	of = s.costOfFollow(shown, int64(math.Ceil(read)))
	if shown < s.cfg.RecentPosts {
		return id.Min, of, nil
	}
	return recent.Items[s.cfg.RecentPosts-1].Post, of, nil
}

// Followers lists the users who follow user, by user id, without silent follows.
func (s *Service) Followers(ctx context.Context, user string, in page.Request) (page.List[Edge], error) {
	return s.edges(ctx, schema.FollowersPK(user), page.ListByUser("followers", user), in, false)
}

// Following lists the users that user follows, by user id. Only the user sees silent follows.
func (s *Service) Following(ctx context.Context, viewer, user string, in page.Request) (page.List[Edge], error) {
	return s.edges(ctx, schema.FollowingPK(user), page.ListByUser("following", user), in, viewer == user)
}

// edges returns a page of edges, with silent follows if the viewer owns the edges.
func (s *Service) edges(ctx context.Context, pk string, scope page.Scope, in page.Request, own bool) (page.List[Edge], error) {
	return listing[Edge]{
		scope: scope, query: table.Query{PK: pk, Consistent: true}, sortKey: schema.UserSK, position: edgeUser,
		read: page.Each(func(it table.Item) (Edge, bool, error) {
			e, err := schema.ParseEdge(it)
			return Edge{e.Other, e.Since}, own || !e.Silent, err
		}),
		fill: page.Refill{Budget: page.BudgetAfter(2), Calls: 1, Most: page.MostRefill},
	}.userPage(ctx, s, in)
}

func edgeUser(e Edge) string { return e.UserID }

// Relationship reports which of two users follows the other user, without the silent follows of users other than the viewer.
// It reads the two edges by their keys.
func (s *Service) Relationship(ctx context.Context, viewer, user, other string) (Relationship, error) {
	there, back := schema.FollowingKey(user, other), schema.FollowingKey(other, user)
	keys := []table.Key{there}
	if user != other {
		keys = append(keys, back)
	}
	found, err := s.access.BatchGet(ctx, keys, true)
	if err != nil {
		return Relationship{}, err
	}
	_, following := found[there]
	_, followedBy := found[back]
	if !following && !followedBy { // an edge proves that both users exist
		if err := s.access.All(ctx,
			func(ctx context.Context) error { return s.access.RequireUser(ctx, user) },
			func(ctx context.Context) error { return s.access.RequireUser(ctx, other) },
		); err != nil {
			return Relationship{}, err
		}
	}
	following = following && (viewer == user || !found[there].Has(schema.AttrSilent))
	followedBy = followedBy && (viewer == other || !found[back].Has(schema.AttrSilent))
	return Relationship{following, followedBy, following && followedBy}, nil
}
