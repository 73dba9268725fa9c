package feed

import (
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
	if err := notSelf(follower, author); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) { return s.follow(ctx, follower, author) })
}

// follow makes one attempt of Follow. changed reports that another call has changed the follow after
// the read of this attempt.
func (s *Service) follow(ctx context.Context, follower, author string) (changed bool, err error) {
	now, err := s.readFollow(ctx, follower, author, schema.CountsKey(follower))
	if err != nil {
		return false, err
	}
	since := above(now.after, s.access.Now())
	if now.edge != nil {
		edge, err := schema.ParseEdge(*now.edge)
		if err != nil || !isFormer(edge.Version(), now.after) {
			return false, fault.Wrap("table", err)
		}
		return s.renewFollow(ctx, follower, author, now, since, since)
	}
	version, err := s.access.IDs.New()
	if err != nil {
		return false, err
	}
	now.use = s.useOf(follower, access.TimeOf(version), unitsOfFollow, now.counts)
	if err := s.refused(now.use); err != nil {
		return false, err
	}
	from, backfill, err := s.followFrom(ctx, author)
	if err != nil {
		return false, err
	}
	now.use.units += backfill
	mark := schema.Mark{User: follower, Author: author, Kind: schema.MarkBackfill, From: from, Version: version, FollowID: version}
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
	access.Cause(ctx, backfill)
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
	ops := []table.TransactOp{
		{Put: &table.PutInput{Item: schema.DatedFollowerItem(author, follower, since, until), If: table.Absent{}}},
		{Put: &table.PutInput{Item: schema.ImportedFollowingItem(follower, author, since, mark.From, above(now.after, since)), If: table.Absent{}}},
		{Update: count},
		{Update: access.AddTo(schema.FollowerCountKey(author, follower), schema.AttrN, 1)},
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
			return false, &fault.Error{
				Kind: fault.FollowingLimit, Detail: fmt.Sprintf("you follow %d users, the most that you may: unfollow one first", s.cfg.MaxFollowing),
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
// changed the follow after the read of now.
func (s *Service) renewFollow(ctx context.Context, follower, author string, now following, since, v time.Time) (changed bool, err error) {
	item := schema.ImportedFollowingItem(follower, author, since, now.edge.Str(schema.AttrFrom), v)
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

// sameEdge holds while an edge has not changed since the read.
func sameEdge(it table.Item) table.Cond {
	return table.All{table.Exists{}, unchangedAttr(it, schema.AttrSince), unchangedAttr(it, schema.AttrEdgeV)}
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

func notSelf(user, other string) error {
	if user == other {
		return &fault.Error{Kind: fault.Invalid, Detail: "you cannot follow yourself", Fields: []fault.FieldError{{Field: "id", Detail: "is your own id"}}}
	}
	return nil
}

// following is the stored state of a follow: the edge under the follower, and the home mark. edge,
// mark or counts is nil if the item is absent. upto is the day of the follower's counts. after is an
// id above all ids of the former lives of the two users. use is the use of the call that changes the
// follow.
type following struct {
	edge, mark, counts *table.Item
	upto               schema.Day
	after              string
	use                use
}

// readFollow reads a follow, both profiles, and the keys in also, consistently. Both profiles must
// exist.
func (s *Service) readFollow(ctx context.Context, follower, author string, also ...table.Key) (following, error) {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := s.access.BatchGet(ctx, append([]table.Key{edge, mark, schema.ProfileKey(follower), schema.ProfileKey(author)}, also...), true)
	if err != nil {
		return following{}, err
	}
	if _, ok := found[schema.ProfileKey(follower)]; !ok {
		return following{}, fault.NoProfile(follower)
	}
	if _, ok := found[schema.ProfileKey(author)]; !ok {
		return following{}, fault.NotFoundf("there is no user %s", author)
	}
	now := following{after: afterOf(found, follower, author)}
	if it, ok := found[edge]; ok {
		now.edge = &it
	}
	if it, ok := found[schema.CountsKey(follower)]; ok {
		now.counts = &it
		now.upto = schema.Day(it.Int(schema.AttrUptoDay))
	}
	if it, ok := found[mark]; ok {
		now.mark = &it
	}
	return now, nil
}

// readEdge reads a follow without the profiles.
func (s *Service) readEdge(ctx context.Context, follower, author string) (now following, err error) {
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := s.access.BatchGet(ctx, []table.Key{edge, mark}, true)
	if it, ok := found[edge]; ok {
		now.edge = &it
	}
	if it, ok := found[mark]; ok {
		now.mark = &it
	}
	return now, err
}

// followFrom returns the lowest post id that a new follow of author shows: the id of the author's
// Config.RecentPosts-th newest post, or id.Min if there are fewer. It skips posts that are too old
// for homes. It also returns the units that the backfill of the posts causes.
func (s *Service) followFrom(ctx context.Context, author string) (from string, backfill int64, err error) {
	oldest, err := s.access.OldestShown(ctx)
	if err != nil {
		return "", 0, err
	}
	var recent page.Stretch[access.Ref]
	read, err := access.Measure(ctx, func(ctx context.Context) (err error) {
		recent, err = s.access.PostsBy(ctx, nil, author, access.Span{Low: oldest}, s.cfg.RecentPosts, s.cfg.RecentPosts)
		return err
	})
	if err != nil {
		return "", 0, err
	}
	shown := min(len(recent.Items), s.cfg.RecentPosts)
	backfill = int64(unitsOfCopy*shown) + int64(math.Ceil(read))
	if shown < s.cfg.RecentPosts {
		return id.Min, backfill, nil
	}
	return recent.Items[s.cfg.RecentPosts-1].Post, backfill, nil
}

// Followers lists the users who follow user, by user id.
func (s *Service) Followers(ctx context.Context, user string, in page.Request) (page.List[Edge], error) {
	return s.edges(ctx, schema.FollowersPK(user), page.ListByUser("followers", user), in)
}

// Following lists the users that user follows, by user id.
func (s *Service) Following(ctx context.Context, user string, in page.Request) (page.List[Edge], error) {
	return s.edges(ctx, schema.FollowingPK(user), page.ListByUser("following", user), in)
}

func (s *Service) edges(ctx context.Context, pk string, scope page.Scope, in page.Request) (page.List[Edge], error) {
	position, err := scope.Position(in.Cursor)
	if err != nil {
		return page.List[Edge]{}, err
	}
	q := table.Query{PK: pk, Consistent: true}
	if position != "" {
		q.After = schema.UserSK(position)
	}
	edges, err := page.Collect(ctx, s.access.Store, q, in.Size()+1, page.Refill{}, page.Each(func(it table.Item) (Edge, bool, error) {
		edge, err := schema.ParseEdge(it)
		return Edge{edge.Other, edge.Since}, true, err
	}))
	if err != nil {
		return page.List[Edge]{}, err
	}
	return access.UserPage(ctx, s.access, edges, in, scope, edgeUser)
}

func edgeUser(e Edge) string { return e.UserID }

// Relationship reports which of two users follows the other user. It reads the two edges by their
// keys.
func (s *Service) Relationship(ctx context.Context, user, other string) (Relationship, error) {
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
	return Relationship{following, followedBy, following && followedBy}, nil
}

// unchanged holds while the home mark has not changed since the read. A nil mark means that there was
// no mark. A transaction that timed out may reach the table after later transactions were answered.
// Such a transaction then finds another mark and fails, so it does not undo the later transactions
// (I2).
func (s *Service) unchanged(mark *table.Item) table.Cond {
	if mark == nil { // absent, or expired and not deleted yet
		return table.Any{table.Absent{}, table.Less{Name: table.AttrTTL, Value: table.N(s.access.Clock.Expired(s.access.Now()).Unix() + 1)}}
	}
	return table.Equal{Name: schema.AttrVersion, Value: mark.Get(schema.AttrVersion)}
}
