package feed

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// unfollowedSlack is the time by which an unfollow's mark outlives a timeline entry. Messages in
// flight at the unfollow, above all a backfill, may still write entries of posts that were made after
// the unfollow. But no consumer handles a message older than MaxAge. So these posts are at most MaxAge
// younger than the unfollow, and the mark outlives their entries.
const unfollowedSlack = messages.MaxAge

// Unfollow ends a follow. A call may be repeated.
//
// Unfollow takes effect at once, whatever messages are in flight (I2), for three reasons. The
// transaction that removes the edges also writes a mark. Every home read begins with a consistent read
// of the marks. The mark outlives every entry that chunks and backfills in flight may still write. An
// earlier backfill cannot end the mark, because the mark has another version. So no entry has to be
// removed: entries expire by their ttl. A home read that finds many entries of the author asks a
// worker to remove these entries.
func (s *Service) Unfollow(ctx context.Context, follower, author string) error {
	if err := notSelf(follower, author); err != nil {
		return err
	}
	return s.access.RetryChanged(func() (bool, error) { return s.unfollow(ctx, follower, author) })
}

// unfollow makes one attempt of Unfollow. changed reports that another call has changed the follow
// after the read of this attempt.
func (s *Service) unfollow(ctx context.Context, follower, author string) (changed bool, err error) {
	var also []table.Key
	if s.cfg.UserUnits > 0 {
		also = []table.Key{schema.CountsKey(follower)}
	}
	now, err := s.readFollow(ctx, follower, author, also...)
	if err != nil {
		return false, err
	}
	if now.edge == nil {
		return s.hideUnfollowed(ctx, follower, author, now)
	}
	now.use = s.useOf(follower, s.access.Now(), cost{own: unitsOfUnfollow, later: s.costOfNotices(1, 0)}, now.counts)
	err = s.inTurn(ctx, now.use, func(u use) (err error) {
		if err = s.refused(u); err == nil {
			now.use = u
			changed, err = s.endFollow(ctx, follower, author, now)
		}
		return err
	})
	return changed, err
}

// hideUnfollowed ensures that homes hide the author before it answers an unfollow without an edge. If the mark is not
// the mark of an unfollow, another unfollow's transaction may be visible in part, so that the next home would
// show the author's posts (I2). changed reports that the follow has changed after the read of now.
func (s *Service) hideUnfollowed(ctx context.Context, follower, author string, now following) (changed bool, err error) {
	if now.mark == nil {
		return false, nil
	}
	mark, err := schema.ParseMark(*now.mark)
	if err != nil || mark.Kind == schema.MarkUnfollowed {
		return false, fault.Wrap("table", err)
	}
	if mark, err = s.unfollowed(ctx, follower, author, now.mark); err != nil {
		return false, err
	}
	err = s.access.TransactFollow(ctx, follower, author,
		table.TransactOp{Check: &table.CheckInput{Key: schema.FollowingKey(follower, author), If: table.Absent{}}},
		table.TransactOp{Put: &table.PutInput{Item: mark.Item(), If: s.unchanged(now.mark)}},
	)
	return access.ConditionFailed(err), fault.Wrap("table", err)
}

// EndFollow ends a stored follow if ends returns true for the follow's edge, and reports whether it
// ended the follow. The profiles may be removed.
func (s *Service) EndFollow(ctx context.Context, follower, author string, ends func(schema.Edge) (bool, error)) (ended bool, err error) {
	return s.endEdge(ctx, follower, author, false, ends)
}

// EndFollower is EndFollow for a removed author, whose notifications the removal deletes.
func (s *Service) EndFollower(ctx context.Context, author, follower string, ends func(schema.Edge) (bool, error)) (ended bool, err error) {
	return s.endEdge(ctx, follower, author, true, ends)
}

func (s *Service) endEdge(ctx context.Context, follower, author string, forgets bool, ends func(schema.Edge) (bool, error)) (ended bool, err error) {
	err = s.access.RetryChanged(func() (bool, error) {
		now, err := s.readEdge(ctx, follower, author)
		if err != nil || now.edge == nil {
			return false, err
		}
		now.forgets = forgets
		edge, err := schema.ParseEdge(*now.edge)
		if err != nil {
			return false, fault.Wrap("table", err)
		}
		if ok, err := ends(edge); err != nil || !ok {
			return false, err
		}
		changed, err := s.endFollow(ctx, follower, author, now)
		ended = err == nil
		return changed, err
	})
	return ended, err
}

// formerFollows is the maximum number of follows of former lives that one call ends. formerFor is the age
// of a life from which its removal has ended all of them, unless the queues stood still for a day.
const (
	formerFollows = 10
	formerFor     = 24 * time.Hour
)

// endFormerFollows ends some follows of a user's former lives, and reports whether it ended one. The
// removal of those lives has not reached them yet, and until then they fill the limit of the user's
// present life. after is an id above all ids of the former lives.
func (s *Service) endFormerFollows(ctx context.Context, user, after string) (ended bool, err error) {
	if after == "" || s.access.Now().Sub(access.TimeOf(after)) > formerFor {
		return false, nil
	}
	former := make([]schema.Edge, 0, formerFollows)
	err = s.access.EachItem(ctx, table.Query{PK: schema.FollowingPK(user), Consistent: true}, func(it table.Item) error {
		edge, err := schema.ParseEdge(it)
		if err != nil || !isFormer(edge.Version(), after) {
			return fault.Wrap("table", err)
		}
		if former = append(former, edge); len(former) == formerFollows {
			return errEnoughFormer
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnoughFormer) {
		return false, err
	}
	for _, edge := range former {
		gone, err := s.EndFollow(ctx, user, edge.Other, func(now schema.Edge) (bool, error) { return isFormer(now.Version(), after), nil })
		if err != nil {
			return ended, err
		}
		ended = ended || gone
	}
	return ended, nil
}

// errEnoughFormer ends a walk over follows of former lives.
var errEnoughFormer = errors.New("enough follows of former lives were found")

// endFollow sends an unfollow's transaction. changed reports that another call has changed the follow
// after the read of now.
func (s *Service) endFollow(ctx context.Context, follower, author string, now following) (changed bool, err error) {
	ops, err := s.endOf(ctx, follower, author, now)
	if err != nil {
		return false, err
	}
	err = s.access.TransactFollow(ctx, follower, author, ops...)
	if access.ConditionFailed(err) {
		return true, err
	}
	return false, fault.Wrap("table", err)
}

// endOf returns the operations of an unfollow's transaction, after it has sent the event that takes the
// follow's notification back.
func (s *Service) endOf(ctx context.Context, follower, author string, now following) ([]table.TransactOp, error) {
	mark, err := s.unfollowed(ctx, follower, author, now.mark)
	if err != nil {
		return nil, err
	}
	if !now.forgets {
		s.noticeUnfollow(ctx, mark)
	}
	count := access.AddTo(schema.CountsKey(follower), schema.AttrFollowing, -1)
	now.use.countTo(count)
	return []table.TransactOp{
		{Delete: &table.DeleteInput{Key: schema.FollowerKey(author, follower), If: table.Exists{}}},
		{Delete: &table.DeleteInput{Key: schema.FollowingKey(follower, author), If: sameEdge(*now.edge)}},
		{Update: count},
		{Update: countFollower(author, follower, -1, now.isSilent())},
		{Put: &table.PutInput{Item: mark.Item(), If: s.unchanged(now.mark)}},
	}, nil
}

// unfollowed returns a new mark for an unfollow, in place of the mark old.
func (s *Service) unfollowed(ctx context.Context, follower, author string, old *table.Item) (schema.Mark, error) {
	lives, err := s.access.Lives(ctx)
	if err != nil {
		return schema.Mark{}, err
	}
	version, err := s.markVersion(old, "")
	return schema.Mark{
		User: follower, Author: author, Kind: schema.MarkUnfollowed, Version: version,
		TTL: s.access.Now().Add(lives.Longest() + unfollowedSlack),
	}, err
}
