package audit

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// postItem checks that a listed post has its post by id, and the number of its comments. One
// transaction makes both items, and one takes the post from the list and makes the tombstone.
func (r *run) postItem(ctx context.Context, it table.Item) error {
	post, err := schema.ParsePost(it)
	if err != nil {
		return nil //nolint:nilerr // items that cannot be read are passed by
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
		// A removal finds posts by their lists and deletes them by id, so it has missed this one.
		removed, still, err := r.removed(ctx, post.Author)
		if err != nil {
			return false, err
		}
		if removed {
			return r.transact(ctx, append(goes, still)...)
		}
		made := schema.PostRef{ID: post.ID, Author: post.Author, LikeShards: post.LikeShards}
		return r.transact(ctx, check(it.Key, table.Exists{}), table.TransactOp{Put: &table.PutInput{Item: made.Item(), If: now}}, still)
	})
}

// removed reports whether a user was removed, or is being removed, and has no profile since.
// still fails a transaction if that has changed.
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

// refItem checks that a living post by id has its post, and its like count.
func (r *run) refItem(ctx context.Context, it table.Item) error {
	ref, err := schema.ParsePostRef(it)
	if err != nil || ref.Deleted {
		return nil //nolint:nilerr // items that cannot be read are passed by
	}
	key := schema.PostKey(ref.Author, ref.ID)
	found, err := r.get(ctx, false, key)
	if err != nil {
		return err
	}
	if _, ok := found[key]; ok {
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

// commentItem checks the keys of a comment in the index of comments by user.
func (r *run) commentItem(ctx context.Context, it table.Item) error {
	wrong := func(it table.Item) bool {
		c, err := schema.ParseComment(it)
		return err == nil && c.Author != "" && !sameIndex(it, c.Item())
	}
	return r.index(ctx, CommentIndex, it, wrong, func(it table.Item) (table.Item, table.Cond) {
		c, _ := schema.ParseComment(it) // wrong has parsed it
		return c.Item(), same(it, schema.AttrAuthor)
	})
}

// likeItem checks the keys of a like in the index of likes by user.
func (r *run) likeItem(ctx context.Context, it table.Item) error {
	want := func(it table.Item) (table.Item, table.Cond) {
		l, _ := schema.ParseLike(it) // wrong has parsed it
		l.Indexed = r.cfg.LikesByUser || l.Indexed
		return l.Item(), table.All{same(it, schema.AttrFlush), same(it, schema.AttrVersion)}
	}
	wrong := func(it table.Item) bool {
		l, err := schema.ParseLike(it)
		if err != nil || l.Liked && !l.Indexed && !r.cfg.LikesByUser {
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

// index confirms by a consistent read that the index keys of an item are wrong. They are part
// of the item, and each write sets them with it.
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

// entryItem checks that an entry has its post, and its user a reason to see it.
func (r *run) entryItem(ctx context.Context, user string, it table.Item) error {
	entry, err := schema.ParseEntry(it)
	if err != nil {
		return nil //nolint:nilerr // items that cannot be read are passed by
	}
	if shown, err := r.shownFor(ctx, entry.Post, 0); err != nil || !shown {
		return err // an entry of a longer TTL, whose mark and tombstone may have expired
	}
	ref, post := schema.PostByIDKey(entry.Post), schema.PostKey(entry.Author, entry.Post)
	edge, under, mark := schema.FollowingKey(user, entry.Author), schema.FollowerKey(entry.Author, user), schema.MarkKey(user, entry.Author)
	found, err := r.get(ctx, false, ref, edge, mark)
	if err != nil {
		return err
	}
	if _, ok := found[ref]; !ok {
		// The post is stored before any entry, and its tombstone outlives them all.
		none := []table.TransactOp{check(ref, table.Absent{}), check(post, table.Absent{})}
		broken, err := r.transact(ctx, append(none, check(it.Key, table.Exists{}))...)
		if err != nil || !broken {
			return err
		}
		return r.found(ctx, EntryOrphan, it.Key, "there is no such post", func() (bool, error) {
			return r.transact(ctx, append(none, table.TransactOp{Delete: &table.DeleteInput{Key: it.Key}})...)
		})
	}
	_, follows := found[edge]
	if _, marked := found[mark]; follows || marked || user == entry.Author {
		return nil // an unfollow leaves a mark that outlives the entries
	}
	broken, err := r.transact(ctx, check(it.Key, table.Exists{}), check(edge, table.Absent{}), check(under, table.Absent{}), check(mark, table.Absent{}))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, EntryUnfollowed, it.Key, "the user does not follow the author, and no mark hides the entry", r.mendFollow(ctx, user, entry.Author))
}

// shownFor reports whether homes show a post for some time more.
func (r *run) shownFor(ctx context.Context, post string, more time.Duration) (bool, error) {
	lives, err := r.cfg.Lifetimes.Current(ctx)
	if err != nil {
		return false, err
	}
	return post >= id.Floor(lives.Oldest(r.cfg.Now().Add(more))), nil
}

// planItem checks that a delivered post has its entries: the author's own, and those of the
// followers of done chunks.
func (r *run) planItem(ctx context.Context, it table.Item) error {
	plan, err := schema.ParsePlan(it)
	if err != nil {
		return nil //nolint:nilerr // items that cannot be read are passed by
	}
	made, err := id.Time(plan.Post)
	if err != nil {
		return nil //nolint:nilerr // an id without a time is none of the product's
	}
	// The TTL of the entries is in the record. Entries that soon expire are left alone.
	ttl := plan.TTL.Add(-schema.DeliveryKept)
	if shown, err := r.shownFor(ctx, plan.Post, time.Hour); err != nil || !shown || !r.cfg.Now().Add(time.Hour).Before(ttl) {
		return err
	}
	key := schema.PostByIDKey(plan.Post)
	found, err := r.get(ctx, true, key)
	if err != nil {
		return err
	}
	ref, err := schema.ParsePostRef(found[key])
	if err != nil || ref.Deleted || ref.Author != plan.Author {
		return nil //nolint:nilerr // there is none, or it cannot be read
	}
	p := delivered{plan: plan, ref: ref, before: made.Add(-margin), attrs: schema.EntryAttrs(ttl, ref.LikeShards)}
	own := check(schema.PostKey(plan.Author, plan.Post), table.Exists{}) // its transaction writes the entry, too
	if err := r.entries(ctx, p, []owed{{plan.Author, []table.TransactOp{own}}}); err != nil || plan.State == schema.PlanPulled {
		return err
	}
	return r.each(ctx, table.Query{PK: it.Key.PK, Low: schema.ChunkSK(""), High: schema.SortChunkEnd, Consistent: true}, func(it table.Item) error {
		chunk, err := schema.ParseChunk(it)
		if err != nil || chunk.Done.IsZero() || chunk.Skipped > 0 { // which followers were away then is not known
			return nil //nolint:nilerr // items that cannot be read are passed by
		}
		return r.chunk(ctx, p, chunk)
	})
}

// delivered is a post whose entries are checked. Follows from before are owed an entry.
type delivered struct {
	plan   schema.Plan
	ref    schema.PostRef
	before time.Time
	attrs  []table.Attr
}

// owed is a user with a right to an entry as long as checks hold.
type owed struct {
	user   string
	checks []table.TransactOp
}

// chunk checks the entries of the followers of a done chunk.
func (r *run) chunk(ctx context.Context, p delivered, c schema.Chunk) error {
	q := table.Query{PK: schema.FollowersPK(p.plan.Author), Low: schema.UserSK(c.First), PageSize: table.MaxBatchGet, Project: []string{schema.AttrSince}}
	if c.End != "" {
		q.High = schema.BelowUser(c.End)
	}
	if r.cfg.Most > 0 {
		q.PageSize = min(r.cfg.Most, q.PageSize)
		q.Low = max(q.Low, schema.UserSK(drawn()))
	}
	for {
		seen := false
		for page, err := range r.cfg.Store.Query(ctx, q) {
			if err := r.spend(ctx, page.Units, err); err != nil {
				return err
			}
			users := make([]owed, 0, len(page.Items))
			for _, it := range page.Items {
				seen = true
				edge, err := schema.ParseEdge(it)
				if err == nil && edge.Since.Before(p.before) {
					users = append(users, owed{edge.Other, []table.TransactOp{check(it.Key, same(it, schema.AttrSince))}})
				}
			}
			if err := r.entries(ctx, p, users); err != nil {
				return err
			}
			if r.cfg.Most > 0 && seen {
				return nil
			}
		}
		if low := schema.UserSK(c.First); r.cfg.Most > 0 && q.Low != low { // nobody was behind the drawn place
			q.Low = low
			continue
		}
		return nil
	}
}

// letters are those of user ids, in their order.
const letters = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// drawn returns a random place among user ids.
func drawn() string {
	place := make([]byte, 6)
	for i := range place {
		place[i] = letters[rand.IntN(len(letters))]
	}
	return string(place)
}

// entries checks that users have the entry of a post. A chunk is done after its entries were
// written, and only its expiry or the removal after an unfollow deletes an entry.
func (r *run) entries(ctx context.Context, p delivered, users []owed) error {
	sk := schema.EntrySK(p.plan.Post, p.plan.Author)
	keys := make([]table.Key, len(users))
	for i, u := range users {
		keys[i] = table.Key{PK: schema.TimelinePK(u.user), SK: sk}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := r.get(ctx, false, keys...)
	if err != nil {
		return err
	}
	for i, u := range users {
		if _, ok := found[keys[i]]; ok {
			continue
		}
		owes := append(slices.Clone(u.checks), check(schema.PostByIDKey(p.plan.Post), living()))
		broken, err := r.transact(ctx, append(owes, check(keys[i], table.Absent{}))...)
		if err != nil {
			return err
		}
		if !broken {
			continue
		}
		err = r.found(ctx, EntryMissing, keys[i], "the post was delivered to this home", func() (bool, error) {
			put := table.PutInput{Item: table.Item{Key: keys[i], Attrs: p.attrs}, If: table.Absent{}}
			return r.transact(ctx, append(owes, table.TransactOp{Put: &put})...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
