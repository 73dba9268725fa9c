package audit

import (
	"context"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// followerItem checks a follower's edge under the author.
func (r *run) followerItem(ctx context.Context, author string, it table.Item) error {
	follower, ok := schema.UserOfSK(it.Key.SK)
	if !ok {
		return nil
	}
	edge, mark := schema.FollowingKey(follower, author), schema.MarkKey(follower, author)
	found, err := r.get(ctx, false, edge, mark)
	if err != nil {
		return err
	}
	if _, ok := found[edge]; !ok {
		return r.half(ctx, follower, author, it, edge)
	}
	if _, ok := found[mark]; ok {
		return nil
	}
	mode, err := r.mode(ctx, author)
	if err != nil || mode.State != schema.ModePull {
		return err
	}
	// The walk that ended in this mode gave a mark to every earlier follower, and every
	// later follow made a mark.
	broken, err := r.transact(ctx, check(schema.ModeKey(author), table.All{
		table.Equal{Name: schema.AttrMode, Value: table.S(string(schema.ModePull))}, table.Equal{Name: schema.AttrModeV, Value: table.N(mode.V)},
	}), check(it.Key, same(it, schema.AttrSince)), check(edge, table.Exists{}), check(mark, table.Absent{}))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, HomeMark, mark, "the author is pulled, and the follower's home has no mark that merges the posts in", r.mendFollow(ctx, follower, author))
}

// followingItem checks a followed author's edge under the follower.
func (r *run) followingItem(ctx context.Context, follower string, it table.Item) error {
	author, ok := schema.UserOfSK(it.Key.SK)
	if !ok {
		return nil
	}
	under, key := schema.FollowerKey(author, follower), schema.MarkKey(follower, author)
	found, err := r.get(ctx, false, under, key)
	if err != nil {
		return err
	}
	if _, ok := found[under]; !ok {
		return r.half(ctx, follower, author, it, under)
	}
	mark := found[key]
	if mark.Str(schema.AttrKind) != string(schema.MarkUnfollowed) || table.Expired(mark, r.cfg.Now().Add(margin)) {
		return nil
	}
	// A follow replaces the mark in the transaction that makes the edges.
	broken, err := r.transact(ctx, check(it.Key, same(it, schema.AttrSince)), check(under, table.Exists{}), check(key, same(mark, schema.AttrVersion)))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, HomeMark, key, "the mark hides a followed author", r.mendFollow(ctx, follower, author))
}

// half confirms that a follow has only one of its two edges. Follows and unfollows change
// both edges in one transaction.
func (r *run) half(ctx context.Context, follower, author string, it table.Item, missing table.Key) error {
	broken, err := r.transact(ctx, check(it.Key, same(it, schema.AttrSince)), check(missing, table.Absent{}))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, FollowHalf, missing, "the other edge of this follow is there", r.mendFollow(ctx, follower, author))
}

// markItem checks a mark that merges in the posts of an author. The mark of an unfollow needs no follow.
func (r *run) markItem(ctx context.Context, user string, it table.Item) error {
	if !schema.KnownMark(it) {
		return nil
	}
	mark, err := schema.ParseMark(it)
	if err != nil || mark.Kind == schema.MarkUnfollowed {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	edge, under := schema.FollowingKey(user, mark.Author), schema.FollowerKey(mark.Author, user)
	found, err := r.get(ctx, false, edge, under)
	if err != nil || len(found) > 0 { // a follow with one edge is another finding
		return err
	}
	broken, err := r.transact(ctx, check(it.Key, same(it, schema.AttrVersion)), check(edge, table.Absent{}), check(under, table.Absent{}))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, HomeMark, it.Key, "the mark merges in an author without a follow", r.mendFollow(ctx, user, mark.Author))
}

func (r *run) mendFollow(ctx context.Context, follower, author string) func() (bool, error) {
	return func() (bool, error) { return r.cfg.Feed.MendFollow(ctx, follower, author) }
}

// mode returns the mode of an author, and reads each mode once a page.
func (r *run) mode(ctx context.Context, author string) (schema.Mode, error) {
	if mode, ok := r.modes[author]; ok {
		return mode, nil
	}
	key := schema.ModeKey(author)
	found, err := r.get(ctx, false, key)
	if err != nil {
		return schema.Mode{}, err
	}
	mode, err := schema.ParseMode(author, []table.Item{found[key]})
	if err != nil {
		return schema.Mode{}, nil //nolint:nilerr // an item that cannot be read is skipped
	}
	r.modes[author] = mode
	return mode, nil
}
