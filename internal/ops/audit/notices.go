package audit

import (
	"context"
	"errors"

	"fanfare/internal/notify"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// noticeItem checks the place of a notification in the index. A walk with Tidy also takes back
// actions that no longer hold by the table. Such an action is no finding, because the event that
// takes the action back may be in flight, and may still be merged later.
func (r *run) noticeItem(ctx context.Context, it table.Item) error {
	wrong := func(it table.Item) bool {
		n, err := schema.ParseNotice(it)
		return err == nil && !sameIndex(it, n.Item())
	}
	err := r.index(ctx, NoticeIndex, it, wrong, func(it table.Item) (table.Item, table.Cond) {
		n, _ := schema.ParseNotice(it) // wrong has parsed it
		return n.Item(), same(it, schema.AttrRevision)
	})
	n, unreadable := schema.ParseNotice(it)
	if err != nil || unreadable != nil || !r.walk.Tidy {
		return err
	}
	found, err := r.get(ctx, true, n.Key())
	if err != nil {
		return err
	}
	if it = found[n.Key()]; it.Attrs == nil { // the notification has expired or was purged
		return nil
	}
	if n, err = schema.ParseNotice(it); err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	untrue, err := r.untrue(ctx, n)
	if err != nil || len(untrue) == 0 {
		return err
	}
	merged := notify.Merge(n, untrue, notify.Rules{
		LeftOut: func(schema.Act) bool { return false }, Place: func(above string) string { return above }, // a take-back needs no place
	})
	merged.Revision++
	res, err := r.cfg.Store.Put(ctx, table.PutInput{Item: merged.Item(), If: same(it, schema.AttrRevision)})
	if failed, changed := errors.AsType[*table.ConditionError](err); changed {
		return r.spend(ctx, failed.Units, nil)
	}
	return r.spend(ctx, res.Units, err)
}

// untrue returns take-backs of the actions that hold in a notification but not by the table. If
// the like in the table is newer than its action, another event belongs to the like.
func (r *run) untrue(ctx context.Context, n schema.Notice) (acts []schema.Act, err error) {
	shards := 1
	if n.Kind == schema.NoticeLike {
		found, err := r.get(ctx, true, schema.PostByIDKey(n.Target))
		if err != nil {
			return nil, err
		}
		ref, err := schema.ParsePostRef(found[schema.PostByIDKey(n.Target)])
		if err != nil {
			return nil, nil //nolint:nilerr // without the post by id, nothing is known about the post
		}
		shards = ref.LikeShards
	}
	var keys []table.Key
	var held []schema.Act
	for _, act := range n.Acts {
		key := schema.CommentKey(n.Target, act.Version)
		switch {
		case n.Kind == schema.NoticeLike:
			key = schema.LikeKey(n.Target, act.User, shards)
		case n.Kind == schema.NoticeRepost:
			key = schema.PostByIDKey(act.Version)
		case n.Kind == schema.NoticeFollow:
			key = schema.FollowingKey(act.User, n.User)
		case act.Version == n.Target: // the post itself mentions the user
			continue
		}
		if act.Holds() {
			keys, held = append(keys, key), append(held, act)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := r.get(ctx, true, keys...)
	for i, act := range held {
		it, there := found[keys[i]]
		there = there && it.Int(schema.AttrDeleted) == 0 // an ended repost
		like, unreadable := schema.ParseLike(it)
		if there && (n.Kind != schema.NoticeLike || unreadable != nil || like.Kind != "") {
			continue
		}
		act.Version, act.State = max(act.Version, like.Version), ""
		acts = append(acts, act)
	}
	return acts, err
}
