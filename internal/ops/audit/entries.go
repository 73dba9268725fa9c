package audit

import (
	"context"
	"slices"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// entryItem checks that the post of an entry exists, and that the user has a reason to see the post.
func (r *run) entryItem(ctx context.Context, user string, it table.Item) error {
	entry, err := schema.ParseEntry(it)
	if err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	if shown, err := r.shownFor(ctx, entry.Post, 0); err != nil || !shown {
		return err // no home shows this entry, and its mark and tombstone may have expired
	}
	ref, post := schema.PostByIDKey(entry.Post), schema.PostKey(entry.Author, entry.Post)
	edge, under, mark := schema.FollowingKey(user, entry.Author), schema.FollowerKey(entry.Author, user), schema.MarkKey(user, entry.Author)
	found, err := r.get(ctx, false, ref, edge, mark)
	if err != nil {
		return err
	}
	if _, ok := found[ref]; !ok {
		// The post is stored before any entry, and the tombstone of a post stays longer than all entries.
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
		return nil // an unfollow leaves a mark that stays longer than the entries
	}
	broken, err := r.transact(ctx, check(it.Key, table.Exists{}), check(edge, table.Absent{}), check(under, table.Absent{}), check(mark, table.Absent{}))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, EntryUnfollowed, it.Key, "the user does not follow the author, and no mark hides the entry", r.mendFollow(ctx, user, entry.Author))
}

// shownFor reports whether homes show a post for at least the time more.
func (r *run) shownFor(ctx context.Context, post string, more time.Duration) (bool, error) {
	lives, err := r.cfg.Lifetimes.Current(ctx)
	if err != nil {
		return false, err
	}
	return post >= id.Floor(lives.Oldest(r.cfg.Now().Add(more))), nil
}

// leavesSoon is the last part of a post's time in homes, in which a missing entry is no finding.
// In this time, a worker whose clock was half a day ahead (docs/decisions/0042) may have omitted
// the post as too old, and then marked its chunk done or ended its backfill. One additional hour
// is for the calls of that worker and of the audit.
const leavesSoon = 13 * time.Hour

// planItem checks that a delivered post has its entries: the author's own entry, and the entries
// of the followers in done chunks.
func (r *run) planItem(ctx context.Context, it table.Item) error {
	plan, err := schema.ParsePlan(it)
	if err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	ttl := plan.TTL.Add(-schema.DeliveryKept) // the delivery record stays for DeliveryKept after the entries
	if shown, err := r.shownFor(ctx, plan.Post, leavesSoon); err != nil || !shown || !r.cfg.Now().Add(leavesSoon).Before(ttl) {
		return err
	}
	key := schema.PostByIDKey(plan.Post)
	found, err := r.get(ctx, true, key)
	if err != nil {
		return err
	}
	ref, err := schema.ParsePostRef(found[key])
	if err != nil || ref.Gone(r.cfg.Now().Add(leavesSoon)) || ref.Author != plan.Author {
		return nil //nolint:nilerr // the post by id is absent or cannot be read
	}
	p := delivered{plan: plan, attrs: schema.EntryAttrs(ref.Until(ttl), ref.LikeShards)}
	own := table.Item{Key: schema.PostKey(plan.Author, plan.Post)} // the same transaction writes the entry
	if err := r.entries(ctx, p, []owed{{plan.Author, own}}); err != nil || plan.State == schema.PlanPulled {
		return err
	}
	return r.each(ctx, table.Query{PK: it.Key.PK, Low: schema.ChunkSK(""), High: schema.SortChunkEnd, Consistent: true}, func(it table.Item) error {
		chunk, err := schema.ParseChunk(it)
		if err != nil || chunk.Done.IsZero() || chunk.Skipped > 0 { // the skipped followers are unknown
			return nil //nolint:nilerr // an item that cannot be read is skipped
		}
		return r.chunk(ctx, p, chunk)
	})
}

// delivered is a post whose entries are checked.
type delivered struct {
	plan  schema.Plan
	attrs []table.Attr
}

// owed is a user who may have a right to an entry. The right depends on the item by: the post
// of an author, or the edge of a follower under the author.
type owed struct {
	user string
	by   table.Item
}

// chunk checks the entries of the followers in a done chunk.
func (r *run) chunk(ctx context.Context, p delivered, c schema.Chunk) error {
	q := table.Query{PK: schema.FollowersPK(p.plan.Author), Low: schema.UserSK(c.First), PageSize: table.MaxBatchGet, Project: []string{schema.AttrSince}}
	if c.End != "" {
		q.High = schema.BelowUser(c.End)
	}
	if r.cfg.Most > 0 {
		q.PageSize = min(r.cfg.Most, q.PageSize)
		q.Low = max(q.Low, schema.UserSK(r.drawn()))
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
				if user, ok := schema.UserOfSK(it.Key.SK); ok {
					users = append(users, owed{user, it})
				}
			}
			if err := r.entries(ctx, p, users); err != nil {
				return err
			}
			if r.cfg.Most > 0 && seen {
				return nil
			}
		}
		if low := schema.UserSK(c.First); r.cfg.Most > 0 && q.Low != low { // no user is after the drawn place
			q.Low = low
			continue
		}
		return nil
	}
}

// letters has the letters of user ids in their order.
const letters = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// drawn returns a random place in the order of user ids.
func (r *run) drawn() string {
	place := make([]byte, 6)
	for i := range place {
		place[i] = letters[int(r.cfg.Random()*float64(len(letters)))]
	}
	return string(place)
}

// entries checks that users have the entry of a post. A worker marks a chunk done after it has written
// the entries, and an entry is deleted only by its expiry or by the removal after an unfollow.
func (r *run) entries(ctx context.Context, p delivered, users []owed) error {
	keys := make([]table.Key, len(users))
	for i, u := range users {
		keys[i] = p.entry(u.user)
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
		if err := r.entryMissing(ctx, p, u); err != nil {
			return err
		}
	}
	return nil
}

func (p delivered) entry(user string) table.Key {
	return table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(p.plan.Post, p.plan.Author)}
}

// entryMissing confirms that a user has a right to the entry of a post and lacks the entry.
func (r *run) entryMissing(ctx context.Context, p delivered, u owed) error {
	owes, err := r.owes(ctx, p, u)
	if err != nil || owes == nil {
		return err
	}
	key := p.entry(u.user)
	owes = append(owes, check(schema.PostByIDKey(p.plan.Post), living()))
	broken, err := r.transact(ctx, slices.Concat(owes, []table.TransactOp{check(key, table.Absent{})})...)
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, EntryMissing, key, "the post was delivered to this home", func() (bool, error) {
		users, err := r.present(ctx, p, u)
		if err != nil || users == nil {
			return false, err
		}
		put := table.PutInput{Item: table.Item{Key: key, Attrs: p.attrs}, If: table.Absent{}}
		return r.transact(ctx, slices.Concat(owes, users, []table.TransactOp{{Put: &put}})...)
	})
}

// owes returns the checks of a state in which a user has a right to an entry. It returns nil if
// the user has no such right.
//
// A follower has a right to each post that the follow shows, unless a mark hides the post or
// merges it in. A fan-out that found the edge wrote the entry. A fan-out that did not find the
// edge had stored the post before the edge was made. Then the backfill copied the post before it
// ended the mark, or it made the mark pulled. The times of edges prove nothing, because an import
// makes edges with times of years ago.
func (r *run) owes(ctx context.Context, p delivered, u owed) ([]table.TransactOp, error) {
	if u.user == p.plan.Author {
		return []table.TransactOp{check(u.by.Key, table.Exists{})}, nil
	}
	edge, mark := schema.FollowingKey(u.user, p.plan.Author), schema.MarkKey(u.user, p.plan.Author)
	found, err := r.get(ctx, false, edge, mark)
	if err != nil {
		return nil, err
	}
	listed, follows := found[edge]
	if !follows || p.plan.Post < listed.Str(schema.AttrFrom) {
		return nil, nil
	}
	var marked table.Cond = table.Absent{}
	if it, there := found[mark]; there {
		m, err := schema.ParseMark(it)
		if err != nil || m.Hides(p.plan.Post) || m.Pulls(p.plan.Post) || m.Kind == schema.MarkBackfill && m.Until.IsZero() {
			return nil, nil //nolint:nilerr // an item that cannot be read is skipped
		}
		marked = table.All{same(it, schema.AttrVersion), same(it, schema.AttrUntil)}
	}
	return []table.TransactOp{check(u.by.Key, same(u.by, schema.AttrSince)), check(mark, marked)}, nil // each new follow has a new mark
}

// present returns the checks that the users of an entry have profiles. It returns nil if a
// user was removed, because no repair makes an item of a removed user. The author of a post
// may never have had a profile (docs/PRODUCERS.md), and then has no follower.
func (r *run) present(ctx context.Context, p delivered, u owed) ([]table.TransactOp, error) {
	if u.user == p.plan.Author {
		removed, still, err := r.removed(ctx, u.user)
		if err != nil || removed {
			return nil, err
		}
		return []table.TransactOp{still}, nil
	}
	return []table.TransactOp{check(schema.ProfileKey(u.user), table.Exists{}), check(schema.ProfileKey(p.plan.Author), table.Exists{})}, nil
}
