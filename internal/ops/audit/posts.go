package audit

import (
	"context"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// postItem checks that a listed post has its post by id, and checks the number of comments.
// One transaction makes both items of a post, and one transaction removes the post from the
// list and makes the tombstone.
func (r *run) postItem(ctx context.Context, it table.Item) error {
	post, err := schema.ParsePost(it)
	if err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	key := schema.PostByIDKey(post.ID)
	found, err := r.get(ctx, false, key)
	if err != nil {
		return err
	}
	ref, ok := found[key]
	var now table.Cond = table.Absent{}
	detail := "the post is in its author's list, and not there by its id"
	if ok {
		if ref.Int(schema.AttrDeleted) == 0 {
			return r.commentCount(ctx, post)
		}
		now, detail = table.Equal{Name: schema.AttrDeleted, Value: ref.Get(schema.AttrDeleted)}, "the post was deleted, and is in its author's list"
	}
	broken, err := r.transact(ctx, check(it.Key, table.Exists{}), check(key, now))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, PostID, key, detail, func() (bool, error) {
		goes := []table.TransactOp{{Delete: &table.DeleteInput{Key: it.Key, If: table.Exists{}}}, check(key, now)}
		if ok {
			return r.transact(ctx, goes...)
		}
		// A removal finds posts in the lists and deletes them by id, so the removal has missed this post.
		removed, still, err := r.removed(ctx, post.Author)
		if err != nil {
			return false, err
		}
		if removed {
			return r.transact(ctx, append(goes, still)...)
		}
		lives, err := r.cfg.Lifetimes.Current(ctx)
		if err != nil {
			return false, err
		}
		made := post.Ref(lives.Longest())
		made.Referred = true // the lost item may have had the flag
		return r.transact(ctx, check(it.Key, table.Exists{}), table.TransactOp{Put: &table.PutInput{Item: made.Item(), If: now}}, still)
	})
}

// removed reports whether a user was removed, or is being removed, and has no new profile.
// still is a check that fails a transaction if this has changed.
func (r *run) removed(ctx context.Context, user string) (is bool, still table.TransactOp, err error) {
	profile, note := schema.ProfileKey(user), schema.ForgottenKey(user)
	found, err := r.get(ctx, true, profile, note)
	if _, there := found[profile]; there || err != nil {
		return false, check(profile, table.Exists{}), err
	}
	if _, there := found[note]; there {
		return true, check(profile, table.Absent{}), nil
	}
	return false, check(note, table.Absent{}), nil
}

// refItem checks that a living post by id has its post, and checks the like count.
func (r *run) refItem(ctx context.Context, it table.Item) error {
	ref, err := schema.ParsePostRef(it)
	if err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	if ref.Deleted {
		return r.tombstone(ctx, ref)
	}
	if ref.Gone(r.cfg.Now().Add(clocksApart)) { // the table deletes the post and its likes one by one
		return nil
	}
	key := schema.PostKey(ref.Author, ref.ID)
	found, err := r.get(ctx, false, key)
	if err != nil {
		return err
	}
	if it, ok := found[key]; ok {
		if err := r.uncounted(ctx, ref, it); err != nil {
			return err
		}
		return r.likeCount(ctx, ref)
	}
	broken, err := r.transact(ctx, check(it.Key, living()), check(key, table.Absent{}))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, PostMissing, key, "the post is there by its id, and not in its author's list", func() (bool, error) {
		return r.cfg.Feed.BuryLost(ctx, ref.ID)
	})
}

// clocksApart is the maximum time by which the clock that expires items is ahead of the
// clock of this process.
const clocksApart = time.Hour

// purgeLate is the time after its deletion in which a post is normally purged. If there is no purge
// after this time, the event was lost or the workers are late. Another event is harmless in both cases.
const purgeLate = time.Hour

// tombstone requests the purge of a deleted post if the event was lost, because of a crash
// after the deletion's transaction or because of a failing queue.
func (r *run) tombstone(ctx context.Context, ref schema.PostRef) error {
	lives, err := r.cfg.Lifetimes.Current(ctx)
	if err != nil || !r.walk.Tidy || ref.Purged {
		return err
	}
	// If the longest TTL has changed since the deletion, this time is too early or too
	// late, which is harmless.
	deleted := ref.TTL.Add(-lives.Longest() - schema.DeliveryKept)
	if r.cfg.Now().After(deleted.Add(purgeLate)) {
		r.cfg.Feed.AskToPurge(ctx, ref.Author, ref.ID)
	}
	return nil
}

// uncounted lets the aggregator count a repost that is not among the likes of its original, because a restore lost the event.
func (r *run) uncounted(ctx context.Context, ref schema.PostRef, it table.Item) error {
	p, err := schema.ParsePost(it)
	if made, bad := id.Time(ref.ID); err != nil || bad != nil || p.RepostOf == "" || !r.walk.Tidy || r.cfg.Now().Before(made.Add(purgeLate)) {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	key := p.CountedKey()
	found, err := r.get(ctx, false, key)
	if _, counts := found[key]; !counts && err == nil {
		r.cfg.Feed.AskToCount(ctx, p)
	}
	return err
}

// commentItem checks the keys of a comment in the index of comments by user.
func (r *run) commentItem(ctx context.Context, it table.Item) error {
	wrong := func(it table.Item) bool {
		c, err := schema.ParseComment(it)
		return err == nil && c.Author != "" && !sameIndex(it, c.Item())
	}
	return r.index(ctx, CommentIndex, it, wrong, func(it table.Item) (table.Item, table.Cond) {
		c, _ := schema.ParseComment(it) // wrong has parsed this item without an error
		return c.Item(), same(it, schema.AttrAuthor)
	})
}

// likeItem checks the keys of a like in the index of likes by user.
func (r *run) likeItem(ctx context.Context, it table.Item) error {
	want := func(it table.Item) (table.Item, table.Cond) {
		l, _ := schema.ParseLike(it) // wrong has parsed this item without an error
		l.Indexed = r.cfg.LikesByUser || l.Indexed
		return l.Item(), table.All{same(it, schema.AttrFlush), same(it, schema.AttrVersion)}
	}
	wrong := func(it table.Item) bool {
		l, err := schema.ParseLike(it)
		if err != nil || l.Kind != "" && !l.Indexed && !r.cfg.LikesByUser {
			return false
		}
		right, _ := want(it)
		return !sameIndex(it, right)
	}
	return r.index(ctx, LikeIndex, it, wrong, want)
}

func sameIndex(a, b table.Item) bool {
	return a.Get(table.AttrGSI1PK) == b.Get(table.AttrGSI1PK) && a.Get(table.AttrGSI1SK) == b.Get(table.AttrGSI1SK)
}

// index confirms by a consistent read that the index keys of an item are wrong. The index
// keys are attributes of the item, and each write of the item sets them.
func (r *run) index(ctx context.Context, kind Kind, it table.Item, wrong func(table.Item) bool, want func(table.Item) (table.Item, table.Cond)) error {
	if !wrong(it) {
		return nil
	}
	found, err := r.get(ctx, true, it.Key)
	if err != nil {
		return err
	}
	now, ok := found[it.Key]
	if !ok || !wrong(now) {
		return nil
	}
	return r.found(ctx, kind, it.Key, "the keys of the index are not those of the item", func() (bool, error) {
		right, unchanged := want(now)
		up := table.UpdateInput{Key: it.Key, If: unchanged}
		for _, name := range []string{table.AttrGSI1PK, table.AttrGSI1SK} {
			if v := right.Get(name); v.IsZero() {
				up.Remove = append(up.Remove, name)
			} else {
				up.Set = append(up.Set, table.Attr{Name: name, Value: v})
			}
		}
		return r.transact(ctx, table.TransactOp{Update: &up})
	})
}
