package feed

import (
	"cmp"
	"context"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// MendFollow repairs a follow that lost some of its items: the edge under the author, the edge under
// the follower, or the home mark. MendFollow reports whether it wrote an item.
//
// An incomplete follow becomes a complete follow, like a new follow, so that missed posts are
// backfilled (I1). An incomplete follow becomes no follow if the home mark is the mark of an unfollow,
// or if a block exists. A follow whose home hides the author gets a new mark. Without a follow, the
// home hides the author as after an unfollow (I2). An incomplete follow of or by a removed user
// becomes no follow, and MendFollow leaves a complete follow to the removal. A user without a profile
// gets no new item. One transaction makes the repair, on the condition that no item has changed since
// the read, so a concurrent call of another process wins. The counts stay, because they include the
// lost items.
func (s *Service) MendFollow(ctx context.Context, follower, author string) (mended bool, err error) {
	under, edge, markKey := schema.FollowerKey(author, follower), schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	block := schema.BlockKey(follower, author)
	keys := []table.Key{under, edge, markKey, block}
	for _, user := range []string{follower, author} {
		keys = append(keys, schema.ProfileKey(user), schema.ForgottenKey(user))
	}
	found, err := s.access.BatchGet(ctx, keys, true)
	if err != nil {
		return false, err
	}
	var mark schema.Mark
	var stored *table.Item
	if it, ok := found[markKey]; ok {
		if mark, err = schema.ParseMark(it); err != nil {
			return false, fault.Wrap("table", err)
		}
		stored = &it
	}
	_, pushed := found[under]
	_, listed := found[edge]
	unfollowed := mark.Kind == schema.MarkUnfollowed
	_, blocked := found[block]
	ends := removed(found, follower) || removed(found, author)
	follows := !blocked && !ends && (pushed && listed || (pushed || listed) && !unfollowed)
	if follows && pushed && listed && stored != nil && !unfollowed || !pushed && !listed && unfollowed || ends && pushed && listed {
		return false, nil
	}
	next, err := s.unfollowed(ctx, follower, author, stored)
	if err != nil {
		return false, err
	}
	version := next.Version
	var event messages.Event = &messages.Unfollowed{FollowerID: follower, AuthorID: author, MarkVersion: version}
	ops := make([]table.TransactOp, 0, 6)
	if follows {
		known, since, whole := found[edge], found[under].Get(schema.AttrSince), func(it table.Item) table.Item { return it }
		from := cmp.Or(known.Str(schema.AttrFrom), mark.From, id.Min)
		if listed {
			since = known.Get(schema.AttrSince)
		}
		if known.Has(schema.AttrSilent) || found[under].Has(schema.AttrSilent) {
			whole = schema.SilentEdge
		}
		// The mark has no FollowID, because users were notified of the follow when it was made.
		next = schema.Mark{User: follower, Author: author, Kind: schema.MarkBackfill, From: from, Version: version}
		event = &messages.Followed{FollowerID: follower, AuthorID: author, From: from, MarkVersion: version}
		ops = append(ops, hasProfile(follower), hasProfile(author), kept(found, whole(table.Item{Key: under, Attrs: []table.Attr{{Name: schema.AttrSince, Value: since}}})),
			table.TransactOp{Check: &table.CheckInput{Key: block, If: table.Absent{}}},
			kept(found, whole(table.Item{Key: edge, Attrs: []table.Attr{{Name: schema.AttrSince, Value: since}, {Name: schema.AttrFrom, Value: table.S(from)}}})))
	} else {
		s.noticeUnfollow(ctx, next)
		ops = append(ops, gone(found, under), gone(found, edge))
	}
	ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: next.Item(), If: s.unchanged(stored)}})
	if err := s.access.TransactFollow(ctx, follower, author, ops...); access.ConditionFailed(err) {
		return false, nil
	} else if err != nil {
		return false, fault.Wrap("table", err)
	}
	return true, s.access.Publish(ctx, queue.TopicBackfills, event)
}

// kept checks an edge that is in found, or puts a missing edge.
func kept(found map[table.Key]table.Item, it table.Item) table.TransactOp {
	if old, ok := found[it.Key]; ok {
		return table.TransactOp{Check: &table.CheckInput{Key: it.Key, If: sameEdge(old)}}
	}
	return table.TransactOp{Put: &table.PutInput{Item: it, If: table.Absent{}}}
}

// gone deletes an edge that is in found, or checks that a missing edge is absent.
func gone(found map[table.Key]table.Item, key table.Key) table.TransactOp {
	if old, ok := found[key]; ok {
		return table.TransactOp{Delete: &table.DeleteInput{Key: key, If: sameEdge(old)}}
	}
	return table.TransactOp{Check: &table.CheckInput{Key: key, If: table.Absent{}}}
}

// BuryLost deletes a post whose item is lost, so that a purge removes the remains of the post, as
// after any deletion. BuryLost reports whether it deleted the post. The text cannot be restored. The
// count stays, because it includes the lost post.
func (s *Service) BuryLost(ctx context.Context, post string) (buried bool, err error) {
	ref, err := s.access.PostOfAnyAudience(ctx, access.Worker, post)
	if err != nil || ref.Gone(s.access.Now()) {
		return false, err
	}
	key := schema.CountsKey(ref.Author)
	counts, err := s.access.Get(ctx, key, true)
	if err != nil {
		return false, err
	}
	lives, err := s.access.Lives(ctx)
	if err != nil {
		return false, err
	}
	ref.Deleted, ref.TTL = true, s.access.Now().Add(lives.Longest()+schema.DeliveryKept)
	ops := []table.TransactOp{{Check: &table.CheckInput{Key: schema.PostKey(ref.Author, post), If: table.Absent{}}}}
	if counts == nil || counts.Str(schema.AttrLastDel) < post { // new ids stay above last_del
		ops = append(ops, table.TransactOp{Update: &table.UpdateInput{
			Key: key, Set: []table.Attr{{Name: schema.AttrLastDel, Value: table.S(post)}},
			If: table.Any{table.AttrAbsent{Name: schema.AttrLastDel}, table.Less{Name: schema.AttrLastDel, Value: table.S(post)}},
		}})
	}
	err = s.bury(ctx, ref, schema.Post{}, ops...)
	if access.ConditionFailed(err) {
		return false, nil
	}
	return err == nil, fault.Wrap("table", err)
}
